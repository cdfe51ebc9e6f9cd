"""Dropout whose random bits are cheap on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Zero a share `rate` of the elements in training and scale up the rest (Srivastava et al. 2014).

    On a CPU torch draws one Bernoulli number an element, which can cost more than the products around it. Here each
    64-bit draw of torch's own generator decides eight elements, so the rate is rounded to 1/256 (0.1 becomes
    26/256 = 0.1016); the scale uses the rounded rate, so the expectation is exact. Elsewhere torch's kernel serves.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, states: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return states
        if states.device.type != "cpu":
            return F.dropout(states, self.rate)
        return _ByteDropout.apply(states, min(255, max(1, round(self.rate * 256))))

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class _ByteDropout(torch.autograd.Function):
    """Dropout with `threshold` of 256 byte values dropped."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, threshold: int) -> Tensor:
        num_elements = states.numel()
        # From -2^63 with no upper end: all 64 bits are random (the default range leaves the top bit 0).
        draws = torch.empty(-(-num_elements // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = draws.view(torch.uint8)[:num_elements].view(states.shape) >= threshold
        scaled_mask = kept.to(states.dtype).mul_(256 / (256 - threshold))
        ctx.save_for_backward(scaled_mask)
        return states * scaled_mask

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (scaled_mask,) = ctx.saved_tensors
        return grads[0] * scaled_mask, None
