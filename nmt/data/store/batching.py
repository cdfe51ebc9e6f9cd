"""Form batches: truncate, fill a token budget, pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.base.device import to_device
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
from nmt.data.store.positions import Ints
from nmt.data.store.store import Side


class BatchIndices(NamedTuple):
    """The pairs of a batch: their sentences, and their lengths in tokens, truncated, eos included."""

    sides: tuple[Side, Side]  # that hold the sentences
    indices: Ints  # of the sentences
    src_len: Ints
    tgt_len: Ints
    swapped: NDArray[np.bool_]  # of which pairs the source is on the second of `sides`

    @property
    def num_tgt_tokens(self) -> int:
        """The number of real target tokens, eos included."""
        return int(self.tgt_len.sum())

    def share(self, rank: int, count: int) -> BatchIndices:
        """Return the share of `rank` among `count` ranks: every count-th row, so that all get similar lengths."""
        return self.select(slice(rank, None, count))

    def select(self, rows: slice | Ints) -> BatchIndices:
        """Return some of the rows."""
        return BatchIndices(self.sides, self.indices[rows], self.src_len[rows], self.tgt_len[rows], self.swapped[rows])


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


def read_batch(rows: BatchIndices) -> Batch:
    """Read the batch of `rows`, laid out as by `collate`. No rows give one row of padding, which adds no loss."""
    if not len(rows.indices):
        return no_pairs()
    src, _ = _gather(rows, rows.src_len, rows.swapped)
    tgt_out, is_token = _gather(rows, rows.tgt_len, ~rows.swapped)
    tgt_in = np.full_like(tgt_out, PAD_ID)
    tgt_in[:, 0] = BOS_ID
    tgt_in[:, 1:] = np.where(is_token, tgt_out, PAD_ID)[:, :-1]
    return Batch.from_ids(torch.from_numpy(src), torch.from_numpy(tgt_in), torch.from_numpy(tgt_out))


def no_pairs() -> Batch:
    """Return a batch of one row of padding, which adds no loss."""
    return Batch.from_ids(*(torch.full((1, 1), token) for token in (EOS_ID, BOS_ID, PAD_ID)))


def _gather(rows: BatchIndices, lengths: Ints, on_second: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.bool_]]:
    """Return ids [B, longest] of the sentences of `rows` (tokens, eos, padding), and a mask of the tokens.

    `on_second` [B] tells which of them are on the second side.
    """
    columns = np.arange(lengths.max())
    is_token = columns < lengths[:, None] - 1
    ids = np.full(is_token.shape, PAD_ID, dtype=np.int64)
    for side, are_here in zip(rows.sides, (~on_second, on_second), strict=True):
        if not are_here.any():
            continue
        mask = is_token & are_here[:, None]
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
