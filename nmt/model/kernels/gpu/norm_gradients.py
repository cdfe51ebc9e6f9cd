"""Compute the gradients of a layer norm in one pass over its rows; torch reads them once more for each sum."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_NUM_PROGRAMS = 264  # two for each multiprocessor of an H100
_NUMBERS = 2048  # of a tile


@triton.jit  # type: ignore[untyped-decorator]
def _norm_kernel(  # type: ignore[no-untyped-def]
    states, grads, weight, means, scales, state_grads, sums, num_rows, num_features, rows_each,
    ROWS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    features = tl.arange(0, FEATURES)
    is_feature = features < num_features
    gain = tl.load(weight + features, mask=is_feature, other=0.0).to(tl.float32)
    weight_grad = tl.zeros([FEATURES], tl.float32)
    bias_grad = tl.zeros([FEATURES], tl.float32)
    last = tl.minimum(num_rows, (part + 1) * rows_each)
    for first in range(part * rows_each, last, ROWS):
        numbers = first + tl.arange(0, ROWS)
        inside = (numbers < last)[:, None] & is_feature[None, :]
        places = numbers[:, None] * num_features + features[None, :]
        state = tl.load(states + places, mask=inside, other=0.0).to(tl.float32)
        grad = tl.load(grads + places, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(means + numbers, mask=numbers < last, other=0.0)
        scale = tl.load(scales + numbers, mask=numbers < last, other=0.0)
        normed = tl.where(inside, (state - mean[:, None]) * scale[:, None], 0.0)
        weighted = grad * gain[None, :]
        along = tl.sum(weighted * normed, 1) / num_features
        shift = tl.sum(weighted, 1) / num_features
        state_grad = scale[:, None] * (weighted - shift[:, None] - normed * along[:, None])
        tl.store(state_grads + places, state_grad.to(state_grads.dtype.element_ty), mask=inside)
        weight_grad += tl.sum(grad * normed, 0)
        bias_grad += tl.sum(grad, 0)
    tl.store(sums + (2 * part) * num_features + features, weight_grad, mask=is_feature)
    tl.store(sums + (2 * part + 1) * num_features + features, bias_grad, mask=is_feature)


class NormInOnePass(torch.autograd.Function):
    """Layer norm by torch's kernel, with its gradients in one pass."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        """Normalize states [..., D]."""
        states = states.contiguous()
        normed, mean, scale = torch.native_layer_norm(states, weight.shape, weight, bias, eps)
        ctx.save_for_backward(states, weight, mean, scale)
        return normed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Return the gradients of states, weight and bias."""
        states, weight, mean, scale = ctx.saved_tensors
        grad = grads[0].contiguous()
        size = weight.numel()
        num_rows = states.numel() // size
        features = triton.next_power_of_2(size)
        rows = max(1, _NUMBERS // features)
        rows_each = triton.cdiv(triton.cdiv(num_rows, _NUM_PROGRAMS), rows) * rows
        num_programs = triton.cdiv(num_rows, rows_each)
        state_grad = torch.empty_like(states)
        sums = torch.empty(num_programs, 2, size, dtype=torch.float32, device=states.device)
        _norm_kernel[(num_programs,)](
            states, grad, weight, mean, scale, state_grad, sums, num_rows, size, rows_each,
            ROWS=rows, FEATURES=features,
        )  # fmt: skip
        weight_grad, bias_grad = sums.sum(0).to(weight.dtype).unbind(0)
        return state_grad, weight_grad, bias_grad, None
