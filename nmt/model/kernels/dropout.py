"""Dropout with random numbers that are cheap to generate on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Zero a fraction `rate` of the elements in training and scale up the rest (Srivastava et al. 2014).

    On a CPU, torch draws one Bernoulli number per element, which can cost more than the matrix products around it. Here
    each 64-bit draw decides eight elements, so the rate is rounded to 1/256 (0.1 becomes 26/256 = 0.1016). The scale
    uses the rounded rate, so the expectation is exact in fp32. Other devices use torch's kernel.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.set_rate(rate)

    def set_rate(self, rate: float) -> None:
        """Change the dropout rate."""
        self.rate = rate
        self.threshold = min(255, max(1, round(rate * 256)))  # of 256 byte values, those below are dropped

    def forward(self, states: Tensor) -> Tensor:
        """Drop elements of `states` in training; return them unchanged in evaluation."""
        if self.drops and states.device.type == "cpu":
            return states * _draw_mask(states, self.threshold)
        return F.dropout(states, self.rate, self.training)

    @property
    def drops(self) -> bool:
        """True if this layer drops elements: in training, unless the rate is 0."""
        return self.training and self.rate > 0.0


def add_dropped(states: Tensor, branch: Tensor, dropout: Dropout) -> Tensor:
    """Return states + dropout(branch), computed in one pass on a CPU."""
    if dropout.drops and branch.device.type == "cpu":
        return torch.addcmul(states, branch, _draw_mask(branch, dropout.threshold))
    return states + dropout(branch)


def dropped_relu(hidden: Tensor, dropout: Dropout) -> Tensor:
    """Return dropout(max(hidden, 0)), computed in one pass on a CPU."""
    if dropout.drops and hidden.device.type == "cpu":
        return _DropAfterReLU.apply(hidden, dropout.threshold)
    return dropout(F.relu(hidden))


def _draw_mask(like: Tensor, threshold: int) -> Tensor:
    """Return 0 where an element of `like` is dropped and the scale elsewhere, seeded by torch's generator."""
    num_words = -(-like.numel() // 8)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    random_bytes = torch.from_numpy(np.random.SFC64(seed).random_raw(num_words).view(np.uint8))
    mask = torch.empty_like(like, memory_format=torch.contiguous_format)
    torch.ge(random_bytes[: like.numel()].view(like.shape), threshold, out=mask)  # 0 and 1, with no boolean copy
    return mask.mul_(_scale(like, threshold))


def _scale(like: Tensor, threshold: int) -> float:
    """Return the factor of what stays, rounded to the dtype of `like`."""
    return float(torch.tensor(256 / (256 - threshold), dtype=like.dtype))


class _DropAfterReLU(torch.autograd.Function):
    """Save only the output, which is positive exactly where the gradient passes."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, threshold: int) -> Tensor:
        ctx.scale = _scale(hidden, threshold)
        # Not in place: torch copies the gradients of a view that was overwritten, such as the output of a linear layer.
        dropped = _draw_mask(hidden, threshold).mul_(hidden).relu_()
        ctx.save_for_backward(dropped)
        return dropped

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (dropped,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grads[0], dropped, 0).mul_(ctx.scale), None
