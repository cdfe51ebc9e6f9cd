"""The loss: by the plain formula, and from the decoder's states with only a few rows of logits in memory at a time.

Always a sum, never a mean: micro-batches hold different numbers of real tokens, and the mean of their means is not the
token mean.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.base.special_tokens import PAD_ID
from nmt.model.kernels.linear import add_product, has_triton, is_faster, product
from nmt.model.kernels.packing import ROW_MULTIPLE, compiles_each_shape
from nmt.model.masks import sequence_mask

CHUNK_ROWS = 1024  # rows of logits in memory at once on a CPU
_GPU_CHUNK_NUMBERS = 1 << 28  # logits in memory at once on a GPU, which needs large chunks: 1 GiB in fp32
_CACHED_NUMBERS = 1 << 18  # logits per block of a chunk on a CPU: 1 MiB in fp32, which fits its cache


def token_loss(
    logits: Tensor,
    tgt_out: Tensor,
    valid_len: Tensor | None = None,
    *,
    label_smoothing: float = 0.0,
    reduction: Literal["sum", "none"] = "sum",
) -> tuple[Tensor, Tensor]:
    """Return the sum of the cross-entropy over real target tokens, in nats, and the number of these tokens.

    logits [..., T, V], tgt_out [..., T]; padding does not count, nor what follows `valid_len` [B]. With the `reduction`
    none, return the loss of each token [..., T], 0 for padding, and the number of tokens of each sequence [...]. Label
    smoothing as in Szegedy et al. 2016, section 7: the target token keeps 1 - e of the probability, and e is spread
    evenly over all V tokens.
    """
    tgt_out = tgt_out if valid_len is None else sequence_mask(tgt_out, valid_len, PAD_ID)
    rows = logits.flatten(0, -2).float()
    targets = tgt_out.flatten()
    real = tgt_out != PAD_ID
    loss = F.cross_entropy(rows, targets, ignore_index=PAD_ID, label_smoothing=label_smoothing, reduction=reduction)
    return (loss, real.sum()) if reduction == "sum" else (loss.view_as(tgt_out), real.sum(-1))


def projected_token_loss(
    states: Tensor,
    weight: Tensor,
    tgt_out: Tensor,
    real: Tensor | None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the sum of `token_loss(states @ weight.T, tgt_out)`, in nats, without ever holding all the logits.

    states [B, T, D] or [1, N, D], weight [V, D], tgt_out [B, T], real [N]: indices of the real tokens among the B x T
    positions. Without `real`, states are those of a block [1, N, D], and tgt_out [1, N] has padding in its filler. The
    forward pass computes the gradients too, chunk by chunk, while the logits exist (as in Hsu et al. 2024, Liger
    Kernel, section 3.2).
    """
    rows = states.flatten(0, 1)
    targets = tgt_out.flatten()
    if real is None:
        # Zeros have no part in the gradient of the weight, and the product with zeros stops theirs.
        rows = rows * (targets != PAD_ID)[:, None]
    else:
        if len(rows) != len(real):
            rows = rows.index_select(0, real)  # [N, D]
        targets = targets.index_select(0, real)  # [N]
    loss_sum: Tensor = _ProjectedLoss.apply(rows, weight, targets, label_smoothing)
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
    def forward(ctx: Any, rows: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        with_gradient = any(ctx.needs_input_grad)
        by_onednn = with_gradient and is_faster(rows, weight)
        loss_sum = torch.zeros((), dtype=torch.float32, device=rows.device)
        count = len(rows)
        if compiles_each_shape(rows) and count % ROW_MULTIPLE:
            rows = F.pad(rows, (0, 0, 0, -count % ROW_MULTIPLE))  # filler: zeros
        rows_grad = torch.empty_like(rows)
        weight_grad = torch.zeros_like(weight, dtype=torch.float32)
        num_rows = chunk_rows(weight)
        for start in range(0, count, num_rows):
            chunk = slice(start, start + num_rows)
            products = product(rows[chunk], weight) if by_onednn else rows[chunk] @ weight.t()
            # The filler keeps its products, but has no effect: its rows are zeros, and their gradient is not used.
            loss_sum += _by_blocks(products[: count - start], targets[chunk, None], with_gradient, smoothing)
            if not with_gradient:
                continue
            if by_onednn:
                rows_grad[chunk] = product(products, weight.t())
                weight_grad = add_product(weight_grad, products, rows[chunk])
                continue
            torch.mm(products, weight, out=rows_grad[chunk])
            if weight.dtype == torch.float32:
                weight_grad.addmm_(products.t(), rows[chunk])
            else:
                weight_grad += products.t() @ rows[chunk]
        ctx.save_for_backward(rows_grad[:count], weight_grad)
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


def _by_blocks(products: Tensor, target: Tensor, with_gradient: bool, smoothing: float) -> Tensor:
    """Sum the losses of logits [n, V] for targets [n, 1]; padding adds nothing. With a gradient, it overwrites them.

    On a CPU, they are computed in blocks of a few rows, which stay in its cache between operations.
    """
    if products.device.type != "cpu":
        return _sum_of_losses(products, target, with_gradient, smoothing)
    num_rows = max(2, _CACHED_NUMBERS // products.size(1) // 2 * 2)  # even: sums in other blocks have other bits
    loss_sum = products.new_zeros((), dtype=torch.float32)
    for rows, targets in zip(products.split(num_rows), target.split(num_rows), strict=True):
        loss_sum += _sum_of_losses(rows, targets, with_gradient, smoothing)
    return loss_sum


def _sum_of_losses(products: Tensor, target: Tensor, with_gradient: bool, smoothing: float) -> Tensor:
    losses_of = _loss_and_gradient
    if products.is_cuda and has_triton():
        from nmt.model.kernels.gpu.fused_loss import fused_loss as losses_of
    return losses_of(products, target, with_gradient, smoothing).masked_fill(target == PAD_ID, 0.0).sum()


def _loss_and_gradient(products: Tensor, target: Tensor, with_gradient: bool, smoothing: float) -> Tensor:
    """Return the losses [n, 1] of logits `products` [n, V] for target [n, 1]; may overwrite the logits.

    With `with_gradient`, overwrite them by the gradient, softmax - (1 - e) onehot - e / V.
    """
    logits = products.float()
    # The part of the loss that is linear in the logits: (1 - e) times the target's logit, e times their mean.
    linear = (1 - smoothing) * logits.gather(1, target)
    if smoothing:
        linear += smoothing * logits.mean(-1, keepdim=True)
    largest = logits.amax(-1, keepdim=True)
    total = logits.sub_(largest).exp_().sum(-1, keepdim=True)
    losses = total.log() + largest - linear
    if not with_gradient:
        return losses
    grad = logits.div_(total)
    if smoothing:
        grad.sub_(smoothing / products.size(1))
    products.copy_(grad.scatter_add_(1, target, grad.new_full(target.shape, smoothing - 1.0)))
    return losses
