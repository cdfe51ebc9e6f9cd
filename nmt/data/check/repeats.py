"""The rules on duplicates, which compare a pair with all earlier ones by 8-byte hashes."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nmt.data.check.checker import Checked
from nmt.data.check.rules import BIT

Hashes = NDArray[np.uint64]

_MAX_IN_MEMORY = 1 << 20  # hashes: 8 MB
_BLOCK = 1 << 17  # hashes merged at once

_MIN_RUN = 1 << 16

_DUPLICATE, _NEAR_DUPLICATE, _REPEATED_SOURCE = BIT["duplicate"], BIT["near_duplicate"], BIT["repeated_source"]
_EMPTY = BIT["empty"]


class SortedHashes:
    """Distinct hashes in ascending order. More than a million are stored in a memory-mapped file.

    The file has no name, so it disappears with the process, however that ends. It is in the folder for temporary files
    (TMPDIR). If that is full, the hashes stay in memory.
    """

    def __init__(self, hashes: Hashes, mapped: mmap.mmap | None = None):
        """Take sorted hashes, and the file that they are mapped from, if any."""
        self.hashes = hashes
        self._mapped = mapped

    def __len__(self) -> int:
        return len(self.hashes)

    def merged(self, other: SortedHashes) -> Self:
        """Return the hashes of both, which have none in common."""
        if len(self) + len(other) < _MAX_IN_MEMORY:
            return type(self)(_merge(self.hashes, other.hashes))
        try:
            mapped = _write(self._merged_blocks(other))
        except OSError:  # the folder for temporary files is full, or there is none
            return type(self)(_merge(self.hashes, other.hashes))
        return type(self)(np.frombuffer(mapped, dtype=np.uint64), mapped)

    def contains(self, values: Hashes) -> NDArray[np.bool_]:
        """Return a mask of those `values` (in ascending order) that are among the hashes."""
        if not len(self):
            return np.zeros(len(values), dtype=np.bool_)
        found = np.zeros(len(values), dtype=np.bool_)
        # In parts, because even a few thousand values, spread over all hashes, touch every page of the file.
        for part in np.array_split(np.arange(len(values)), len(self) // _MAX_IN_MEMORY + 1):
            places = np.minimum(np.searchsorted(self.hashes, values[part]), len(self) - 1)
            found[part] = self.hashes[places] == values[part]
            self._release()
        return found

    def _merged_blocks(self, other: SortedHashes) -> Iterator[Hashes]:
        """Yield the hashes of both in ascending order, in blocks, so that neither is completely in memory."""
        start = 0
        for begin in range(0, len(self), _BLOCK):
            block = self.hashes[begin : begin + _BLOCK]
            is_last = begin + _BLOCK >= len(self)
            end = len(other) if is_last else int(np.searchsorted(other.hashes, block[-1]))
            yield _merge(block, other.hashes[start:end])
            start = end
            self._release()
            other._release()

    def _release(self) -> None:
        """Return the pages that were read to the system, which keeps them as long as it has free memory."""
        if self._mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)


def _merge(first: Hashes, second: Hashes) -> Hashes:
    """Return the hashes of two sorted arrays as one sorted array."""
    merged = np.concatenate((first, second))
    merged.sort(kind="stable")  # of two sorted runs: one _merge
    return merged


def _write(blocks: Iterator[Hashes]) -> mmap.mmap:
    with tempfile.TemporaryFile(prefix="nmt-") as file:
        for block in blocks:
            file.write(block.data)
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


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
        self._recent = _merge(self._recent, distinct[~known])
        if len(self._recent) >= _MIN_RUN:
            self._runs.append(SortedHashes(self._recent))
            self._recent = np.empty(0, dtype=np.uint64)
            while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
                self._runs.append(self._runs.pop(-2).merged(self._runs.pop()))
        return seen


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
        if self._bits & (_DUPLICATE | _NEAR_DUPLICATE | _REPEATED_SOURCE):
            seen = _seen(self._pairs, _hashes(zip(src, tgt, strict=True), len(src)), whole)
            flags[seen] |= _DUPLICATE
        if self._bits & _NEAR_DUPLICATE:
            near = _seen(self._near, chunk.near_hashes, whole & (chunk.near_hashes != 0))
            flags[near & ~seen] |= _NEAR_DUPLICATE
        if self._bits & _REPEATED_SOURCE:
            flags[_seen(self._sources, _hashes(src, len(src)), whole) & ~seen] |= _REPEATED_SOURCE
        return flags


def _hashes(values: Iterable[object], count: int) -> Hashes:
    """Return Python's own 64-bit hashes. They differ between processes, so they must not leave this one."""
    return np.fromiter(map(hash, values), dtype=np.int64, count=count).view(np.uint64)


def _seen(known: SeenHashes, hashes: Hashes, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add the hashes of `rows` to those known; return which rows were known already."""
    seen = np.zeros(len(hashes), dtype=np.bool_)
    seen[rows] = known.add(hashes[rows])
    return seen
