"""Learn which target tokens translate each source token, with IBM model 1 (Brown et al. 1993, section 4.1).

The model is learned in both directions, block by block, from the token ids of a store. Only one block is in memory, and
a table of the token pairs that occur together. The table has at most `MAX_ENTRIES` rows; if there are more, rare pairs
are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.store.positions import Ints, positions
from nmt.data.store.store import TokenStore

ITERATIONS = 5
MAX_PAIRS = 500_000  # default maximum of sentence pairs to learn from; a larger corpus is subsampled, every n-th pair
MAX_ENTRIES = 20_000_000
MAX_CELLS = 64_000_000  # maximum product of the vocabulary sizes for a lookup table; beyond it, keys are searched
MAX_LINKS = 1_000_000  # maximum pairs of positions in a block and in one sentence pair; longer pairs are skipped

Floats = NDArray[np.float64]


class Lexicon(NamedTuple):
    """The expected number of links of a source and a target token, summed over both directions."""

    src: Ints  # [entries], ascending
    tgt: Ints  # [entries]
    links: Floats  # [entries]


_Block = tuple[Ints, Ints, Ints, Ints, Ints, Floats]
"""All pairs of a source and a target position in a block of sentence pairs, and its source and target tokens:

keys [links] (source token x target vocabulary + target token), source and target positions [links], tokens, and how far
the two positions are apart [links], as a share of their sentences.
"""


class _Entries:
    """The token pairs that occur together, each with a number."""

    def __init__(self, keys: Ints, num_cells: int):
        """Assign numbers to `keys`, which are ascending and below `num_cells`."""
        self.keys = keys
        self.numbers = np.full(num_cells, -1, np.int32) if num_cells <= MAX_CELLS else None
        if self.numbers is not None:
            self.numbers[keys] = np.arange(len(keys), dtype=np.int32)

    def find(self, keys: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the numbers of those `keys` that are entries, and a mask of them."""
        if self.numbers is not None:
            found = self.numbers[keys].astype(np.int64)
            return found[found >= 0], found >= 0
        found = np.searchsorted(self.keys, keys).clip(max=max(0, len(self.keys) - 1))
        known = self.keys[found] == keys
        return found[known], known


class _Direction:
    """Model 1 in one direction: each position on one side links to a position on the other side, or to NULL."""

    def __init__(self, given: Ints, vocab_size: int):
        """Start with equal probabilities. `given` [entries] is the token that each entry's probability depends on."""
        self.given = given
        self.probabilities = np.ones(len(given))
        self.null = np.ones(vocab_size)  # of each token, without a link
        self._forget()

    def _forget(self) -> None:
        self.counts, self.null_counts = np.zeros(len(self.given)), np.zeros(len(self.null))

    def expect(self, entries: Ints, positions: Ints, ids: Ints, near: Floats | None) -> None:
        """Add the expected links of a block; `positions` [links] are indices into the explained tokens `ids`.

        `near` [links] is the prior of each link, up to a factor; None: the same for all.
        """
        weights = self.probabilities[entries]
        if near is not None:
            sums = np.maximum(np.bincount(positions, near, len(ids)), 1e-30)
            weights *= near * (np.bincount(positions, minlength=len(ids)) / sums)[positions]  # of mean 1, as without it
        totals = self.null[ids] + np.bincount(positions, weights, minlength=len(ids))
        self.counts += np.bincount(entries, weights / totals[positions], minlength=len(self.counts))
        self.null_counts += np.bincount(ids, self.null[ids] / totals, minlength=len(self.null))

    def maximize(self) -> Floats:
        """Set the probabilities from the counts; return the counts and reset them to 0."""
        counts = self.counts
        self.probabilities = counts / np.maximum(np.bincount(self.given, counts), 1e-30)[self.given]
        self.null = self.null_counts / max(float(self.null_counts.sum()), 1e-30)
        # A token that nothing explains, because rare pairs were dropped, must not divide by 0.
        self.null = np.maximum(self.null, 1e-12)
        self._forget()
        return counts


def learn_lexicon(store: TokenStore, tension: float = 0.0, max_pairs: int = MAX_PAIRS) -> Lexicon:
    """Learn which tokens of the two sides of `store` are translations. RunError if the store is damaged.

    With `tension`, tokens at similar places in their sentences are more likely to be linked (Dyer et al. 2013, section
    2: lambda), in both directions. Of more than `max_pairs` pairs, every n-th is used.
    """
    width = store.tgt.vocab_size
    keys = _find_entries(store, max_pairs)
    src = keys // width
    tgt = keys % width
    forward = _Direction(src, width)
    backward = _Direction(tgt, store.src.vocab_size)
    links = np.zeros(len(keys))
    entries = _Entries(keys, store.src.vocab_size * width)
    for _ in range(ITERATIONS):
        for block_keys, src_positions, tgt_positions, src_ids, tgt_ids, distances in _blocks(store, max_pairs):
            found, known = entries.find(block_keys)
            near = np.exp(-tension * distances[known]) if tension else None
            forward.expect(found, tgt_positions[known], tgt_ids, near)
            backward.expect(found, src_positions[known], src_ids, near)
        links = forward.maximize() + backward.maximize()
    return Lexicon(src, tgt, links)


def _find_entries(store: TokenStore, max_pairs: int) -> Ints:
    """Return the keys of the token pairs that occur together, ascending; if too many, only the most frequent ones."""
    keys = np.zeros(0, np.int64)
    counts = np.zeros(0, np.int64)
    for block_keys, *_ in _blocks(store, max_pairs):
        found, found_counts = np.unique(block_keys, return_counts=True)
        keys, places = np.unique(np.concatenate([keys, found]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, found_counts]), minlength=len(keys)).astype(np.int64)
        floor = 1
        while len(keys) > MAX_ENTRIES:  # lossy counting (Manku & Motwani 2002)
            kept = counts > floor
            keys = keys[kept]
            counts = counts[kept]
            floor = floor * 2
    return keys


def _blocks(store: TokenStore, max_pairs: int) -> Iterator[_Block]:
    """Yield the sentence pairs to learn from, in blocks of at most `MAX_LINKS` links."""
    step = -(-len(store) // max_pairs) or 1
    for start in range(0, len(store), step * 100_000):
        pairs = np.arange(start, min(start + step * 100_000, len(store)), step)
        links = store.src.lengths(pairs) * store.tgt.lengths(pairs)
        fits = (links > 0) & (links <= MAX_LINKS)
        pairs = pairs[fits]
        links = links[fits]
        while len(pairs):
            count = max(1, int(np.searchsorted(np.cumsum(links), MAX_LINKS, side="right")))
            yield _block(store, pairs[:count])
            pairs = pairs[count:]
            links = links[count:]


def _block(store: TokenStore, pairs: Ints) -> _Block:
    src_lens, tgt_lens = store.src.lengths(pairs), store.tgt.lengths(pairs)
    src_ids, tgt_ids = store.src.concatenated(pairs), store.tgt.concatenated(pairs)
    num_links = np.repeat(src_lens, tgt_lens)  # of each target position
    src_starts = np.repeat(np.cumsum(src_lens) - src_lens, tgt_lens)
    tgt_positions = np.repeat(np.arange(len(tgt_ids)), num_links)
    src_positions = positions(src_starts, num_links)
    keys = src_ids[src_positions] * store.tgt.vocab_size + tgt_ids[tgt_positions]
    src_places, tgt_places = (
        (positions(np.zeros_like(lens), lens) + 0.5) / np.repeat(lens, lens) for lens in (src_lens, tgt_lens)
    )
    distances = np.abs(src_places[src_positions] - tgt_places[tgt_positions])
    return keys, src_positions, tgt_positions, src_ids, tgt_ids, distances
