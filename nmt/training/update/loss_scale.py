"""The loss scale for fp16, which keeps small gradients from vanishing."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_FIRST_SCALE = 2.0**16
_MAX_SCALE = 2.0**24
_NUM_UPDATES = 2000  # consecutive finite updates after which the scale doubles


class LossScale:
    """Dynamic loss scaling (Micikevicius et al. 2018, section 3.2): halves on overflow, doubles regularly.

    Its numbers stay on the device, so that the host never waits for it.
    """

    def __init__(self, device: torch.device):
        self.scale = torch.tensor(_FIRST_SCALE, device=device)
        self.num_finite = torch.tensor(0.0, device=device)  # consecutive updates

    @torch.no_grad()
    def adapt(self, is_finite: Tensor) -> None:
        """Adapt the scale after an update; `is_finite` tells if its gradients were finite."""
        num_finite = torch.where(is_finite, self.num_finite + 1, 0.0)
        doubles = num_finite >= _NUM_UPDATES
        grown = torch.where(doubles, (2 * self.scale).clamp(max=_MAX_SCALE), self.scale)
        self.scale.copy_(torch.where(is_finite, grown, (0.5 * self.scale).clamp(min=1.0)))
        self.num_finite.copy_(torch.where(doubles, 0.0, num_finite))

    def state(self) -> dict[str, Tensor]:
        """Return the tensors to save, by name."""
        return {"scale": self.scale, "num_finite": self.num_finite}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])
