"""Sources as a phrase table reads them: in lower case, and with their words known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.base.languages import written_without_spaces
from nmt.data.lexicon.aligner import WordStarts
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair


class Word(NamedTuple):
    """A word of a source."""

    start: int  # in the folded tokens
    end: int
    length: int  # in the tokens of the source
    copy: tuple[int, ...]  # its target tokens, if it is not translated
    is_name: bool  # it has a capital or a digit
    is_symbol: bool  # it can only be copied, as a placeholder


class FoldedSource(NamedTuple):
    """The tokens of a source in lower case."""

    tokens: list[int]
    words: list[Word]


class SourceFolder:
    """Folds sources: their tokens become those of the text in lower case."""

    def __init__(self, tokenizers: TokenizerPair):
        self._src, self._tgt = tokenizers.src, tokenizers.tgt
        self._starts = WordStarts(tokenizers.src, written_without_spaces("", tokenizers.src.letters))
        self._shares_vocabulary = tokenizers.src.vocabulary == tokenizers.tgt.vocabulary
        ids = map(tokenizers.src.id_of, tokenizers.src.user_symbols)
        self.symbols = {number for number in ids if number is not None}

    def fold(self, ids: Sequence[int]) -> FoldedSource:
        """Fold the tokens `ids` of a source, without eos."""
        original = [int(token) for token in ids]
        tokens = self._src.encode(self._src.decode(original).lower())
        spans, folded = self._spans(original), self._spans(tokens)
        if len(spans) != len(folded):  # as in scripts that are not decoded as they were encoded
            tokens, folded = original, spans
        words = [
            self._word(original[first:last], start, end)
            for (first, last), (start, end) in zip(spans, folded, strict=True)
        ]
        return FoldedSource(tokens, words)

    def _spans(self, ids: list[int]) -> list[tuple[int, int]]:
        if not ids:
            return []
        starts, is_symbol = self._starts.find(np.array(ids)), np.array([token in self.symbols for token in ids])
        starts |= is_symbol
        starts[1:] |= is_symbol[:-1]
        firsts = np.flatnonzero(starts).tolist()
        return list(zip(firsts, [*firsts[1:], len(ids)], strict=False))

    def _word(self, ids: list[int], start: int, end: int) -> Word:
        text = self._src.decode(ids)
        copy = ids
        if not self._shares_vocabulary:
            copy = self._tgt.encode(text)
            if copy and self._tgt.vocabulary[copy[0]] == "▁" and not self._src.vocabulary[ids[0]].startswith("▁"):
                copy = copy[1:]
        is_name = text != text.lower() or any(map(str.isdigit, text))
        return Word(start, end, len(ids), tuple(copy), is_name, not self.symbols.isdisjoint(ids))


def lower_case_of(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Return for each token the one that spells it in lower case; the token itself if there is none."""
    numbers = {token: number for number, token in enumerate(tokenizer.vocabulary)}
    return np.array([numbers.get(token.lower(), number) for number, token in enumerate(tokenizer.vocabulary)])
