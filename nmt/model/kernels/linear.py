"""Layers with other kernels than torch's where these are slower.

Linear layers train by oneDNN where MKL, torch's other library for products in fp32, is slower (decision 20).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.base.machine import prefers_onednn

BLOCKS = (1024, 256, 64)  # rows per product: oneDNN compiles up to 1 MiB of code for each number, and keeps it
MIN_WEIGHTS = 1 << 14  # with smaller matrices, calls of oneDNN take longer than they save
_TRITON_CAPABILITY = (8, 0)  # Ampere
MAX_NORM_SIZE = 2048  # features of a layer norm whose gradients a GPU computes in one pass


class Linear(nn.Linear):
    """`nn.Linear`, trained by `product` where that is faster. Without gradients, torch's product stays."""

    def forward(self, input: Tensor) -> Tensor:
        """Return input [..., K] @ weight.T + bias, for weight [N, K]."""
        if torch.is_grad_enabled() and self.weight.requires_grad and is_faster(input, self.weight):
            return _Linear.apply(input, self.weight, self.bias)
        return super().forward(input)


class LayerNorm(nn.LayerNorm):
    """`nn.LayerNorm`, with all of its gradients in one pass on a GPU that has Triton."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize input [..., D]."""
        trains = input.is_cuda and torch.is_grad_enabled()
        if trains and input.size(-1) <= MAX_NORM_SIZE and has_triton():
            from nmt.model.kernels.gpu.norm_gradients import NormInOnePass

            return NormInOnePass.apply(input, self.weight, self.bias, self.eps)
        return super().forward(input)


@cache
def has_triton() -> bool:
    """Return whether kernels written in Triton can run: it is installed, and supports this machine's NVIDIA GPU."""
    has_gpu = torch.cuda.is_available() and torch.version.hip is None
    return has_gpu and torch.cuda.get_device_capability() >= _TRITON_CAPABILITY and find_spec("triton") is not None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        return product(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        states, weight = ctx.saved_tensors
        rows = grads[0].flatten(0, -2)
        weight_grad = add_product(torch.zeros_like(weight), rows, states.flatten(0, -2))
        return product(grads[0], weight.t()), weight_grad, rows.sum(0) if ctx.needs_input_grad[2] else None


def is_faster(states: Tensor, weight: Tensor) -> bool:
    """Return whether `product` is faster for these. The processor decides, not a trial: equal runs stay equal."""
    in_fp32 = states.device.type == "cpu" and states.dtype == weight.dtype == torch.float32
    return in_fp32 and weight.numel() >= MIN_WEIGHTS and prefers_onednn()


def product(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return states [..., K] @ weight.T + bias, for weight [N, K], by oneDNN; fewer rows than a block by MKL."""
    count = states.shape[:-1].numel()
    if (size := _block(count)) == count and states.dim() == 2:
        if size in BLOCKS:
            return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
        return F.linear(states, weight, bias)
    # Not a view, which layers could not overwrite.
    products = states.new_empty(*states.shape[:-1], weight.size(0))
    for rows, made in zip(states.flatten(0, -2).split(size), products.flatten(0, -2).split(size), strict=True):
        made.copy_(product(rows, weight, bias))
    return products


def add_product(total: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return total [N, K] + first.T @ second, for first [M, N] and second [M, K], as `product` computes."""
    if first.size(1) > second.size(1):  # oneDNN copies the transposed first factor: let it be the smaller one
        return add_product(total.t(), second, first).t()
    if (size := _block(len(first))) < len(first):
        for rows, others in zip(first.split(size), second.split(size), strict=True):
            total = add_product(total, rows, others)
        return total
    if size in BLOCKS:
        return torch.ops.mkldnn._linear_pointwise.binary(first.t(), total, second.t(), None, "add")
    return torch.addmm(total, first.t(), second)


def _block(count: int) -> int:
    """Return the size of the largest block of `count` rows; `count` if there are fewer than a block."""
    return next((size for size in BLOCKS if size <= count), count)
