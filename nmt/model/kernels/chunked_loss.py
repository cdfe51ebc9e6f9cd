"""The loss from the decoder's states, holding the logits of only a few rows in memory at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

CHUNK_ROWS = 1024  # rows of logits in memory at once on a CPU
_GPU_CHUNK_NUMBERS = 1 << 28  # logits in memory at once on a GPU, which needs large chunks: 1 GiB in fp32


def projected_token_loss(
    states: Tensor,
    weight: Tensor,
    tgt_out: Tensor,
    real: Tensor,
    label_smoothing: float = 0.0,
    *,
    compiled: bool = False,
) -> Tensor:
    """Return the sum of `token_loss(states @ weight.T, tgt_out)`, in nats, without ever holding all the logits.

    states [B, T, D] or packed [1, N, D], weight [V, D], tgt_out [B, T], real [N]: the positions of B x T that count.
    The forward pass computes gradients chunk by chunk, while the logits exist (as in Hsu et al. 2024, Liger
    Kernel, section 3.2). With `compiled`, torch.compile fuses everything but the products.
    """
    rows = states.flatten(0, 1)
    if len(rows) != len(real):
        rows = rows.index_select(0, real)  # [N, D]
    targets = tgt_out.flatten().index_select(0, real)  # [N]
    loss_sum: Tensor = _ProjectedLoss.apply(rows, weight, targets, label_smoothing, compiled)
    return loss_sum


def with_bias(states: Tensor, projection: nn.Linear) -> tuple[Tensor, Tensor]:
    """Return states and weight whose product has the bias of `projection`, if there is one: [..., D + 1], [V, D + 1].

    A constant input of 1 has the bias as its weight.
    """
    if projection.bias is None:
        return states, projection.weight
    ones = states.new_ones((*states.shape[:-1], 1))
    return torch.cat([states, ones], -1), torch.cat([projection.weight, projection.bias[:, None]], 1)


class _ProjectedLoss(torch.autograd.Function):
    """Sum of label-smoothed cross-entropy of rows @ weight.T against targets."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, targets: Tensor, smoothing: float, compiled: bool) -> Tensor:
        with_gradient = any(ctx.needs_input_grad)
        loss_and_gradient = _compiled() if compiled else _loss_and_gradient
        loss_sum = torch.zeros((), dtype=torch.float32, device=rows.device)
        rows_grad = torch.empty_like(rows)
        weight_grad = torch.zeros_like(weight, dtype=torch.float32)
        num_rows = chunk_rows(weight)
        for start in range(0, len(rows), num_rows):
            chunk = slice(start, start + num_rows)
            loss, grad = loss_and_gradient(rows[chunk] @ weight.t(), targets[chunk, None], smoothing, with_gradient)
            loss_sum += loss
            if grad is None:
                continue
            torch.mm(grad, weight, out=rows_grad[chunk])
            if weight.dtype == torch.float32:
                weight_grad.addmm_(grad.t(), rows[chunk])
            else:
                weight_grad += grad.t() @ rows[chunk]
        ctx.save_for_backward(rows_grad, weight_grad)
        return loss_sum

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        rows_grad, weight_grad = ctx.saved_tensors
        # The incoming gradient scales both; usually it is 1 / tokens of the update.
        return rows_grad * grads[0], (weight_grad * grads[0]).to(rows_grad.dtype), None, None, None


def chunk_rows(weight: Tensor) -> int:
    """Return the number of rows of logits to hold at once, for the device and vocabulary of weight [V, D]."""
    if weight.device.type == "cpu":
        return CHUNK_ROWS
    return max(CHUNK_ROWS, min(8192, _GPU_CHUNK_NUMBERS // weight.size(0)))


LossAndGradient = Callable[[Tensor, Tensor, float, bool], tuple[Tensor, Tensor | None]]


def _loss_and_gradient(
    products: Tensor, target: Tensor, smoothing: float, with_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the sum of the loss of logits `products` [n, V], which may be overwritten, for target [n, 1].

    And, `with_gradient`, its gradient by the logits [n, V] = softmax - (1 - e) onehot - e / V, in their dtype.
    """
    logits = products.float()
    # The part of the loss that is linear in the logits: (1 - e) of the target's, e of their mean.
    linear = (1 - smoothing) * logits.gather(1, target)
    if smoothing:
        linear += smoothing * logits.mean(-1, keepdim=True)
    largest = logits.amax(-1, keepdim=True)
    total = logits.sub_(largest).exp_().sum(-1, keepdim=True)
    loss = (total.log() + largest - linear).sum()
    if not with_gradient:
        return loss, None
    grad = logits.div_(total)
    if smoothing:
        grad.sub_(smoothing / products.size(1))
    return loss, grad.scatter_add_(1, target, grad.new_full(target.shape, smoothing - 1.0)).to(products.dtype)


@functools.cache
def _compiled() -> LossAndGradient:
    # dynamic, because the last chunk of a batch has any number of rows.
    return torch.compile(_loss_and_gradient, dynamic=True)
