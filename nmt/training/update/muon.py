"""Muon: momentum with orthogonalized updates, for weight matrices between hidden states."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

_MOMENTUM = 0.95
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_NUM_STEPS = 5


class Muon:
    """Muon (Jordan et al. 2024) with Nesterov momentum and decoupled weight decay.

    Updates are scaled by 0.2 sqrt(max(rows, columns)), which gives them the size of AdamW's updates, so that both can
    share a learning rate (Liu et al. 2025, section 2.2).
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], num_parts: Mapping[str, int]):
        """Train `parameters`; each consists of `num_parts` stacked matrices, which are orthogonalized separately."""
        self.parameters, self.num_parts = dict(parameters), dict(num_parts)
        self.momenta: dict[str, Tensor] = {}

    @torch.no_grad()
    def step(self, lr: float, weight_decay: float, is_finite: Tensor) -> None:
        """Update the parameters by their gradients, unless `is_finite` [] is False; only the device reads it."""
        applied = is_finite.float()
        matrices: list[tuple[Tensor, Tensor]] = []  # (parameter, direction), as views
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            if name not in self.momenta:
                self.momenta[name] = torch.zeros_like(parameter)
            momentum = self.momenta[name]
            grad = torch.where(is_finite, parameter.grad, momentum)
            momentum.lerp_(grad, 1 - _MOMENTUM)
            parts = self.num_parts[name]
            direction = grad.lerp_(momentum, _MOMENTUM)
            matrices += zip(parameter.detach().chunk(parts), direction.chunk(parts), strict=True)
            parameter.mul_(1 - lr * weight_decay * applied)
        matrices.sort(key=lambda matrix: sorted(matrix[0].shape))
        for _, same_shape in groupby(matrices, key=lambda matrix: sorted(matrix[0].shape)):
            group = list(same_shape)
            for (part, _), direction in zip(group, orthogonal([step for _, step in group]), strict=True):
                part.sub_(direction * (0.2 * math.sqrt(max(part.shape)) * lr * applied))


def orthogonal(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Return approximately the nearest semi-orthogonal matrices to `matrices`, [n, m] or [m, n] each.

    Uses five Newton-Schulz iterations with coefficients that bring singular values to about 0.7 to 1.2 (Jordan et al.
    2024), in fp32, or in bf16 on a GPU.
    """
    wide = [matrix if matrix.size(0) <= matrix.size(1) else matrix.t() for matrix in matrices]
    states = torch.stack(wide)  # [B, n, m], n <= m
    states = states / (states.norm(dim=(1, 2), keepdim=True) + 1e-7)
    if states.is_cuda:
        states = states.bfloat16()
    a, b, c = _COEFFICIENTS
    for _ in range(_NUM_STEPS):
        gram = states @ states.mT
        states = torch.baddbmm(states, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), states, beta=a)
    nearest = states.to(matrices[0].dtype).unbind()
    return [new if old.size(0) <= old.size(1) else new.t() for new, old in zip(nearest, matrices, strict=True)]
