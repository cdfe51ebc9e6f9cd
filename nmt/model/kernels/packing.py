"""Two ways to put right-padded rows [B, T] into a single row, in which position-wise operations process them.

`Packing` leaves out the padding, so that linear layers, norms and dropout process only real tokens. `Flattening` keeps
it, and appends filler, so that matrix products have few different shapes. Attention, which mixes the positions of a
row, gets the rows back.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.base.device import to_device
from nmt.base.special_tokens import PAD_ID

ROW_MULTIPLE = 64  # numbers of rows of a matrix product are rounded up to this where each number costs memory and time


def compiles_each_shape(tensor: Tensor) -> bool:
    """Return whether the first product of each shape takes long: in bf16 on a CPU, and on a GPU.

    oneDNN compiles a kernel, which takes some milliseconds and up to 1 MiB, and keeps a thousand of them. cuBLAS
    searches for one: 0.4 ms of the host's time, 0.03 ms for every further product.
    """
    return tensor.is_cuda or (tensor.device.type == "cpu" and tensor.dtype == torch.bfloat16)


class Packing(NamedTuple):
    """The positions of the N real tokens of right-padded rows [B, T]."""

    real: Tensor  # [N]: the index of each real token among the B x T positions, in order
    offsets: Tensor  # [B + 1], int32: the start of each row among the N tokens, then N; with filler [B + 2]
    inverse: Tensor  # [B x T]: the index of each position among the N tokens; arbitrary but valid at padding
    positions: Tensor  # [N]: the position of each real token in its row, from 0
    width: int  # T

    @classmethod
    def from_ids(cls, ids: Tensor, real: Tensor | None = None) -> Packing:
        """Find the real tokens of ids [B, T]. On a GPU this synchronizes with the host, unless `real` [N] is given."""
        is_real = ids != PAD_ID
        if real is None:
            real = is_real.flatten().nonzero().squeeze(1)
        offsets = F.pad(is_real.sum(1).cumsum(0), (1, 0)).to(torch.int32)
        inverse = (is_real.flatten().cumsum(0) - 1).clamp_min(0)
        return cls(real, offsets, inverse, real % ids.size(1), ids.size(1))

    def filled(self) -> Packing:
        """Append a sentence of 1 to `ROW_MULTIPLE` filler tokens, so that N is one of few numbers.

        Its tokens are copies of the first of the B x T positions, and attend only to each other.
        """
        count = len(self.real)
        added = ROW_MULTIPLE - count % ROW_MULTIPLE
        return self._replace(
            real=F.pad(self.real, (0, added)),
            offsets=F.pad(self.offsets, (0, 1), value=count + added),
            positions=F.pad(self.positions, (0, added)),
        )

    def to(self, device: torch.device) -> Packing:
        """Copy the packing to `device`, asynchronously if it is a GPU."""
        real, offsets, inverse = (to_device(tensor, device) for tensor in (self.real, self.offsets, self.inverse))
        return Packing(real, offsets, inverse, to_device(self.positions, device), self.width)

    def pack(self, states: Tensor) -> Tensor:
        """Pack states [B, T, ...] into [1, N, ...]."""
        return states.flatten(0, 1).index_select(0, self.real)[None]

    def unpack(self, states: Tensor) -> Tensor:
        """Unpack states [1, N, ...] into [B, T, ...], with arbitrary finite values at padding."""
        return states[0].index_select(0, self.inverse).unflatten(0, (-1, self.width))


class Flattening(NamedTuple):
    """All B x T positions of right-padded rows, then filler up to a multiple of `ROW_MULTIPLE` positions."""

    height: int  # B
    width: int  # T
    positions: Tensor  # [N]: the position of each in its row, from 0; arbitrary but valid in the filler

    @classmethod
    def from_ids(cls, ids: Tensor) -> Flattening:
        """Flatten rows like ids [B, T]."""
        height, width = ids.shape
        num_positions = -(-height * width // ROW_MULTIPLE) * ROW_MULTIPLE
        return cls(height, width, torch.arange(num_positions, device=ids.device) % width)

    def to(self, device: torch.device) -> Flattening:
        """Copy the flattening to `device`, asynchronously if it is a GPU."""
        return self._replace(positions=to_device(self.positions, device))

    def pack(self, states: Tensor) -> Tensor:
        """Flatten states [B, T, ...] into [1, N, ...], with zeros as filler."""
        flat = states.flatten(0, 1)
        return F.pad(flat, (*(0, 0) * (flat.dim() - 1), 0, len(self.positions) - len(flat)))[None]

    def unpack(self, states: Tensor) -> Tensor:
        """Unflatten states [1, N, ...] into [B, T, ...], without the filler."""
        return states[0, : self.height * self.width].unflatten(0, (self.height, self.width))
