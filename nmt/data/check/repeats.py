"""The rules on duplicates, which compare a pair with all earlier ones by 8-byte hashes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.data.check.checker import Checked
from nmt.data.check.rules import BIT
from nmt.data.phrases.trie import find_entries

Hashes = NDArray[np.uint64]

_EMPTY = BIT["empty"]
_DUPLICATE = BIT["duplicate"]
_NEAR_DUPLICATE = BIT["near_duplicate"]
_REPEATED_SOURCE = BIT["repeated_source"]


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
    """The pairs seen so far. The first of several equal pairs breaks no rule; a rule not in `bits` takes no memory."""

    def __init__(self, bits: int):
        self._bits = bits
        self._seen = {bit: SeenHashes() for bit in (_DUPLICATE, _NEAR_DUPLICATE, _REPEATED_SOURCE)}

    def flags(self, chunk: Checked, src: Sequence[str], tgt: Sequence[str]) -> NDArray[np.int64]:
        """Return the flags of a chunk, duplicates included; call it with chunks in corpus order."""
        flags = chunk.flags.copy()
        if self._bits & (_DUPLICATE | _NEAR_DUPLICATE | _REPEATED_SOURCE):
            self._mark(_DUPLICATE, flags, _hashes(zip(src, tgt, strict=True), len(src)))
        if self._bits & _NEAR_DUPLICATE:
            self._mark(_NEAR_DUPLICATE, flags, chunk.near_hashes)
        if self._bits & _REPEATED_SOURCE:
            self._mark(_REPEATED_SOURCE, flags, _hashes(src, len(src)))
        return flags

    def _mark(self, bit: int, flags: NDArray[np.int64], hashes: Hashes) -> None:
        """Set `bit` for pairs whose hash is known, and add the others. Skip empty pairs, duplicates and hashes of 0."""
        rows = (flags & (_EMPTY | _DUPLICATE) == 0) & (hashes != 0)
        flags[rows] |= np.where(self._seen[bit].add(hashes[rows]), bit, 0)


def _hashes(values: Iterable[object], count: int) -> Hashes:
    """Return Python's own 64-bit hashes. They differ between processes, so they must not leave this one."""
    return np.fromiter(map(hash, values), dtype=np.int64, count=count).view(np.uint64)
