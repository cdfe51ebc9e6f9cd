"""Packing: concatenate rows of different lengths without their padding.

Position-wise operations (linear layers, norms, dropout) then process only real tokens. Attention, which mixes the
positions of a row, receives the offset of each row.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.special_tokens import PAD_ID


class Packing(NamedTuple):
    """The positions of the N real tokens of right-padded rows [B, T]."""

    real: Tensor  # [N]: the index of each real token among the B x T positions, in order
    offsets: Tensor  # [B + 1], int32: the start of each row among the N tokens, then N
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

    def to(self, device: torch.device) -> Packing:
        """Copy the packing to `device`, asynchronously if it is a GPU."""
        tensors = [self.real, self.offsets, self.inverse, self.positions]
        if device.type == "cuda":
            tensors = [tensor if tensor.is_cuda else tensor.pin_memory() for tensor in tensors]
        real, offsets, inverse, positions = (tensor.to(device, non_blocking=True) for tensor in tensors)
        return Packing(real, offsets, inverse, positions, self.width)

    def pack(self, states: Tensor) -> Tensor:
        """Pack states [B, T, ...] into [1, N, ...]."""
        return states.flatten(0, 1).index_select(0, self.real)[None]

    def unpack(self, states: Tensor) -> Tensor:
        """Unpack states [1, N, ...] into [B, T, ...], with arbitrary finite values at padding."""
        return states[0].index_select(0, self.inverse).unflatten(0, (-1, self.width))
