"""Batches laid out in a block of constant size: every update launches the same kernels on the same addresses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
from nmt.data.store.batching import Batch
from nmt.model.kernels.packing import ROW_MULTIPLE, Segments

_RING = 3  # blocks on the host: one is filled while the device copies those before


class BlockShape(NamedTuple):
    """The size of a block: what a batch may have at most."""

    num_src: int  # source tokens, filler included
    num_tgt: int
    num_sentences: int  # with those of filler
    width: int  # tokens of a sentence

    @classmethod
    def holding(cls, num_src: int, num_tgt: int, num_sentences: int, width: int) -> BlockShape:
        """Return the shape for batches of up to so many tokens and sentences, and a tenth more sentences.

        Later batches may have more and shorter sentences than those that the shape is taken from.
        """
        num_src, num_tgt, width = (-(-count // ROW_MULTIPLE) * ROW_MULTIPLE for count in (num_src, num_tgt, width))
        shape = cls(num_src, num_tgt, num_sentences * 11 // 10, width)
        return shape._replace(num_sentences=shape.num_sentences + shape.num_fillers)

    @property
    def num_fillers(self) -> int:
        """The number of sentences of filler, of up to `width` tokens each."""
        return -(-max(self.num_src, self.num_tgt) // self.width)

    def fits(self, batch: Batch) -> bool:
        """Return whether the block can hold `batch`."""
        return (
            len(batch.src_real) <= self.num_src
            and len(batch.tgt_real) <= self.num_tgt
            and len(batch.src) <= self.num_sentences - self.num_fillers
            and max(batch.src.size(1), batch.tgt_out.size(1)) <= self.width
        )


class Contents(NamedTuple):
    """The inputs of the model in a block."""

    src: Tensor  # [1, Ns]
    tgt_in: Tensor  # [1, Nt]
    tgt_out: Tensor  # [1, Nt]; padding in the filler, which has no loss
    sources: Segments
    targets: Segments
    scale: Tensor  # []: the factor of the loss, 1 / tokens of the update
    lr: Tensor  # []


class Block:
    """A block on a device, and a ring of page-locked ones on the host, from which it is filled by one copy."""

    def __init__(self, shape: BlockShape, device: torch.device):
        self.shape = shape
        num_offsets = shape.num_sentences + 1
        self._sizes = [shape.num_src] * 2 + [shape.num_tgt] * 3 + [num_offsets] * 2 + [2]
        self._on_device = torch.zeros(sum(self._sizes), dtype=torch.int32, device=device)
        is_gpu = device.type == "cuda"
        self._on_host = [torch.zeros(sum(self._sizes), dtype=torch.int32, pin_memory=is_gpu) for _ in range(_RING)]
        self._copied = [torch.cuda.Event() for _ in range(_RING)] if is_gpu else []
        self._number = 0

    def fill(self, batch: Batch, scale: float, lr: float) -> None:
        """Copy `batch`, which must fit, to the device; the host does not wait for it.

        `scale` is the factor of its loss, `lr` the learning rate of its update.
        """
        slot = self._number % _RING
        self._number += 1
        if self._copied:
            self._copied[slot].synchronize()  # of three blocks before: done long ago
        host = self._on_host[slot]
        src, src_positions, tgt_in, tgt_out, tgt_positions, src_offsets, tgt_offsets, scalars = (
            part.numpy() for part in host.split(self._sizes)
        )
        self._fill_side(src_offsets, src_positions, batch.src, batch.src_real)
        self._fill_side(tgt_offsets, tgt_positions, batch.tgt_out, batch.tgt_real)
        for ids, given, real, filler in (
            (src, batch.src, batch.src_real, EOS_ID),
            (tgt_in, batch.tgt_in, batch.tgt_real, BOS_ID),
            (tgt_out, batch.tgt_out, batch.tgt_real, PAD_ID),
        ):
            ids[: len(real)] = given.numpy().ravel()[real.numpy()]
            ids[len(real) :] = filler
        scalars.view(np.float32)[:] = scale, lr
        self._on_device.copy_(host, non_blocking=True)
        if self._copied:
            self._copied[slot].record()

    def _fill_side(self, offsets: NDArray[np.int32], positions: NDArray[np.int32], ids: Tensor, real: Tensor) -> None:
        """Write where sentences begin, empty ones after the real ones, then filler; and the positions of tokens."""
        count = len(real)
        num_rows = len(ids)
        num_fillers = self.shape.num_fillers
        offsets[0] = 0
        np.cumsum((ids != PAD_ID).sum(1).numpy(), out=offsets[1 : num_rows + 1])
        offsets[num_rows + 1 : -num_fillers] = count
        filled = count + np.arange(1, num_fillers + 1) * self.shape.width
        offsets[-num_fillers:] = np.minimum(filled, len(positions))
        positions[:count] = real.numpy() % ids.size(1)
        positions[count:] = 0

    def contents(self) -> Contents:
        """Return the block as the model reads it: launches operations on the device's numbers."""
        src, src_positions, tgt_in, tgt_out, tgt_positions, src_offsets, tgt_offsets, scalars = self._on_device.split(
            self._sizes
        )
        sources = Segments(src_offsets, src_positions.long(), self.shape.width)
        targets = Segments(tgt_offsets, tgt_positions.long(), self.shape.width)
        scale, lr = scalars.view(torch.float32).unbind()
        ids, ids_in, ids_out = (each.long()[None] for each in (src, tgt_in, tgt_out))
        return Contents(ids, ids_in, ids_out, sources, targets, scale, lr)
