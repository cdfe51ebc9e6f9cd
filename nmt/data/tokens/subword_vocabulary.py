"""The vocabulary for drawing segmentations; characters without a token are spelled as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SubwordVocabulary:
    """The tokens of a SentencePiece model that spell text, V in total."""

    tokens: dict[str, int]  # token to id, without special, byte and user-defined tokens
    scores: Sequence[float]  # [V]; unigram: log-probabilities; bpe: earlier merges score higher
    user_symbols: dict[str, int]  # symbol to id; these are never split
    byte_ids: Sequence[int]  # [256]; empty if the model has no byte fallback
    unknown_id: int


class Codes:
    """The codes of a segmentation: token ids below V, and codes from V on for characters without a token."""

    def __init__(self, vocabulary: SubwordVocabulary):
        self.user_symbols = vocabulary.user_symbols
        self._vocabulary = vocabulary
        self._of = {**vocabulary.tokens, **vocabulary.user_symbols}
        self._first = len(vocabulary.scores)
        self._spellings: list[Sequence[int]] = []  # of the characters without a token

    def of(self, text: str) -> int:
        """Return the code of a token or a character."""
        code = self._of.get(text)
        if code is None:
            code = self._of[text] = self._first + len(self._spellings)
            byte_ids = self._vocabulary.byte_ids
            spelling = [byte_ids[value] for value in text.encode("utf-8")] if byte_ids else []
            self._spellings.append(spelling or [self._vocabulary.unknown_id])
        return code

    def ids(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the token ids for `codes` [C], concatenated, and the number of ids per code [C]."""
        widths = np.ones(len(codes), dtype=np.int64)
        places = np.flatnonzero(codes >= self._first)
        if len(places) == 0:
            return codes, widths
        spellings = [self._spellings[code - self._first] for code in codes[places]]
        widths[places] = [len(spelling) for spelling in spellings]
        ids = np.repeat(codes, widths)
        ids[ids >= self._first] = [i for spelling in spellings for i in spelling]
        return ids, widths
