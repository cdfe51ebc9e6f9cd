"""AdamW on an fp32 copy of the weights, their learning-rate schedule and loss scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from nmt.config.training import TrainingConfig
from nmt.model.transformer import Transformer
from nmt.training.update.adamw import AdamW
from nmt.training.update.distributed import ProcessGroup

CHUNK_NUMBERS = 1 << 25  # gradients widened to fp32 at a time: 128 MiB
_FIRST_SCALE, _MAX_SCALE = 2.0**16, 2.0**24  # of the loss in fp16; as torch's GradScaler starts, and a bound
_NUM_UPDATES_TO_DOUBLE = 2000  # consecutive finite updates after which the loss scale doubles, as in GradScaler


def learning_rate(config: TrainingConfig, update: int) -> float:
    """Return the learning rate of an update (from 1): linear warmup to `lr`, then the schedule's decay.

    inverse_sqrt: lr sqrt(warmup / update) (Vaswani et al. 2017, section 5.3). cosine (Loshchilov and Hutter 2017) and
    linear fall to 0 at `max_updates`. wsd (Hu et al. 2024, section 4.2) stays at `lr` until the last `cooldown_share`
    of the updates, or the end of the warmup, then falls linearly to 0 (Hägele et al. 2024, section 3); constant stays
    there.
    """
    warmup = config.warmup_updates
    if update <= warmup:
        return config.lr * update / warmup
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "inverse_sqrt":
        return config.lr * math.sqrt(max(1, warmup) / update)
    if config.schedule == "wsd":
        cooldown = min(config.cooldown_share * config.max_updates, max(1, config.max_updates - warmup))
        return config.lr * min(1.0, max(0.0, config.max_updates - update) / cooldown)
    left = max(0.0, 1.0 - (update - warmup) / max(1, config.max_updates - warmup))
    return config.lr * (left if config.schedule == "linear" else 0.5 * (1.0 - math.cos(math.pi * left)))


class LossScale:
    """Dynamic loss scaling for fp16 (Micikevicius et al. 2018, section 3.2): halves on overflow, doubles regularly.

    Its numbers stay on the device, so that the host never waits for it.
    """

    def __init__(self, device: torch.device):
        self.scale = torch.tensor(_FIRST_SCALE, device=device)
        self.num_finite = torch.tensor(0.0, device=device)  # consecutive updates

    @torch.no_grad()
    def adapt(self, is_finite: Tensor) -> None:
        """Adapt the scale after an update; `is_finite` tells if its gradients were finite."""
        num_finite = torch.where(is_finite, self.num_finite + 1, 0.0)
        doubles = num_finite >= _NUM_UPDATES_TO_DOUBLE
        grown = torch.where(doubles, (2 * self.scale).clamp(max=_MAX_SCALE), self.scale)
        self.scale.copy_(torch.where(is_finite, grown, (0.5 * self.scale).clamp(min=1.0)))
        self.num_finite.copy_(torch.where(doubles, 0.0, num_finite))

    def state(self) -> dict[str, Tensor]:
        """Return the tensors to save, by name."""
        return {"scale": self.scale, "num_finite": self.num_finite}


class Optimizer:
    """AdamW (Loshchilov and Hutter 2019) on an fp32 copy of the weights.

    If the model computes in fp32, the copy is the model's own parameters. bf16 and fp16, with 8 and 11 bits of
    mantissa, would lose small steps; with them, gradients are accumulated and applied in fp32, and the result is
    rounded. Because of the narrow range of fp16, the gradients are then those of a scaled loss.
    """

    def __init__(self, model: Transformer, config: TrainingConfig, dtype: torch.dtype):
        """Convert `model` from fp32 to `dtype`; its position tables stay in fp32."""
        self.max_norm = config.clip_norm or math.inf
        self.model_parameters = dict(model.named_parameters())
        self.reduced = dtype != torch.float32
        self.master = self.model_parameters
        if self.reduced:
            self.master = {n: nn.Parameter(p.detach().clone()) for n, p in self.model_parameters.items()}
            for parameter in self.model_parameters.values():
                parameter.data = parameter.data.to(dtype)
        # The gradients of all parameters, to which each batch adds. They stay where they are, for recorded updates.
        sizes = [parameter.numel() for parameter in self.master.values()]
        self.gradients = torch.zeros(sum(sizes), device=model.device)
        self._views = [
            part.view_as(parameter)
            for part, parameter in zip(self.gradients.split(sizes), self.master.values(), strict=True)
        ]
        for parameter, view in zip(self.master.values(), self._views, strict=True):
            parameter.grad = view
        self._is_empty = True  # nothing was added since the last update
        self.keeps_zeros = False  # for recorded updates, which only add; others copy their first gradients
        self.loss_scale = LossScale(model.device) if dtype == torch.float16 else None
        self.adam = AdamW(self.master, config.betas, config.eps)

    def scaled(self, scale: float | Tensor) -> float | Tensor:
        """Return the factor of a loss with the loss scale in it, if there is one."""
        return scale if self.loss_scale is None else scale * self.loss_scale.scale

    @torch.no_grad()
    def accumulate(self, grads: Sequence[Tensor]) -> None:
        """Add the gradients of the model's parameters to those of the master copy, in fp32."""
        is_first = self._is_empty and not self.keeps_zeros
        self._is_empty = False
        for targets, sources in _chunks(self._views, grads):
            if is_first:
                torch._foreach_copy_(targets, sources)
                continue
            widened = sources
            if self.reduced:
                widened = [torch.empty_like(target) for target in targets]
                torch._foreach_copy_(widened, sources)
            torch._foreach_add_(targets, widened)

    @torch.no_grad()
    def sum_gradients(self, group: ProcessGroup) -> None:
        """Sum the accumulated gradients over all ranks, in fp32, in one exchange."""
        if group.world_size > 1:
            self.gradients.copy_(group.sum(self.gradients))

    def zero_grad(self) -> None:
        """Drop the accumulated gradients, and free memory that torch keeps of a GPU."""
        self.gradients.zero_()
        self._is_empty = True
        if self.gradients.is_cuda:
            torch.cuda.empty_cache()

    @torch.no_grad()
    def step(self, lr: float | Tensor, loss: Tensor | None = None) -> Tensor:
        """Clip, apply and clear the gradients; return their norm before clipping.

        If the norm or `loss` (summed over all ranks) is not finite, weights and moments do not change. The device
        decides that, so that the host does not wait for it.
        """
        if self.loss_scale is not None:
            self.gradients.mul_(1 / self.loss_scale.scale)
        # As torch.nn.utils.clip_grad_norm_: the norm of the parameters' norms.
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(self._views)))
        self.gradients.mul_((self.max_norm / (norm + 1e-6)).clamp(max=1.0))
        is_finite = torch.isfinite(norm if loss is None else norm + loss)
        self.adam.step(self._views, lr, is_finite)
        if self.keeps_zeros:
            self.gradients.zero_()
        self._is_empty = True
        if self.loss_scale is not None:
            self.loss_scale.adapt(is_finite)
        self.round_into_model()
        return norm

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy named fp32 weights into the master copy and into the model."""
        for name, parameter in self.master.items():
            parameter.copy_(weights[name])
        self.round_into_model()

    def round_into_model(self) -> None:
        """Round the master copy into a model that computes in bf16 or fp16; in fp32, they are the same."""
        if self.reduced:
            torch._foreach_copy_(list(self.model_parameters.values()), list(self.master.values()))


def _chunks(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Yield parts of both lists of about `CHUNK_NUMBERS` numbers each: few launches, little memory at a time."""
    start = num_numbers = 0
    for end, target in enumerate(targets, 1):
        num_numbers += target.numel()
        if num_numbers >= CHUNK_NUMBERS or end == len(targets):
            yield list(targets[start:end]), list(sources[start:end])
            start = end
            num_numbers = 0
