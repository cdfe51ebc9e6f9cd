"""Texts that were seen before, in a bounded memory of 8 bytes each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_SMALLEST = 1 << 16


class SeenHashes:
    """A growing set of 64-bit hashes: sorted arrays, each at least twice as long as the next.

    Memory: 8 bytes per hash, twice that for a moment when arrays are merged. Of 10 million different texts, two have
    the same hash with a probability of 3 in a million.
    """

    def __init__(self) -> None:
        self._runs: list[Hashes] = []
        self._recent: Hashes = np.empty(0, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, self._runs))

    def add(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Add hashes and return for each whether it was there already, or stands earlier in `hashes`."""
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        known = np.zeros(len(distinct), dtype=np.bool_)
        for run in (*self._runs, self._recent):
            known |= _is_in(distinct, run)
        seen: NDArray[np.bool_] = known[inverse] | (np.arange(len(hashes)) != first[inverse])
        self._recent = _merged(self._recent, distinct[~known])
        if len(self._recent) >= _SMALLEST:
            self._runs.append(self._recent)
            self._recent = np.empty(0, dtype=np.uint64)
            while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
                self._runs.append(_merged(self._runs.pop(), self._runs.pop()))
        return seen


def _is_in(values: Hashes, run: Hashes) -> NDArray[np.bool_]:
    """Return which of `values` are in the sorted array `run`."""
    if not len(run):
        return np.zeros(len(values), dtype=np.bool_)
    places = np.minimum(np.searchsorted(run, values), len(run) - 1)
    return run[places] == values


def _merged(first: Hashes, second: Hashes) -> Hashes:
    merged = np.concatenate((first, second))
    merged.sort(kind="stable")  # of two sorted runs: one merge
    return merged
