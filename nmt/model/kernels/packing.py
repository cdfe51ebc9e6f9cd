"""Three ways to put sentences into a single row, in which position-wise operations process their tokens.

`Packing` leaves out the padding of right-padded rows [B, T], so that linear layers, norms and dropout process only real
tokens. `Flattening` keeps it, and appends filler, so that matrix products have few different shapes. For both,
attention, which mixes the positions of a row, gets the rows back. `Segments` describes a row that was never padded, for
attention that finds the sentences in it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

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
    inverse: Tensor  # [B x T]: the index of each position among the N tokens; arbitrary but valid at padding
    positions: Tensor  # [N]: the position of each real token in its row, from 0
    width: int  # T

    @classmethod
    def from_ids(cls, ids: Tensor) -> Packing:
        """Find the real tokens of ids [B, T]. On a GPU this synchronizes with the host."""
        is_real = (ids != PAD_ID).flatten()
        real = is_real.nonzero().squeeze(1)
        inverse = (is_real.cumsum(0) - 1).clamp_min(0)
        return cls(real, inverse, real % ids.size(1), ids.size(1))

    def pack(self, states: Tensor) -> Tensor:
        """Pack states [B, T, ...] into [1, N, ...]."""
        return states.flatten(0, 1).index_select(0, self.real)[None]

    def unpack(self, states: Tensor) -> Tensor:
        """Unpack states [1, N, ...] into [B, T, ...], with arbitrary finite values at padding."""
        return states[0].index_select(0, self.inverse).unflatten(0, (-1, self.width))


class Segments(NamedTuple):
    """Sentences of one row [1, N] of a block, one after the other. They are laid out on the host."""

    offsets: Tensor  # [S + 1], int32: the start of each sentence, then N; sentences may be empty
    positions: Tensor  # [N]: the position of each token in its sentence, from 0
    width: int  # tokens of the longest sentence, at most

    def pack(self, ids: Tensor) -> Tensor:
        """Return ids [1, N] as they are."""
        return ids

    def bias(self, keys: Segments, causal: bool, dtype: torch.dtype) -> Tensor:
        """Return the bias [N, M] that lets a query attend to `keys` of its sentence; if `causal`, not ahead of it."""
        allowed = self._sentences()[:, None] == keys._sentences()
        if causal:
            allowed &= self.positions[:, None] >= keys.positions
        return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(
            ~allowed, torch.finfo(dtype).min
        )

    def _sentences(self) -> Tensor:
        """Return the number of each token's sentence, [N]."""
        tokens = torch.arange(len(self.positions), dtype=torch.int32, device=self.positions.device)
        return torch.searchsorted(self.offsets[1:], tokens, right=True)


class Flattening(NamedTuple):
    """All B x T positions of right-padded rows, then filler up to a multiple of `ROW_MULTIPLE` positions."""

    height: int  # B
    width: int  # T
    positions: Tensor  # [N]: the position of each in its row, from 0; arbitrary but valid in the filler

    @classmethod
    def from_ids(cls, ids: Tensor) -> Flattening:
        """Flatten rows like ids [B, T], on their device."""
        height, width = ids.shape
        num_positions = -(-height * width // ROW_MULTIPLE) * ROW_MULTIPLE
        return cls(height, width, torch.arange(num_positions, device=ids.device) % width)

    def pack(self, states: Tensor) -> Tensor:
        """Flatten states [B, T, ...] into [1, N, ...], with zeros as filler."""
        flat = states.flatten(0, 1)
        return F.pad(flat, (*(0, 0) * (flat.dim() - 1), 0, len(self.positions) - len(flat)))[None]

    def unpack(self, states: Tensor) -> Tensor:
        """Unflatten states [1, N, ...] into [B, T, ...], without the filler."""
        return states[0, : self.height * self.width].unflatten(0, (self.height, self.width))


Layout = Packing | Flattening | Segments
