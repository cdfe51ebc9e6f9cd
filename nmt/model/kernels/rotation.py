"""The rotation of rotary positions, with a gradient that costs as little as the rotation itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn feature k of heads [B, H, T, K] with feature k + K/2, by the angles of `cosine` and `sine` [T, K].

    Both tables hold each angle twice, and the first half of `sine` is negated.
    """
    return _Rotate.apply(heads, cosine, sine)


def _rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([second, first], dim=-1).mul_(sine).addcmul_(heads, cosine)


class _Rotate(torch.autograd.Function):
    """The gradient is rotated back: torch's own would take a product and a sum for each term of the formula."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _rotate(heads, cosine, sine)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        return _rotate(grads[0], cosine, -sine), None, None
