"""Position encodings: the sinusoidal table, and rotary positions, which are applied inside attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nmt.model.kernels.attention_kernels import rotate


def sinusoidal_positions(max_len: int, d_model: int) -> Tensor:
    """Return the table [max_len, D] of Vaswani et al. 2017, section 3.5: sine in even columns, cosine in odd ones."""
    frequencies = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    angles = torch.arange(max_len)[:, None] * frequencies  # [max_len, D/2], rounded up
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]  # [max_len, D]


class Rotary(nn.Module):
    """Rotary positions (Su et al. 2021, section 3.2.2): rotate queries and keys by angles proportional to position."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, head_size: int, max_len: int):
        super().__init__()
        frequencies = 10000.0 ** (-torch.arange(0, head_size, 2) / head_size)
        angles = torch.arange(max_len)[:, None] * frequencies  # [max_len, K/2]
        sine = angles.sin()
        self.register_buffer("cosine", angles.cos().repeat(1, 2), persistent=False)  # [max_len, K]
        self.register_buffer("sine", torch.cat([-sine, sine], dim=-1), persistent=False)  # [max_len, K]

    def forward(self, heads: Tensor, offset: int | Tensor) -> Tensor:
        """Rotate heads [B, H, T, K]; `offset` is the first position, or a tensor [T] or [B, T] with each position."""
        positions = offset if isinstance(offset, Tensor) else slice(offset, offset + heads.size(2))
        cosine, sine = (table[positions].unsqueeze(-3).to(heads.dtype) for table in (self.cosine, self.sine))
        return rotate(heads, cosine, sine)
