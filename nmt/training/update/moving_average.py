"""An exponential moving average of the weights during training."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class MovingAverage:
    """The fp32 average of all weights so far, the newest weighted most (Polyak and Juditsky 1992).

    After update t, it moves toward the weights by a fraction 1 - min(decay, (1 + t) / (10 + t)), so that the random
    initial weights are soon forgotten.
    """

    def __init__(self, master: Mapping[str, Tensor], decay: float):
        """Start from the weights `master`, which `add` reads again each time."""
        self.decay = decay
        self.master = {name: parameter.detach() for name, parameter in master.items()}
        self.weights = {name: parameter.clone() for name, parameter in self.master.items()}

    @torch.no_grad()
    def add(self, update: int) -> None:
        """Move the average toward the weights after `update` (from 1)."""
        decay = min(self.decay, (1 + update) / (10 + update))
        torch._foreach_lerp_(list(self.weights.values()), list(self.master.values()), 1 - decay)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set the average."""
        for name, tensor in self.weights.items():
            tensor.copy_(weights[name])
