"""Align the words of pairs, by the lexicon of their corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.base.languages import Direction, written_without_spaces
from nmt.base.special_tokens import EOS_ID
from nmt.data.store.glossary_pairs import TermLexicon
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair

TENSION = 4.0  # fast_align begins with it too
_MIN_SIMILARITY = 0.1  # of linked words

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float32]


class Aligner:
    """Aligns the words of pairs, however these are segmented, by a lexicon of their languages."""

    def __init__(self, lexicon: TermLexicon, tokenizers: TokenizerPair, directions: Iterable[Direction]):
        """Align pairs in `directions`, or, as swapped pairs, in the opposite ones."""
        self._lexicon = lexicon
        src, tgt = ({*side} for side in zip(*directions, strict=True))
        self._src = _WordStarts(tokenizers.src, any(map(written_without_spaces, src)))
        self._tgt = _WordStarts(tokenizers.tgt, any(map(written_without_spaces, tgt)))

    def align(self, src: Ids, tgt: Ids, swapped: Flags | None = None) -> Floats:
        """Return the links [B, T, S] of target tokens [B, T] to source tokens [B, S]: 0, or 1 / (links of the target).

        Two words are linked if each is the best translation of the other, where near places in their sentences count
        (the intersection of both directions; Och and Ney 2003, section 3.3); all of their tokens then are. The sides of
        `swapped` pairs [B] are those of the corpus exchanged.
        """
        if swapped is None:
            links = self._link(src, tgt)
        else:
            links = np.zeros((len(src), tgt.shape[1], src.shape[1]), bool)
            links[~swapped] = self._link(src[~swapped], tgt[~swapped])
            links[swapped] = self._link(tgt[swapped], src[swapped]).transpose(0, 2, 1)
        return links / np.maximum(links.sum(2, keepdims=True), 1).astype(np.float32)

    def links(self, src: Sequence[int], tgt: Sequence[int], *, swapped: bool) -> list[tuple[int, int]]:
        """Return the links (source token, target token) of one pair of tokens without eos, as in `align`."""
        if not (src and tgt):
            return []
        links = self.align(np.array([src]), np.array([tgt]), np.array([swapped]))[0]
        return [(source, target) for target, source in np.argwhere(links).tolist()]

    def _link(self, src: Ids, tgt: Ids) -> Flags:
        if not len(src):
            return np.zeros((0, tgt.shape[1], src.shape[1]), bool)
        similarities = self._lexicon.of_tokens(src[:, None, :], tgt[:, :, None])
        src_starts, tgt_starts = self._src.find(src), self._tgt.find(tgt)
        by_tgt = _by_word(np.maximum, similarities, tgt_starts).transpose(0, 2, 1)  # [B, S, T]
        by_src = _by_word(np.maximum, similarities.transpose(0, 2, 1), src_starts).transpose(0, 2, 1)
        scores = (_mean(by_src, tgt_starts) + _mean(by_tgt, src_starts).transpose(0, 2, 1)) / 2
        distances = _places(tgt, tgt_starts) - _places(src, src_starts).transpose(0, 2, 1)
        near = scores * np.exp(-TENSION * np.abs(distances))
        least = near * (1 + 1e-5)  # because equal scores may differ by rounding
        is_best = (least >= near.max(1, keepdims=True)) & (least >= near.max(2, keepdims=True))
        return is_best & (scores >= _MIN_SIMILARITY)


class _WordStarts:
    """Finds the tokens that begin words: at a space; a symbol or special token is a word."""

    def __init__(self, tokenizer: Tokenizer, without_spaces: bool):
        tokens = tokenizer.tokens(range(tokenizer.vocab_size))
        self._alone = np.array([token != "▁" and not any(map(str.isalnum, token)) for token in tokens])
        self._alone[: EOS_ID + 1] = True
        self._begins = self._alone | np.array([without_spaces or token.startswith("▁") for token in tokens])

    def find(self, ids: Ids) -> Flags:
        """Return which of ids [B, N] begin a word."""
        starts = self._begins[ids]
        starts[:, 1:] |= self._alone[ids[:, :-1]]
        starts[:, 0] = True
        return starts


def _mean(values: Floats, starts: Flags) -> Floats:
    """Replace each row of values [B, N, M] by the mean of its word."""
    return _by_word(np.add, values, starts) / _by_word(np.add, np.ones((*starts.shape, 1), np.float32), starts)


def _by_word(function: np.ufunc, values: Floats, starts: Flags) -> Floats:
    """Replace each row of values [B, N, M] by what `function` makes of all rows of its word."""
    first = np.flatnonzero(starts)
    words = function.reduceat(values.reshape(-1, values.shape[2]), first)
    return np.repeat(words, np.diff(first, append=starts.size), axis=0).reshape(values.shape)


def _places(ids: Ids, starts: Flags) -> Floats:
    """Return the place [B, N, 1] of each word, from 0 to 1 within its sentence."""
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.float32) + 0.5, ids.shape)
    return _mean(positions[..., None], starts) / np.maximum((ids > EOS_ID).sum(1), 1)[:, None, None]
