"""BatchIndices of different lengths one after the other, without their padding.

What works on single positions (products, norms, dropout) then works on real ones alone. Attention, which looks along
rows, is told where they begin.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.special_tokens import PAD_ID


class Packing(NamedTuple):
    """Where the N real positions of right-padded rows [B, T] lie."""

    real: Tensor  # [N]: of the B x T positions, in order
    offsets: Tensor  # [B + 1], int32: where each row begins among the real positions, and their number
    inverse: Tensor  # [B x T]: the real position at each position; any where there is padding
    positions: Tensor  # [N]: the place of each real position in its row, from 0
    width: int  # T

    @classmethod
    def from_ids(cls, ids: Tensor, real: Tensor | None = None) -> Packing:
        """That of ids [B, T]. Without `real`, [N], the host waits for the device that they are on."""
        is_real = ids != PAD_ID
        if real is None:
            real = is_real.flatten().nonzero().squeeze(1)
        offsets = F.pad(is_real.sum(1).cumsum(0), (1, 0)).to(torch.int32)
        inverse = (is_real.flatten().cumsum(0) - 1).clamp_min(0)
        return cls(real, offsets, inverse, real % ids.size(1), ids.size(1))

    def pack(self, states: Tensor) -> Tensor:
        """states [B, T, ...] -> [1, N, ...]."""
        return states.flatten(0, 1).index_select(0, self.real)[None]

    def unpack(self, states: Tensor) -> Tensor:
        """states [1, N, ...] -> [B, T, ...], with something finite at padding."""
        return states[0].index_select(0, self.inverse).unflatten(0, (-1, self.width))


class PackedMask(NamedTuple):
    """Who may look where, of packed queries and keys: each row into its own, or into what came before in it."""

    queries: Packing
    keys: Packing
    padded: Tensor | None  # what says so of the padded rows, as for `masked_softmax`
    causal: bool
