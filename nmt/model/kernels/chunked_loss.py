"""The loss from the decoder's states, with the logits of a few rows in memory at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK_ROWS = 1024  # rows of logits alive at once


def projected_token_loss(
    states: Tensor, weight: Tensor, tgt_out: Tensor, real: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Return the sum of `token_loss(states @ weight.T, tgt_out)`, in nats, without ever holding all the logits.

    states [B, T, D] or packed [1, N, D], weight [V, D], tgt_out [B, T], real [N]: the positions of B x T that count.
    Gradients are made chunk by chunk in the forward pass, where the logits are at hand (as in Hsu et al. 2024, Liger
    Kernel, section 3.2).
    """
    rows = states.flatten(0, 1)
    if len(rows) != len(real):
        rows = rows.index_select(0, real)  # [N, D]
    targets = tgt_out.flatten().index_select(0, real)  # [N]
    loss_sum: Tensor = _ProjectedLoss.apply(rows, weight, targets, label_smoothing)
    return loss_sum


class _ProjectedLoss(torch.autograd.Function):
    """Sum of label-smoothed cross-entropy of rows @ weight.T against targets."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        with_grads = any(ctx.needs_input_grad)
        loss_sum = torch.zeros((), dtype=torch.float32, device=rows.device)
        rows_grad = torch.empty_like(rows)
        weight_grad = torch.zeros_like(weight, dtype=torch.float32)
        for start in range(0, len(rows), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            target = targets[chunk, None]
            loss, probs = _loss_and_softmax((rows[chunk] @ weight.t()).float(), target, smoothing)
            loss_sum += loss
            if not with_grads:
                continue
            # d loss / d logits = softmax - (1 - e) onehot - e / V
            if smoothing:
                probs.sub_(smoothing / weight.size(0))
            grad = probs.scatter_add_(1, target, probs.new_full(target.shape, smoothing - 1.0)).to(rows.dtype)
            torch.mm(grad, weight, out=rows_grad[chunk])
            if weight.dtype == torch.float32:
                weight_grad.addmm_(grad.t(), rows[chunk])
            else:
                weight_grad += grad.t() @ rows[chunk]
        ctx.save_for_backward(rows_grad, weight_grad)
        return loss_sum

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        rows_grad, weight_grad = ctx.saved_tensors
        # The gradient from above scales both: 1 / tokens of the update, as a rule.
        return rows_grad * grads[0], (weight_grad * grads[0]).to(rows_grad.dtype), None, None


def _loss_and_softmax(logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the sum of the loss of logits [n, V] for target [n, 1], and the softmax, which overwrites the logits."""
    # The part of the loss that is linear in the logits: (1 - e) of the target's, e of their mean.
    linear = (1 - smoothing) * logits.gather(1, target)
    if smoothing:
        linear += smoothing * logits.mean(-1, keepdim=True)
    largest = logits.amax(-1, keepdim=True)
    total = logits.sub_(largest).exp_().sum(-1, keepdim=True)
    return (total.log() + largest - linear).sum(), logits.div_(total)
