"""Compute the loss of logits and its gradient in one kernel, which reads the logits twice and writes them once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 4096  # logits of a row at a time


@triton.jit  # type: ignore[untyped-decorator]
def _loss_kernel(  # type: ignore[no-untyped-def]
    logits, targets, losses, row_stride, num_logits, smoothing, BLOCK: tl.constexpr, WITH_GRADIENT: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    first_logit = logits + row * row_stride
    target = tl.load(targets + row)
    at_target = tl.load(first_logit + target).to(tl.float32)
    largest = -float("inf")
    total = 0.0  # of exp(logit - largest)
    sum_of_logits = 0.0
    for start in range(0, num_logits, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        exists = columns < num_logits
        block = tl.load(first_logit + columns, mask=exists, other=-float("inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(block, 0))
        total = total * tl.exp(largest - new_largest) + tl.sum(tl.exp(block - new_largest), 0)
        sum_of_logits += tl.sum(tl.where(exists, block, 0.0), 0)
        largest = new_largest
    log_total = largest + tl.log(total)
    spread = smoothing / num_logits
    tl.store(losses + row, log_total - (1 - smoothing) * at_target - spread * sum_of_logits)
    if WITH_GRADIENT:
        for start in range(0, num_logits, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            exists = columns < num_logits
            block = tl.load(first_logit + columns, mask=exists, other=0.0).to(tl.float32)
            gradient = tl.exp(block - log_total) - spread - tl.where(columns == target, 1 - smoothing, 0.0)
            tl.store(first_logit + columns, gradient.to(logits.dtype.element_ty), mask=exists)


def fused_loss(products: Tensor, target: Tensor, with_gradient: bool, smoothing: float) -> Tensor:
    """Return the losses [n, 1] of logits `products` [n, V] for target [n, 1].

    With `with_gradient`, overwrite the logits by the gradient, softmax - (1 - e) onehot - e / V.
    """
    count, num_logits = products.shape
    losses = torch.empty(count, 1, dtype=torch.float32, device=products.device)
    _loss_kernel[(count,)](
        products, target, losses, products.stride(0), num_logits, smoothing,
        BLOCK=_BLOCK, WITH_GRADIENT=with_gradient, num_warps=8,
    )  # fmt: skip
    return losses
