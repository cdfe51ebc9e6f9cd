"""Truncate, bucket by length, fill a token budget, pad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.store import TokenStore
from nmt.data.tokenizer import BOS_ID, EOS_ID, PAD_ID

_POOL_PAIRS = 1 << 16  # pairs that are sorted by length together


class Batch(NamedTuple):
    """Right-padded pairs: src [B, S] ends in eos; tgt_in [B, T] starts with bos; tgt_out [B, T] ends in eos."""

    src: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    num_tgt_tokens: int  # real ones in tgt_out, eos included

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        src, tgt_in, tgt_out = (side.to(device, non_blocking=True) for side in (self.src, self.tgt_in, self.tgt_out))
        return Batch(src, tgt_in, tgt_out, self.num_tgt_tokens)


def pad_rows(rows: Sequence[Sequence[int] | NDArray[Any]]) -> Tensor:
    """Rows of ids as one right-padded int64 matrix [B, longest]."""
    padded = np.full((len(rows), max(len(row) for row in rows)), PAD_ID, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)


def collate_sources(sources: Sequence[Sequence[int]], max_src_len: int) -> Tensor:
    """Pieces of source sentences -> src [B, S]: truncated to `max_src_len` with eos kept, padded."""
    return pad_rows([[*ids[: max_src_len - 1], EOS_ID] for ids in sources])


def collate(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], max_src_len: int, max_tgt_len: int
) -> Batch:
    """Pieces of sentence pairs, without specials -> Batch. The limits count eos, which truncation keeps."""
    kept = [list(ids[: max_tgt_len - 1]) for ids in targets]
    tgt_in = pad_rows([[BOS_ID, *ids] for ids in kept])
    tgt_out = pad_rows([[*ids, EOS_ID] for ids in kept])
    return Batch(collate_sources(sources, max_src_len), tgt_in, tgt_out, sum(len(ids) + 1 for ids in kept))


def fill_batches(lengths: NDArray[np.int64], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Cut positions 0..n-1, whose `lengths` ascend, into runs with count x longest <= `batch_tokens`.

    A sentence longer than the budget makes a batch of its own.
    """
    batches, start = [], 0
    while start < len(lengths):
        costs = lengths[start : start + batch_tokens] * np.arange(1, min(batch_tokens, len(lengths) - start) + 1)
        count = max(1, int(np.searchsorted(costs, batch_tokens, side="right")))
        batches.append(np.arange(start, start + count))
        start += count
    return batches


@dataclass
class Place:
    """Where a sampler stands: the batch it will give next."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


class TokenBudgetSampler:
    """An endless run of batches of store indices, in an order that is a function of seed, epoch and position alone.

    Each epoch visits every pair once, in an order that is computed index by index (no list of the corpus is held).
    Pools of 65,536 pairs are sorted by length and cut into batches of sentences x longest side <= `batch_tokens`; the
    batches of a pool are then shuffled.
    """

    def __init__(
        self,
        store: TokenStore,
        *,
        batch_tokens: int,
        max_src_len: int,
        max_tgt_len: int,
        seed: int,
        drop_too_long: bool,
    ):
        self.store = store
        self.batch_tokens = batch_tokens
        self.max_src_len = max_src_len
        self.max_tgt_len = max_tgt_len
        self.seed = seed
        self.drop_too_long = drop_too_long
        self.place = Place()
        self._batches: list[NDArray[np.int64]] | None = None
        self._num_pools = -(-len(store) // _POOL_PAIRS)

    def __next__(self) -> NDArray[np.int64]:
        while True:
            if self._batches is None:
                self._batches = self._make_pool()
            if self.place.batch < len(self._batches):
                break
            following = self.place.pool + 1
            turn = following >= self._num_pools
            self.place = Place(self.place.epoch + 1 if turn else self.place.epoch, 0 if turn else following, 0)
            self._batches = None
        indices = self._batches[self.place.batch]
        self.place.batch += 1
        return indices

    def seek(self, place: Place) -> None:
        """Go on from `place`."""
        self.place = Place(place.epoch, place.pool, place.batch)
        self._batches = None

    def next_batch(self) -> Batch:
        """The next batch, collated."""
        indices = next(self)
        sources = [self.store.src[i].tolist() for i in indices]
        targets = [self.store.tgt[i].tolist() for i in indices]
        return collate(sources, targets, self.max_src_len, self.max_tgt_len)

    def _make_pool(self) -> list[NDArray[np.int64]]:
        start = self.place.pool * _POOL_PAIRS
        ranks = np.arange(start, min(start + _POOL_PAIRS, len(self.store)), dtype=np.int64)
        indices = permute(ranks, len(self.store), key=(self.seed, self.place.epoch))
        src_len = self.store.src.lengths(indices) + 1  # eos
        tgt_len = self.store.tgt.lengths(indices) + 1
        if self.drop_too_long:
            short = (src_len <= self.max_src_len) & (tgt_len <= self.max_tgt_len)
            indices, src_len, tgt_len = indices[short], src_len[short], tgt_len[short]
        src_len, tgt_len = src_len.clip(max=self.max_src_len), tgt_len.clip(max=self.max_tgt_len)
        longest = np.maximum(src_len, tgt_len)
        order = np.lexsort((src_len, tgt_len, longest))
        batches = [indices[order[run]] for run in fill_batches(longest[order], self.batch_tokens)]
        shuffle = np.random.default_rng((self.seed, self.place.epoch, self.place.pool)).permutation(len(batches))
        return [batches[i] for i in shuffle]


def permute(ranks: NDArray[np.int64], size: int, key: tuple[int, int]) -> NDArray[np.int64]:
    """Where each of `ranks` goes in a pseudo-random permutation of 0..size-1, without building the permutation.

    A four-round Feistel network on the next power of four, walked until the result falls below `size`
    (Black and Rogaway 2002, Ciphers with Arbitrary Finite Domains, section 3).
    """
    half_bits = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    low = np.uint64((1 << half_bits) - 1)
    round_keys = np.random.default_rng(key).integers(1 << 62, size=4, dtype=np.uint64)

    def shuffle_once(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = values >> np.uint64(half_bits), values & low
        for round_key in round_keys:
            mixed = (right + round_key) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            left, right = right, left ^ ((mixed >> np.uint64(32)) & low)
        return (left << np.uint64(half_bits)) | right

    values = shuffle_once(ranks.astype(np.uint64))
    while len(outside := np.flatnonzero(values >= size)):
        values[outside] = shuffle_once(values[outside])
    return values.astype(np.int64)
