"""Form batches: truncate, bucket by length, fill a token budget, pad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from nmt.base.device import to_device
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
from nmt.data.store.mixing import Order, halved
from nmt.data.store.positions import Ints
from nmt.data.store.redraw import Redraw
from nmt.data.store.store import Side, TokenStore

Number = Annotated[int, Field(ge=0, le=1 << 40)]  # checked when a training state is read

POOL_PAIRS = 1 << 16  # pairs that are sorted by length together


class BatchIndices(NamedTuple):
    """The pairs of a batch: their indices in the store, and their lengths in tokens, truncated, eos included."""

    indices: Ints
    src_len: Ints
    tgt_len: Ints
    drawn: tuple[Side, Side] | None = None  # if given, `indices` are those of its sentences
    swapped: NDArray[np.bool_] | None = None  # if given, whose sides are swapped; their lengths already are

    @property
    def num_tgt_tokens(self) -> int:
        """The number of real target tokens, eos included."""
        return int(self.tgt_len.sum())

    def share(self, rank: int, count: int) -> BatchIndices:
        """Return the share of `rank` among `count` ranks: every count-th row, so that all get similar lengths."""
        return self.select(slice(rank, None, count))

    def select(self, rows: slice | Ints | NDArray[np.bool_]) -> BatchIndices:
        """Return some of the rows."""
        sides = (self.indices[rows], self.src_len[rows], self.tgt_len[rows])
        return BatchIndices(*sides, self.drawn, None if self.swapped is None else self.swapped[rows])

    def swap(self, swapped: NDArray[np.bool_]) -> BatchIndices:
        """Return the same pairs, with source and target swapped where `swapped` is true."""
        src_len, tgt_len = np.where(swapped, (self.tgt_len, self.src_len), (self.src_len, self.tgt_len))
        return self._replace(src_len=src_len, tgt_len=tgt_len, swapped=swapped)


class Batch(NamedTuple):
    """Right-padded pairs: src [B, S] ends in eos; tgt_in [B, T] starts with bos; tgt_out [B, T] ends in eos."""

    src: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    # Indices of the real tokens of src [M] and tgt_out [N], flattened; found on the host, to avoid a GPU sync.
    src_real: Tensor
    tgt_real: Tensor

    @classmethod
    def from_ids(cls, src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> Batch:
        """Build a batch from ids on the host."""
        real = [(ids != PAD_ID).flatten().nonzero().squeeze(1) for ids in (src, tgt_out)]
        return cls(src, tgt_in, tgt_out, *real)

    @property
    def num_tgt_tokens(self) -> int:
        """The number of real target tokens, eos included."""
        return len(self.tgt_real)

    def to(self, device: torch.device) -> Batch:
        """Copy the batch to `device`; the copy to a GPU is asynchronous."""
        return Batch(*(to_device(side, device) for side in self))

    def cut(self, count: int) -> list[Batch]:
        """Cut the batch into at most `count` batches of about equal size, each only as wide as its longest row."""
        sides = (side.tensor_split(min(count, len(side))) for side in (self.src, self.tgt_in, self.tgt_out))
        return [
            Batch.from_ids(src[:, : _width(src)], tgt_in[:, : _width(tgt_out)], tgt_out[:, : _width(tgt_out)])
            for src, tgt_in, tgt_out in zip(*sides, strict=True)
        ]


def _width(ids: Tensor) -> int:
    """Return the number of columns of ids [B, T] that contain more than padding; at least 1."""
    return max(1, int((ids != PAD_ID).any(0).count_nonzero()))


def pad_rows(rows: Sequence[Sequence[int] | NDArray[Any]]) -> Tensor:
    """Stack rows of ids into one right-padded int64 matrix [B, longest]."""
    padded = np.full((len(rows), max(len(row) for row in rows)), PAD_ID, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)


def collate_sources(sources: Sequence[Sequence[int]], max_src_len: int) -> Tensor:
    """Return src [B, S]: the tokens of `sources` with eos, truncated to `max_src_len` (eos counted), right-padded."""
    return pad_rows([[*ids[: max_src_len - 1], EOS_ID] for ids in sources])


def collate(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], max_src_len: int, max_tgt_len: int
) -> Batch:
    """Build a batch from token ids without special tokens. The limits include eos, which truncation keeps."""
    kept = [list(ids[: max_tgt_len - 1]) for ids in targets]
    tgt_in = pad_rows([[BOS_ID, *ids] for ids in kept])
    tgt_out = pad_rows([[*ids, EOS_ID] for ids in kept])
    return Batch.from_ids(collate_sources(sources, max_src_len), tgt_in, tgt_out)


def read_batch(store: TokenStore, rows: BatchIndices) -> Batch:
    """Read the batch of `rows`, laid out as by `collate`. No rows give one row of padding, which adds no loss."""
    if not len(rows.indices):
        return no_pairs()
    src_side, tgt_side = rows.drawn or (store.src, store.tgt)
    src, _ = _gather((src_side, tgt_side), rows, rows.src_len)
    tgt_out, is_token = _gather((tgt_side, src_side), rows, rows.tgt_len)
    tgt_in = np.full_like(tgt_out, PAD_ID)
    tgt_in[:, 0] = BOS_ID
    tgt_in[:, 1:] = np.where(is_token, tgt_out, PAD_ID)[:, :-1]
    return Batch.from_ids(torch.from_numpy(src), torch.from_numpy(tgt_in), torch.from_numpy(tgt_out))


def no_pairs() -> Batch:
    """Return a batch of one row of padding, which adds no loss."""
    return Batch.from_ids(*(torch.full((1, 1), token) for token in (EOS_ID, BOS_ID, PAD_ID)))


def _gather(sides: tuple[Side, Side], rows: BatchIndices, lengths: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return ids [B, longest] of the sentences of `rows` (tokens, eos, padding), and a mask of the tokens.

    They are read from the first of `sides`, those of swapped pairs from the second.
    """
    columns = np.arange(lengths.max())
    is_token = columns < lengths[:, None] - 1
    ids = np.full(is_token.shape, PAD_ID, dtype=np.int64)
    masks = [is_token]
    if rows.swapped is not None:
        masks = [is_token & ~rows.swapped[:, None], is_token & rows.swapped[:, None]]
    for side, mask in zip(sides, masks, strict=False):
        tokens = side.tokens[(side.offsets[rows.indices][:, None] + columns)[mask]]
        side.check(tokens)
        ids[mask] = tokens
    ids[np.arange(len(ids)), lengths - 1] = EOS_ID
    return ids, is_token


def fill_batches(lengths: Ints, batch_tokens: int) -> list[Ints]:
    """Split positions 0..n-1, sorted by `lengths`, into runs with count x longest <= `batch_tokens`.

    A sentence longer than the budget gets its own batch.
    """
    batches = []
    start = 0
    while start < len(lengths):
        costs = lengths[start : start + batch_tokens] * np.arange(1, min(batch_tokens, len(lengths) - start) + 1)
        count = max(1, int(np.searchsorted(costs, batch_tokens, side="right")))
        batches.append(np.arange(start, start + count))
        start += count
    return batches


def tokens_for(
    num_tgt_tokens: int, store: TokenStore, max_src_len: int, max_tgt_len: int, order: Order, both_directions: bool
) -> int:
    """Return the `batch_tokens` that give about `num_tgt_tokens` real target tokens, estimated from 65,536 pairs."""
    some = order.indices(np.arange(min(len(store), POOL_PAIRS), dtype=np.int64), epoch=0)
    src_len, tgt_len = store.src.lengths(some) + 1, store.tgt.lengths(some) + 1
    if both_directions:  # as many pairs in each, half of them swapped
        src_len, tgt_len = np.concatenate([src_len, tgt_len]), np.concatenate([tgt_len, src_len])
    src_len, tgt_len = src_len.clip(max=max_src_len), tgt_len.clip(max=max_tgt_len)
    return round(num_tgt_tokens * float(np.maximum(src_len, tgt_len).sum() / tgt_len.sum()))


@dataclass
class DataPosition:
    """The position of a sampler in the data: its next batch."""

    epoch: Number = 0
    pool: Number = 0
    batch: Number = 0


@dataclass
class TokenBudgetSampler:
    """An endless sequence of batches of store indices, determined only by `order`, its seed and the position.

    Each epoch has as many pairs as the store, in an `order` that is computed index by index, without a list of the
    corpus in memory. Pools of 65,536 pairs are sorted by length and cut into batches with sentences x longest side <=
    `batch_tokens`; then the batches of a pool are shuffled. With `both_directions`, the sides of half of the pairs are
    swapped in even epochs, those of the other half in odd ones.
    """

    store: TokenStore
    order: Order
    _: KW_ONLY
    batch_tokens: int
    max_src_len: int
    max_tgt_len: int
    both_directions: bool = False
    redraw: Redraw | None = None  # redraws the pairs of each pool, before batches are cut by length
    position: DataPosition = field(default_factory=DataPosition)
    _batches: list[BatchIndices] | None = None  # of the pool at `position`

    def next_indices(self) -> BatchIndices:
        """Return the indices of the next batch, without reading its tokens."""
        while True:
            if self._batches is None:
                self._batches = self.make_pool()
            if self.position.batch < len(self._batches):
                break
            turns, pool = divmod(self.position.pool + 1, -(-len(self.store) // POOL_PAIRS))
            self.seek(DataPosition(self.position.epoch + turns, pool))
        rows = self._batches[self.position.batch]
        self.position.batch += 1
        return rows

    def seek(self, position: DataPosition) -> None:
        """Continue from `position`."""
        self.position = replace(position)
        self._batches = None

    def make_pool(self) -> list[BatchIndices]:
        """Return the batches of the pool at the position."""
        start = self.position.pool * POOL_PAIRS
        ranks = np.arange(start, min(start + POOL_PAIRS, len(self.store)), dtype=np.int64)
        pool = self._read_pool(ranks)
        src_len, tgt_len = pool.src_len.clip(max=self.max_src_len), pool.tgt_len.clip(max=self.max_tgt_len)
        longest = np.maximum(src_len, tgt_len)
        order = np.lexsort((src_len, tgt_len, longest))
        pool = pool._replace(src_len=src_len, tgt_len=tgt_len).select(order)
        batches = [pool.select(run) for run in fill_batches(longest[order], self.batch_tokens)]
        key = (self.order.seed, self.position.epoch, self.position.pool)
        return [batches[i] for i in np.random.default_rng(key).permutation(len(batches))]

    def _read_pool(self, ranks: Ints) -> BatchIndices:
        """Return the pairs at `ranks` of the epoch, with their untruncated lengths."""
        indices = self.order.indices(ranks, self.position.epoch)
        swapped = None
        if self.both_directions:
            swapped = halved(indices, self.order.seed) ^ (self.position.epoch % 2 == 1)
        drawn = None
        if self.redraw is not None:
            drawn = self.redraw.pool(indices, ranks, self.position.epoch)
            indices = np.arange(len(ranks))
        src, tgt = drawn or (self.store.src, self.store.tgt)
        rows = BatchIndices(indices, src.lengths(indices) + 1, tgt.lengths(indices) + 1, drawn)  # eos
        return rows if swapped is None else rows.swap(swapped)
