"""The rules on duplicates, which compare a pair with all earlier ones by 8-byte hashes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.data.check.checker import Checked
from nmt.data.phrases.trie import find_entries
from nmt.data.read.pairs import SentencePair

Hashes = NDArray[np.uint64]


class SeenHashes:
    """A growing set of 64-bit hashes: sorted runs, each at least twice as long as the next.

    It takes 8 bytes per hash, and briefly twice that. Among 10 million different texts, two share a hash with a
    probability of 3 in a million.
    """

    def __init__(self) -> None:
        self._runs: list[Hashes] = []

    def add(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Add hashes, and return for each whether it was known already or occurs earlier in `hashes`."""
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        known = np.zeros(len(distinct), dtype=np.bool_)
        for run in self._runs:
            known |= find_entries(run, distinct) >= 0
        seen: NDArray[np.bool_] = known[inverse] | (np.arange(len(hashes)) != first[inverse])
        if not known.all():
            self._runs.append(distinct[~known])
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            merged = np.concatenate((self._runs.pop(), self._runs.pop()))
            merged.sort(kind="stable")  # of two sorted runs: one merge
            self._runs.append(merged)
        return seen


class Repeats:
    """The pairs seen so far. The first of several equal pairs breaks no rule; unwanted rules take no memory."""

    def __init__(self, wanted: Collection[str]):
        names = "duplicate", "near_duplicate", "repeated_source"
        self._seen = {name: SeenHashes() for name in names if name in wanted}

    def mark(self, checked: Checked, pairs: Sequence[SentencePair]) -> None:
        """Add these rules to those of a chunk; call it with chunks in corpus order.

        Empty pairs, duplicates and pairs whose hash is 0 are neither compared nor remembered.
        """
        for name, seen in self._seen.items():
            values = checked.near_hashes
            if name != "near_duplicate":  # by Python's own hashes, which must not leave this process
                values = [hash(pair[:2] if name == "duplicate" else pair.src) for pair in pairs]
            hashes = np.array(values, dtype=np.int64).view(np.uint64)
            are_new = ["empty" not in broken and "duplicate" not in broken for broken in checked.rules]
            rows = np.flatnonzero(np.array(are_new, dtype=np.bool_) & (hashes != 0))
            for row in rows[seen.add(hashes[rows])].tolist():
                checked.rules[row].add(name)
