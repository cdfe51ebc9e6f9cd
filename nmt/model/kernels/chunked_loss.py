"""The loss, computed from the decoder's states with the logits of only a few rows in memory at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

CHUNK_ROWS = 1024  # rows of logits in memory at once on a CPU
_GPU_CHUNK_NUMBERS = 1 << 28  # logits in memory at once on a GPU, which needs large chunks: 1 GiB in fp32
_CACHED_NUMBERS = 1 << 18  # logits per block of the R-Drop loss on a CPU: 1 MiB, which fits its cache

LossAndGradient = Callable[[Tensor, Tensor, bool], tuple[Tensor, Tensor | None]]
"""Maps logits [n, V] (which it may overwrite), targets [n, 1] and `with_gradient` to (sum of the loss, gradient)."""


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

    states [B, T, D] or packed [1, N, D], weight [V, D], tgt_out [B, T], real [N]: indices of the real tokens among the
    B x T positions. The forward pass computes the gradients too, chunk by chunk, while the logits exist (as in Hsu et
    al. 2024, Liger Kernel, section 3.2). With `compiled`, torch.compile fuses everything except the matrix products.
    """
    rows = states.flatten(0, 1)
    if len(rows) != len(real):
        rows = rows.index_select(0, real)  # [N, D]
    targets = tgt_out.flatten().index_select(0, real)  # [N]
    function = _compiled(_loss_and_gradient) if compiled else _loss_and_gradient
    loss_sum: Tensor = _ProjectedLoss.apply(rows, weight, targets, partial(function, smoothing=label_smoothing))
    return loss_sum


class RDrop(NamedTuple):
    """The settings of the R-Drop loss."""

    alpha: float  # weight of the Kullback-Leibler divergence
    label_smoothing: float = 0.0


def r_drop_loss(
    states: Tensor, weight: Tensor, tgt_out: Tensor, real: Tensor, settings: RDrop, *, compiled: bool = False
) -> Tensor:
    """Return the R-Drop loss (Liang et al. 2021, section 2.1), summed over target tokens, in nats.

    `states`, `tgt_out` and `real` are as for `projected_token_loss`, for a batch that holds each row twice: first all
    rows of the first pass, then the same rows with different dropout. The loss per token is half of the paper's, which
    gives it the scale of a single pass: the mean of both cross-entropies, plus alpha / 4 times the sum of the
    Kullback-Leibler divergences in both directions.
    """
    rows = states.flatten(0, 1)
    real = real.view(2, len(real) // 2)
    by_token = real if len(rows) != real.numel() else torch.arange(len(rows), device=rows.device).view_as(real)
    # Put both passes of a token side by side, so that every chunk holds whole pairs.
    rows = rows.index_select(0, by_token.t().flatten())  # [2N, D]
    targets = tgt_out.flatten().index_select(0, real.t().flatten())  # [2N]
    function = _compiled(_r_drop_and_gradient) if compiled else _r_drop_by_blocks
    bound = partial(function, alpha=settings.alpha, smoothing=settings.label_smoothing)
    loss_sum: Tensor = _ProjectedLoss.apply(rows, weight, targets, bound)
    return loss_sum


def with_bias(states: Tensor, projection: nn.Linear) -> tuple[Tensor, Tensor]:
    """Fold the bias of `projection`, if it has one, into its weight: return states [..., D + 1] and weight [V, D + 1].

    The bias becomes the weight of a constant input of 1.
    """
    if projection.bias is None:
        return states, projection.weight
    ones = states.new_ones((*states.shape[:-1], 1))
    return torch.cat([states, ones], -1), torch.cat([projection.weight, projection.bias[:, None]], 1)


class _ProjectedLoss(torch.autograd.Function):
    """Sum a loss of the logits rows @ weight.T against targets, chunk by chunk."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, targets: Tensor, loss_and_gradient: LossAndGradient) -> Tensor:
        with_gradient = any(ctx.needs_input_grad)
        loss_sum = torch.zeros((), dtype=torch.float32, device=rows.device)
        rows_grad = torch.empty_like(rows)
        weight_grad = torch.zeros_like(weight, dtype=torch.float32)
        num_rows = chunk_rows(weight)
        for start in range(0, len(rows), num_rows):
            chunk = slice(start, start + num_rows)
            loss, grad = loss_and_gradient(rows[chunk] @ weight.t(), targets[chunk, None], with_gradient)
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
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        rows_grad, weight_grad = ctx.saved_tensors
        # The incoming gradient scales both; usually it is 1 / (tokens in the update).
        return rows_grad * grads[0], (weight_grad * grads[0]).to(rows_grad.dtype), None, None


def chunk_rows(weight: Tensor) -> int:
    """Return how many rows of logits to hold at once, given the device and vocabulary of weight [V, D]; always even."""
    if weight.device.type == "cpu":
        return CHUNK_ROWS
    return max(CHUNK_ROWS, min(8192, _GPU_CHUNK_NUMBERS // weight.size(0) // 2 * 2))


def _loss_and_gradient(
    products: Tensor, target: Tensor, with_gradient: bool, smoothing: float
) -> tuple[Tensor, Tensor | None]:
    """Return the loss of logits `products` [n, V] for target [n, 1], summed; may overwrite the logits.

    With `with_gradient`, also return its gradient by the logits, [n, V] = softmax - (1 - e) onehot - e / V, in their
    dtype.
    """
    logits = products.float()
    # The part of the loss that is linear in the logits: (1 - e) times the target's logit, e times their mean.
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


def _r_drop_by_blocks(
    products: Tensor, target: Tensor, with_gradient: bool, alpha: float, smoothing: float
) -> tuple[Tensor, Tensor | None]:
    """Compute `_r_drop_and_gradient`; on a CPU, in blocks of a few rows, which stay in its cache between operations."""
    if products.device.type != "cpu":
        return _r_drop_and_gradient(products, target, with_gradient, alpha, smoothing)
    num_rows = max(2, _CACHED_NUMBERS // products.size(1) // 2 * 2)
    loss_sum = products.new_zeros((), dtype=torch.float32)
    for rows, targets in zip(products.split(num_rows), target.split(num_rows), strict=True):
        loss, grad = _r_drop_and_gradient(rows, targets, with_gradient, alpha, smoothing)
        loss_sum += loss
        if grad is not None and products.dtype != torch.float32:  # in fp32, the gradient has overwritten the rows
            rows.copy_(grad)
    return loss_sum, products if with_gradient else None


def _r_drop_and_gradient(
    products: Tensor, target: Tensor, with_gradient: bool, alpha: float, smoothing: float
) -> tuple[Tensor, Tensor | None]:
    """Return `r_drop_loss` for logits `products` [2n, V] of n tokens, and its gradient, as `_loss_and_gradient` does.

    With p and q the softmax of the logits a and b of a token in its two passes, d = log p - log q, and
    J = KL(p|q) + KL(q|p): dJ/da = p (d - KL(p|q)) + p - q, and dJ/db likewise with p and q exchanged.
    """
    share = 0.25 * alpha
    logits = products.float()
    linear = (1 - smoothing) * logits.gather(1, target)
    if smoothing:
        linear += smoothing * logits.mean(-1, keepdim=True)
    largest = logits.amax(-1, keepdim=True)
    probs = logits.sub(largest).exp_()
    total = probs.sum(-1, keepdim=True)
    probs.div_(total)
    log_total = total.log_() + largest
    pairs, (first, second) = logits.view(-1, 2, logits.size(1)), probs.view(-1, 2, logits.size(1)).unbind(1)
    ahead = (pairs[:, 0] - pairs[:, 1]).sub_(log_total[0::2] - log_total[1::2])  # [n, V]: d
    divergences = torch.stack([(first * ahead).sum(-1), -(second * ahead).sum(-1)], 1).view(-1, 1)
    loss = 0.5 * (log_total - linear).sum() + share * divergences.sum()
    if not with_gradient:
        return loss, None
    grad = torch.mul(probs, 0.5 + share - share * divergences, out=logits)
    pairs[:, 0].addcmul_(first, ahead, value=share).sub_(second, alpha=share)
    pairs[:, 1].addcmul_(second, ahead, value=-share).sub_(first, alpha=share)
    if smoothing:
        grad.sub_(0.5 * smoothing / products.size(1))
    return loss, grad.scatter_add_(1, target, grad.new_full(target.shape, 0.5 * (smoothing - 1.0))).to(products.dtype)


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    # dynamic, because the last chunk of a batch may have any number of rows.
    return torch.compile(function, dynamic=True)
