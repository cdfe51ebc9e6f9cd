"""AdamW: moving averages of gradients; without weight decay, it is Adam."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw


class AdamW:
    """AdamW (Loshchilov and Hutter 2019), without weight decay, with torch's kernels and a state by name.

    torch.optim.AdamW computes the same, but imports PyTorch's compiler, which takes about two seconds.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], betas: tuple[float, float], eps: float):
        self.parameters = dict(parameters)
        self.betas = betas
        self.eps = eps
        self.fused = all(parameter.device.type in ("cpu", "cuda") for parameter in parameters.values())
        self.state: dict[str, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self, grads: list[Tensor], lr: float | Tensor, is_finite: Tensor) -> None:
        """Update the parameters by `grads`, in their order, unless `is_finite` [] is False.

        On CPUs and CUDA devices, only the device reads `is_finite`.
        """
        if not self.fused and not is_finite:
            return
        for name in self.parameters.keys() - self.state.keys():
            self.state[name] = self.initial_state(self.parameters[name])
        states = [self.state[name] for name in self.parameters]
        adamw(
            list(self.parameters.values()),
            grads,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            foreach=False,
            fused=self.fused,
            found_inf=(~is_finite).float() if self.fused else None,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=lr,
            weight_decay=0.0,
            eps=self.eps,
            maximize=False,
        )

    def initial_state(self, parameter: Tensor) -> dict[str, Tensor]:
        """Return the number of updates and the moments of a parameter before the first update."""
        step = torch.zeros((), device=parameter.device if self.fused else "cpu")
        return {"step": step, "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}
