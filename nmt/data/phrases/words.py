"""Sources as a phrase table reads them: in lower case, and with their words known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.lexicon.aligner import WordStarts
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair

_STEM = 5  # characters of a stem, the space before a word included


class Word(NamedTuple):
    """A word of a source."""

    start: int  # in the tokens of the source
    end: int
    copy: tuple[int, ...]  # its target tokens, if it is not translated
    is_name: bool  # it has a capital or a digit
    is_symbol: bool  # it can only be copied, as a placeholder


class FoldedSource(NamedTuple):
    """The tokens of a source in lower case, and its words."""

    tokens: list[int]
    words: list[Word]


class Stems(NamedTuple):
    """The tokens or words of sentences, by their first letters, in lower case: most forms of a word are rare."""

    numbers: list[list[int]]
    ends: list[list[int]]  # 0, and the token after each
    size: int  # how many different stems there are


class SourceFolder:
    """Folds sources: each token becomes the one that spells it in lower case, if there is one."""

    def __init__(self, tokenizers: TokenizerPair):
        self._src, self._tgt = tokenizers.src, tokenizers.tgt
        self._starts = WordStarts(tokenizers.src)
        self._lower = lower_case_of(tokenizers.src)
        symbols = {*tokenizers.src.user_symbols}
        self._is_symbol = np.array([token in symbols for token in tokenizers.src.vocabulary])
        self._shares_vocabulary = tokenizers.src.vocabulary == tokenizers.tgt.vocabulary

    def has_symbols(self, ids: Sequence[int]) -> bool:
        """Return whether any token of a source can only be copied."""
        return bool(self._is_symbol[np.array(ids, np.int64)].any())

    def lower(self, ids: Sequence[int]) -> NDArray[np.int64]:
        """Return the tokens `ids` of a source, without eos, in lower case."""
        return self._lower[np.array(ids, np.int64)]

    def fold(self, ids: Sequence[int]) -> FoldedSource:
        """Fold the tokens `ids` of a source, without eos; its words, too, which takes longer."""
        if not len(ids):
            return FoldedSource([], [])
        tokens = np.array(ids, np.int64)
        is_symbol = self._is_symbol[tokens]
        starts = self._starts.find(tokens)
        starts |= is_symbol
        starts[1:] |= is_symbol[:-1]
        spans = pairwise([*np.flatnonzero(starts).tolist(), len(tokens)])
        words = [self._word(start, end, tokens[start:end].tolist()) for start, end in spans]
        return FoldedSource(self.lower(ids).tolist(), words)

    def _word(self, start: int, end: int, ids: list[int]) -> Word:
        text = self._src.decode(ids)
        copy = ids
        if not self._shares_vocabulary:
            copy = self._tgt.encode(text)
            if copy and self._tgt.vocabulary[copy[0]] == "▁" and not self._src.vocabulary[ids[0]].startswith("▁"):
                copy = copy[1:]
        is_name = text != text.lower() or any(map(str.isdigit, text))
        return Word(start, end, tuple(copy), is_name, bool(self._is_symbol[ids[0]]))


def lower_case_of(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Return for each token the one that spells it in lower case; the token itself if there is none."""
    numbers = {token: number for number, token in enumerate(tokenizer.vocabulary)}
    return np.array([numbers.get(token.lower(), number) for number, token in enumerate(tokenizer.vocabulary)])


def stems_of(tokenizer: Tokenizer, rows: Sequence[Sequence[int]], *, words: bool) -> Stems:
    """Return the stems of all tokens in `rows`, or of all `words`."""
    texts = [token.lower() for token in tokenizer.vocabulary]
    starts = WordStarts(tokenizer)
    by_text: dict[str, int] = {}
    numbers: list[list[int]] = []
    ends: list[list[int]] = []
    for row in rows:
        firsts = np.flatnonzero(starts.find(np.array(row))).tolist() if words and row else range(len(row))
        ends.append([*firsts, len(row)])
        stems = ("".join(texts[token] for token in row[start:end]) for start, end in pairwise(ends[-1]))
        numbers.append([by_text.setdefault(stem[:_STEM], len(by_text)) for stem in stems])
    return Stems(numbers, ends, len(by_text))
