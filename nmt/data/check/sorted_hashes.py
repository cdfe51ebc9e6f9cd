"""Sorted hashes in memory, or in a temporary file if they are many."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_MAX_IN_MEMORY = 1 << 20  # hashes: 8 MB
_BLOCK = 1 << 17  # hashes merged at once


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
            return type(self)(merge(self.hashes, other.hashes))
        try:
            mapped = _write(self._merged_blocks(other))
        except OSError:  # the folder for temporary files is full, or there is none
            return type(self)(merge(self.hashes, other.hashes))
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
            yield merge(block, other.hashes[start:end])
            start = end
            self._release()
            other._release()

    def _release(self) -> None:
        """Return the pages that were read to the system, which keeps them as long as it has free memory."""
        if self._mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)


def merge(first: Hashes, second: Hashes) -> Hashes:
    """Return the hashes of two sorted arrays as one sorted array."""
    merged = np.concatenate((first, second))
    merged.sort(kind="stable")  # of two sorted runs: one merge
    return merged


def _write(blocks: Iterator[Hashes]) -> mmap.mmap:
    with tempfile.TemporaryFile(prefix="nmt-") as file:
        for block in blocks:
            file.write(block.data)
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
