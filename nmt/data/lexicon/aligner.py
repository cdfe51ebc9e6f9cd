"""Align the words of pairs, by the lexicon of their corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.base.languages import Direction, has_unspaced, written_without_spaces
from nmt.base.special_tokens import EOS_ID
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair

TENSION = 4.0  # fast_align begins with it too
_MIN_SIMILARITY = 0.1  # of linked words

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float32]


class Aligner:
    """Aligns the words of pairs, however these are segmented, by a lexicon of their languages."""

    def __init__(self, lexicon: TermLexicon, tokenizers: TokenizerPair, direction: Direction):
        """Align pairs in `direction`, or, as swapped pairs, in the opposite one."""
        self._lexicon = lexicon
        self._src = WordStarts(tokenizers.src, written_without_spaces(direction.src, tokenizers.src.letters))
        self._tgt = WordStarts(tokenizers.tgt, written_without_spaces(direction.tgt, tokenizers.tgt.letters))

    def links(self, src: Sequence[int], tgt: Sequence[int], *, swapped: bool) -> list[tuple[int, int]]:
        """Return the links (source token, target token) of one pair of tokens without eos, from 0, by target token.

        Two words are linked if each is the best translation of the other, where near places in their sentences count
        (the intersection of both directions; Och and Ney 2003, section 3.3); all of their tokens then are. The sides of
        a `swapped` pair are those of the corpus exchanged.
        """
        if not (src and tgt):
            return []
        sides = np.array(src), np.array(tgt)
        links = self._link(*sides[::-1]).T if swapped else self._link(*sides)
        return [(source, target) for target, source in np.argwhere(links).tolist()]

    def _link(self, src: Ids, tgt: Ids) -> Flags:
        """Return which of the target tokens [T] and the source tokens [S] are linked: [T, S]."""
        similarities = self._lexicon.of_tokens(src[None, :], tgt[:, None])
        src_starts, tgt_starts = self._src.find(src), self._tgt.find(tgt)
        by_tgt = _by_word(np.maximum, similarities, tgt_starts).T  # [S, T]
        by_src = _by_word(np.maximum, similarities.T, src_starts).T
        scores = (_mean(by_src, tgt_starts) + _mean(by_tgt, src_starts).T) / 2
        distances = _places(tgt, tgt_starts) - _places(src, src_starts).T
        near = scores * np.exp(-TENSION * np.abs(distances))
        least = near * (1 + 1e-5)  # because equal scores may differ by rounding
        is_best = (least >= near.max(0, keepdims=True)) & (least >= near.max(1, keepdims=True))
        return is_best & (scores >= _MIN_SIMILARITY)


class WordStarts:
    """Finds the tokens that begin words: after a space, symbols, special tokens, those in scripts without spaces."""

    def __init__(self, tokenizer: Tokenizer, without_spaces: bool = False):
        tokens = tokenizer.vocabulary
        self._alone = np.array(
            [(token != "▁" and not any(map(str.isalnum, token))) or has_unspaced(token) for token in tokens]
        )
        self._alone[: EOS_ID + 1] = True
        self._begins = self._alone | np.array([without_spaces or token.startswith("▁") for token in tokens])

    def find(self, ids: Ids) -> Flags:
        """Return which of ids [N] begin a word."""
        starts = self._begins[ids]
        starts[1:] |= self._alone[ids[:-1]]
        starts[0] = True
        return starts


def _mean(values: Floats, starts: Flags) -> Floats:
    """Replace each row of values [N, M] by the mean of its word."""
    return _by_word(np.add, values, starts) / _by_word(np.add, np.ones((len(starts), 1), np.float32), starts)


def _by_word(function: np.ufunc, values: Floats, starts: Flags) -> Floats:
    """Replace each row of values [N, M] by what `function` makes of all rows of its word."""
    first = np.flatnonzero(starts)
    return np.repeat(function.reduceat(values, first), np.diff(first, append=len(starts)), axis=0)


def _places(ids: Ids, starts: Flags) -> Floats:
    """Return the place [N, 1] of each word, from 0 to 1 within its sentence."""
    positions = np.arange(len(ids), dtype=np.float32)[:, None] + 0.5
    return _mean(positions, starts) / np.maximum((ids > EOS_ID).sum(keepdims=True), 1)
