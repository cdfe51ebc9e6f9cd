"""The rules on duplicates, which compare a pair with all earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.data.check.checker import Checked
from nmt.data.check.duplicates import SeenHashes
from nmt.data.check.rules import bit_of
from nmt.data.check.sorted_hashes import Hashes

_DUPLICATE, _NEAR, _REPEATED = bit_of("duplicate"), bit_of("near-duplicate"), bit_of("repeated-source")
_EMPTY = bit_of("empty")


class Repeats:
    """The pairs seen so far. The first of several equal pairs breaks no rule.

    Keeps three kinds of hashes, each in a `SeenHashes`; a rule that is not in `bits` takes no memory.
    """

    def __init__(self, bits: int):
        self._bits = bits
        self._pairs, self._near, self._sources = SeenHashes(), SeenHashes(), SeenHashes()

    def flags(self, chunk: Checked, src: Sequence[str], tgt: Sequence[str]) -> NDArray[np.int64]:
        """Return the flags of a chunk, duplicates included; call it with chunks in corpus order."""
        whole = (chunk.flags & _EMPTY) == 0
        flags = chunk.flags.copy()
        seen = np.zeros(len(flags), dtype=np.bool_)
        if self._bits & (_DUPLICATE | _NEAR | _REPEATED):
            seen = _seen(self._pairs, _hashes(zip(src, tgt, strict=True), len(src)), whole)
            flags[seen] |= _DUPLICATE
        if self._bits & _NEAR:
            near = _seen(self._near, chunk.near_hashes, whole & (chunk.near_hashes != 0))
            flags[near & ~seen] |= _NEAR
        if self._bits & _REPEATED:
            flags[_seen(self._sources, _hashes(src, len(src)), whole) & ~seen] |= _REPEATED
        return flags


def _hashes(values: Iterable[object], count: int) -> Hashes:
    """Return Python's own 64-bit hashes. They differ between processes, so they must not leave this one."""
    return np.fromiter(map(hash, values), dtype=np.int64, count=count).view(np.uint64)


def _seen(known: SeenHashes, hashes: Hashes, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add the hashes of `rows` to those known; return which rows were known already."""
    seen = np.zeros(len(hashes), dtype=np.bool_)
    seen[rows] = known.add(hashes[rows])
    return seen
