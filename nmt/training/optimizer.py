"""AdamW, its learning-rate schedule, and the fp32 master copy of weights trained in bf16."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config.sections import TrainingConfig
from nmt.model.transformer import Transformer


def learning_rate(config: TrainingConfig, update: int) -> float:
    """The rate of an update, counted from 1: linear warmup to `lr`, then the schedule's decay.

    inverse_sqrt: lr sqrt(warmup / update) (Vaswani et al. 2017, section 5.3); cosine (Loshchilov and Hutter 2017) and
    linear fall to 0 at `max_updates`.
    """
    warmup = config.warmup_updates
    if update <= warmup:
        return config.lr * update / warmup
    if config.schedule == "inverse_sqrt":
        return config.lr * math.sqrt(max(1, warmup) / update)
    left = max(0.0, 1.0 - (update - warmup) / max(1, config.max_updates - warmup))
    return config.lr * (left if config.schedule == "linear" else 0.5 * (1.0 - math.cos(math.pi * left)))


class Optimizer:
    """AdamW (Loshchilov and Hutter 2019) on an fp32 copy of the weights.

    Where the model computes in fp32, the copy is the model's own parameters. Where it computes in bf16, whose 8 bits of
    mantissa would swallow small steps, gradients are added up and applied in fp32, and the result is rounded back.
    """

    def __init__(self, model: Transformer, config: TrainingConfig, dtype: torch.dtype):
        """`model`, in fp32, is changed to compute in `dtype`; its tables of positions stay in fp32."""
        self.config = config
        self.model_parameters = dict(model.named_parameters())
        self.reduced = dtype != torch.float32
        self.master = self.model_parameters
        if self.reduced:
            self.master = {n: nn.Parameter(p.detach().clone()) for n, p in self.model_parameters.items()}
            for parameter in self.model_parameters.values():
                parameter.data = parameter.data.to(dtype)
        embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
        decays = {n: p.dim() > 1 and id(p) not in embeddings for n, p in self.model_parameters.items()}
        groups = [
            {"params": [self.master[n] for n in decays if decays[n]], "weight_decay": config.weight_decay},
            {"params": [self.master[n] for n in decays if not decays[n]], "weight_decay": 0.0},
        ]
        fused = next(model.parameters()).device.type in ("cpu", "cuda")
        self.adam = torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=fused)

    def accumulate(self) -> None:
        """Add the model's gradients to those of the master copy; call after each backward pass."""
        if not self.reduced:
            return
        for name, parameter in self.model_parameters.items():
            if parameter.grad is not None:
                grad, master = parameter.grad.float(), self.master[name]
                master.grad = grad if master.grad is None else master.grad.add_(grad)
                parameter.grad = None

    def zero_grad(self) -> None:
        """Drop what was accumulated, and give its memory back."""
        for parameter in (*self.model_parameters.values(), *self.master.values()):
            parameter.grad = None
        if next(iter(self.master.values())).is_cuda:
            torch.cuda.empty_cache()

    @torch.no_grad()
    def step(self, update: int, loss: Tensor | None = None) -> Tensor:
        """Clip, apply and clear the gradients; returns their norm before clipping.

        If the norm or `loss` (summed over all processes) is not finite, weights and moments stay as they are. The
        device decides that, as for scaled gradients: the host need not wait for it.
        """
        limit = self.config.clip_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self.master.values(), limit)
        self._skip_if_not_finite(norm if loss is None else norm + loss)
        for group in self.adam.param_groups:
            group["lr"] = learning_rate(self.config, update)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        if self.reduced:
            self._round_into_model()
        return norm

    def _skip_if_not_finite(self, value: Tensor) -> None:
        if self.adam.defaults["fused"]:
            self.adam.found_inf = (~torch.isfinite(value)).float()  # type: ignore[attr-defined]
        elif not torch.isfinite(value):
            self.adam.zero_grad(set_to_none=True)  # AdamW leaves alone what has no gradient

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take up named fp32 weights, into the copy and into the model."""
        for name, parameter in self.master.items():
            parameter.copy_(weights[name])
        if self.reduced:
            self._round_into_model()

    def _round_into_model(self) -> None:
        torch._foreach_copy_(list(self.model_parameters.values()), list(self.master.values()))

    def state_dict(self) -> dict[str, Any]:
        """Weights and optimizer state."""
        return {"weights": {n: p.detach() for n, p in self.master.items()}, "adam": self.adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.load_weights(state["weights"])
        self.adam.load_state_dict(state["adam"])
