"""Sequences of tokens as the nodes of a trie in one ascending array.

Node 0 is the empty sequence, node 1 + w the token w. All nodes have consecutive numbers, shorter sequences first, then
by the number of their prefix and their last token. The key of a node is its prefix x vocabulary + its last token, so
one search in the keys finds a child.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_FIBONACCI = 2_654_435_769  # 2^32 / golden ratio (Knuth 1998, section 6.4)


def concatenate(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return the tokens of all rows, and the number of the row of each."""
    lengths = [len(row) for row in rows]
    tokens = np.fromiter((token for row in rows for token in row), np.int64, sum(lengths))
    return tokens, np.repeat(np.arange(len(rows)), lengths)


def padded(rows: Sequence[Sequence[int]], padding: int) -> Ints:
    """Return the tokens of all rows [N, length of the longest], with `padding` after them."""
    lengths = np.array([len(row) for row in rows])
    cells = np.full((len(rows), lengths.max()), padding)
    cells[np.arange(lengths.max()) < lengths[:, None]] = concatenate(rows)[0]
    return cells


def build_trie(tokens: Ints, rows: Ints, vocab_size: int, longest: int) -> tuple[Ints, list[Ints]]:
    """Return the keys of all sequences of up to `longest` of `tokens` within a row, and their nodes.

    The nodes are listed by length; each list has that of the sequence that ends at each place, 0 if there is none.
    """
    keys = [np.arange(vocab_size)]
    ends = [1 + tokens]
    num_nodes = 1 + vocab_size
    continues = np.zeros(len(tokens), bool)
    continues[1:] = rows[1:] == rows[:-1]
    for _ in range(longest - 1):
        before = np.roll(ends[-1], 1)
        valid = (before > 0) & continues
        level, places = np.unique((before * vocab_size + tokens)[valid], return_inverse=True)
        nodes = np.zeros_like(tokens)
        nodes[valid] = num_nodes + places
        keys.append(level)
        ends.append(nodes)
        num_nodes += len(level)
    return np.concatenate(keys), ends


def find_entries(keys: NDArray[Any], wanted: NDArray[Any]) -> Ints:
    """Return the place of each of `wanted` in `keys`, which ascend; -1 if it is not there."""
    if not len(keys):
        return np.full(wanted.shape, -1)
    order = np.argsort(wanted, axis=None)  # since a binary search is several times as fast for sorted numbers
    in_order = wanted.ravel()[order]
    places = np.empty_like(order)
    found = np.minimum(np.searchsorted(keys, in_order), len(keys) - 1)
    places[order] = np.where(keys[found] == in_order, found, -1)
    return places.reshape(wanted.shape)


class HashedKeys(NamedTuple):
    """Ascending keys that are found by their hashes, in a third of the time of a binary search."""

    keys: Ints
    slots: NDArray[np.int32]  # the place of the key with each hash; of several, the last; -1: there is none
    shared: NDArray[np.bool_]  # of each slot: whether it is that of several keys

    @classmethod
    def of(cls, keys: Ints) -> HashedKeys:
        """Return `keys` with their hashes."""
        slots = np.full(4 << len(keys).bit_length(), -1, np.int32)
        hashes = _hashes(keys, len(slots))
        slots[hashes] = np.arange(len(keys))
        return cls(keys, slots, np.bincount(hashes, minlength=len(slots)) > 1)

    def find(self, wanted: Ints) -> Ints:
        """Return the place of each of `wanted` [N]; -1 if it is not there."""
        if not len(self.keys):
            return np.full(len(wanted), -1)
        hashes = _hashes(wanted, len(self.slots))
        found = self.slots[hashes].astype(np.int64)
        differs = self.keys[found] != wanted
        found[differs] = -1
        others = np.flatnonzero(differs & self.shared[hashes])
        found[others] = find_entries(self.keys, wanted[others])
        return found


def _hashes(numbers: Ints, count: int) -> Ints:
    """Return a hash of each of `numbers`, below `count`, a power of two."""
    return numbers * _FIBONACCI >> 20 & count - 1
