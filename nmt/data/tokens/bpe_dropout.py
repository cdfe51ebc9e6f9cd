"""BPE-dropout: byte pair encoding that drops merges at random (Provilkov et al. 2020, section 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.data.tokens.subword_vocabulary import Codes, SubwordVocabulary

_NO_MERGE = np.iinfo(np.int64).max
_ONE = 1 << 32  # probabilities are fractions of it


class BpeDropoutSampler:
    """Merges the best pair of each unit, step by step; at every step, drops each merge with probability `alpha`.

    A unit is finished when no merge is possible, or all possible merges are dropped.
    """

    def __init__(self, vocabulary: SubwordVocabulary, codes: Codes, alpha: float):
        self._codes = codes
        self._dropped_below = int(alpha * _ONE)
        tokens, scores = vocabulary.tokens, vocabulary.scores
        merges = sorted(
            (tokens[token[:cut]] * _ONE + tokens[token[cut:]], merged)
            for token, merged in tokens.items()
            for cut in range(1, len(token))
            if token[:cut] in tokens and token[cut:] in tokens
        )
        by_score = sorted(tokens.values(), key=lambda i: (-scores[i], i))
        rank = np.zeros(len(scores) + 1, dtype=np.int64)
        rank[by_score] = np.arange(len(by_score))
        self._pairs = np.array([pair for pair, _ in merges] or [-1], dtype=np.int64)  # sorted
        self._merged = np.array([merged for _, merged in merges] or [0], dtype=np.int64)
        self._ranks = rank[self._merged]  # the lower, the earlier
        self.forget()

    def forget(self) -> None:
        """Drop all units."""
        self._lengths, self._starts, self._characters = (np.zeros(0, dtype=np.int64) for _ in range(3))

    def read(self, units: Sequence[str]) -> None:
        """Add `units`, spelled in characters and numbered consecutively, for `draw` to segment."""
        symbols = self._codes.user_symbols
        rows = [[self._codes.of(unit)] if unit in symbols else [*map(self._codes.of, unit)] for unit in units]
        self._lengths = np.concatenate([self._lengths, np.array([len(row) for row in rows], dtype=np.int64)])
        self._starts = self._lengths.cumsum() - self._lengths
        characters = np.array([code for row in rows for code in row], dtype=np.int64)
        self._characters = np.concatenate([self._characters, characters])

    def draw(self, which: NDArray[np.int64], bits: np.random.PCG64) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw a segmentation for each unit number in `which` [U].

        Returns all codes, concatenated, and the number of codes per unit [U].
        """
        lengths, starts = self._lengths[which], self._starts[which]
        counts = np.zeros(len(which), dtype=np.int64)
        done: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        units, codes = np.zeros(0, dtype=np.int64), np.zeros((0, int(lengths.max(initial=0))), dtype=np.int64)
        for width in range(codes.shape[1], 0, -1):  # every merge makes a unit shorter by one
            new = np.flatnonzero(lengths == width)
            units = np.concatenate([units, new])
            codes = np.concatenate([codes, self._characters[starts[new][:, None] + np.arange(width)]])
            places, merged = self._best_merges(codes, bits)
            going_on = places >= 0
            done.append((units[~going_on], codes[~going_on]))
            counts[units[~going_on]] = width
            units, codes = units[going_on], _merge(codes[going_on], places[going_on], merged[going_on])
        drawn = np.zeros(int(counts.sum()), dtype=np.int64)
        begins = counts.cumsum() - counts
        for rows, row_codes in done:
            drawn[begins[rows][:, None] + np.arange(row_codes.shape[1])] = row_codes
        return drawn, counts

    def _best_merges(
        self, codes: NDArray[np.int64], bits: np.random.PCG64
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the position of the best remaining merge per row of `codes` [R, width] (-1: none), and its result."""
        num_rows, width = codes.shape
        if width == 1 or num_rows == 0:
            return np.full(num_rows, -1), np.zeros(num_rows, dtype=np.int64)
        pairs = codes[:, :-1] * _ONE + codes[:, 1:]
        found = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        ranks = np.where(self._pairs[found] == pairs, self._ranks[found], _NO_MERGE)
        drawn = (bits.random_raw(ranks.size) >> np.uint64(32)).astype(np.int64).reshape(ranks.shape)
        ranks[drawn < self._dropped_below] = _NO_MERGE
        places = ranks.argmin(axis=1)
        rows = np.arange(num_rows)
        return np.where(ranks[rows, places] == _NO_MERGE, -1, places), self._merged[found[rows, places]]


def _merge(codes: NDArray[np.int64], places: NDArray[np.int64], merged: NDArray[np.int64]) -> NDArray[np.int64]:
    """Replace two codes by one at a position in each row: [R, width] -> [R, width - 1]."""
    num_rows, width = codes.shape
    rows = np.arange(num_rows)
    codes[rows, places] = merged
    stays = np.ones(codes.shape, dtype=bool)
    stays[rows, places + 1] = False
    return codes[stays].reshape(num_rows, width - 1)
