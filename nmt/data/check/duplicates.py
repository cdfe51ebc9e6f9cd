"""Detect repeated texts by 8-byte hashes, kept in memory, or in a temporary file if there are many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nmt.data.check.sorted_hashes import Hashes, SortedHashes, merge

_SMALLEST = 1 << 16


class SeenHashes:
    """A growing set of 64-bit hashes: sorted runs, each at least twice as long as the next.

    With 10 to 30 million hashes it takes about 50 MB of memory. The rest is in temporary files, 8 bytes per hash, or
    16 while runs are merged. Among 10 million different texts, two share a hash with a probability of 3 in a million.
    """

    def __init__(self) -> None:
        self._runs: list[SortedHashes] = []
        self._recent: Hashes = np.empty(0, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, self._runs))

    def add(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Add hashes, and return for each whether it was known already or occurs earlier in `hashes`."""
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        known = np.zeros(len(distinct), dtype=np.bool_)
        for run in (*self._runs, SortedHashes(self._recent)):
            known |= run.contains(distinct)
        seen: NDArray[np.bool_] = known[inverse] | (np.arange(len(hashes)) != first[inverse])
        self._recent = merge(self._recent, distinct[~known])
        if len(self._recent) >= _SMALLEST:
            self._runs.append(SortedHashes(self._recent))
            self._recent = np.empty(0, dtype=np.uint64)
            while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
                self._runs.append(self._runs.pop(-2).merged(self._runs.pop()))
        return seen
