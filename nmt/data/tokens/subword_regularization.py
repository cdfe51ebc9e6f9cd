"""Draw random segmentations of a text: subword regularization (Kudo 2018), BPE-dropout (Provilkov et al. 2020).

SentencePiece draws segmentations too, but mixes a number into its seed that differs between processes. Here only the
seed determines them, in every process and on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.tokens.bpe_dropout import BpeDropoutSampler
from nmt.data.tokens.subword_vocabulary import Codes, SubwordVocabulary
from nmt.data.tokens.unigram_sampling import UnigramSampler

SPACE = "▁"
"""The character that SentencePiece writes for a space."""

_SAMPLERS: dict[str, type[UnigramSampler | BpeDropoutSampler]] = {"unigram": UnigramSampler, "bpe": BpeDropoutSampler}
_MAX_UNIT_LENGTH = 1000  # characters; longer units are cut, because the time of a draw grows with the square
_MAX_KEPT = 1_000_000  # characters of the cached units: about 200 MB of lattices


class Segmentations(NamedTuple):
    """One segmentation of each of several texts."""

    ids: NDArray[np.int64]  # [tokens of all texts], concatenated
    lengths: NDArray[np.int64]  # [texts], in tokens


class SubwordSampler:
    """Draws segmentations of texts, determined by the seed and the number of draws since it was set.

    Texts are cut into independent units: user-defined symbols, and words with the space before them (if no token
    crosses a space).
    """

    def __init__(self, vocabulary: SubwordVocabulary, model_type: str, alpha: float, seed: int):
        """Create a sampler for the `model_type` unigram or bpe; ValueError for others, with only one segmentation."""
        if model_type not in _SAMPLERS:
            raise ValueError(f"a tokenizer of type {model_type} has only one segmentation per text")
        self._codes = Codes(vocabulary)
        self._sampler = _SAMPLERS[model_type](vocabulary, self._codes, alpha)
        self._bits = np.random.PCG64(seed)  # its numbers are the same in every version of numpy
        self._numbers: dict[str, int] = {}  # of the distinct units that `_sampler` has read
        self._num_kept = 0  # their characters
        symbols = sorted(vocabulary.user_symbols, key=len, reverse=True)
        self._symbols = re.compile("|".join(map(re.escape, symbols)) or "(?!)")
        crosses_spaces = any(SPACE in token[1:] for token in vocabulary.tokens)
        self._words = re.compile(".+" if crosses_spaces else f"{SPACE}[^{SPACE}]*|[^{SPACE}]+", re.DOTALL)

    def seed(self, *numbers: int) -> None:
        """Reset the seed to `numbers`, whatever was drawn before."""
        self._bits = np.random.PCG64(numbers)

    def draw(self, texts: Sequence[str], count: int) -> Iterator[Segmentations]:
        """Yield `count` segmentations of all `texts`, which must be normalized, with "▁" for each space."""
        units = self._read(texts)
        which = np.fromiter((unit for text_units in units for unit in text_units), dtype=np.int64)
        text_of_unit = np.repeat(np.arange(len(texts)), [len(text_units) for text_units in units])
        for _ in range(count):
            codes, counts = self._sampler.draw(which, self._bits)
            ids, widths = self._codes.ids(codes)
            lengths = np.bincount(np.repeat(text_of_unit, counts), weights=widths, minlength=len(texts))
            yield Segmentations(ids, lengths.astype(np.int64))

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the units of each text, and let the sampler read those that are not cached.

        The units of one call are always in memory together; if there are too many cached ones, they are dropped first.
        Draws do not depend on the cache.
        """
        if self._num_kept > _MAX_KEPT:
            self._numbers.clear()
            self._sampler.forget()
            self._num_kept = 0
        numbers, num_known = self._numbers, len(self._numbers)
        units = [[numbers.setdefault(unit, len(numbers)) for unit in self._units(text)] for text in texts]
        new = list(islice(numbers, num_known, None))
        self._num_kept += sum(map(len, new))
        self._sampler.read(new)
        return units

    def _units(self, text: str) -> list[str]:
        units: list[str] = []
        start = 0
        for match in self._symbols.finditer(text):
            units += self._words_in(text[start : match.start()])
            units.append(match[0])
            start = match.end()
        return units + self._words_in(text[start:])

    def _words_in(self, text: str) -> list[str]:
        words: list[str] = self._words.findall(text)
        if max(map(len, words), default=0) <= _MAX_UNIT_LENGTH:
            return words
        return [
            word[start : start + _MAX_UNIT_LENGTH] for word in words for start in range(0, len(word), _MAX_UNIT_LENGTH)
        ]
