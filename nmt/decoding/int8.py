"""Linear layers in 8-bit integers, for translation on a CPU."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from nmt.model.layers import EncoderLayer
from nmt.model.transformer import Transformer

log = logging.getLogger(__name__)

LARGEST_WEIGHT = 64
"""The largest quantized weight, as in native/kernel.h: with 65, the sum of two products could exceed 16 bits."""

_TRIED_ROWS = 64


class Int8Linear(nn.Module):
    """y = W x + b with W and x in 8-bit integers, with one scale per output and one per row of x.

    Inputs are quantized to [-127, 127], weights to [-64, 64]. Processors without VNNI instructions add pairs of
    products in 16 bits; with these ranges the sums are exact there too. The result for a row is bit-identical whatever
    the other rows are.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None
    tiny: Tensor

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach().float()
        scale = (weight.abs().amax(1, keepdim=True) / LARGEST_WEIGHT).clamp_min(1e-30)  # [out, 1]
        self.register_buffer("weight", (weight / scale).round().to(torch.int8).t())  # [in, out]
        self.register_buffer("scale", scale.squeeze(1))  # [out]
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float())
        self.register_buffer("tiny", torch.tensor(1e-30))

    def forward(self, states: Tensor) -> Tensor:
        """Map states [..., in] to [..., out], both fp32."""
        # For a single row, each operation costs as much as the matrix product: use few, in place, no Python scalars.
        rows = states.reshape(-1, states.size(-1))
        scale = torch.add(self.tiny, rows.abs().amax(1, keepdim=True), alpha=1 / 127)  # [rows, 1]
        totals = torch._int_mm((rows / scale).round_().to(torch.int8), self.weight)  # [rows, out], int32
        outputs = totals.float().mul_(self.scale).mul_(scale)
        if self.bias is not None:
            outputs.add_(self.bias)
        return outputs.view(*states.shape[:-1], -1)


@torch.no_grad()
def quantize(model: Transformer) -> Transformer:
    """Replace every linear layer of `model` by an `Int8Linear`; embeddings, norms and attention stay in fp32."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))
    return model


def quantize_if_faster(models: Sequence[Transformer]) -> list[Transformer]:
    """Quantize `models` if int8 is faster on this machine; otherwise return them in fp32 and log a warning.

    torch has no fast 8-bit kernel for processors without VNNI instructions.
    """
    speedup = min(int8_speedup(model) for model in models)
    if speedup >= 1.0:
        return [quantize(model) for model in models]
    log.warning(
        "int8 takes %.1f times as long as fp32 on this processor with a model of this size: computing in fp32",
        1.0 / speedup,
    )
    return [*models]


@torch.inference_mode()
def int8_speedup(model: Transformer) -> float:
    """Measure the speed of the model's widest hidden layer in int8 relative to fp32; below 1, int8 is slower."""
    layer = model.encoder_layers[0]
    assert isinstance(layer, EncoderLayer)
    linear = layer.feed_forward.input_proj
    rows = torch.randn(_TRIED_ROWS, linear.in_features, generator=torch.Generator().manual_seed(1))
    return _fastest_seconds(linear, rows) / _fastest_seconds(Int8Linear(linear), rows)


def _fastest_seconds(layer: Callable[[Tensor], Tensor], rows: Tensor) -> float:
    """Warm up the layer and return the shortest of a few timings; takes less than a second."""
    layer(rows)
    seconds: list[float] = []
    while len(seconds) < 8 and sum(seconds) < 0.2:
        started = time.perf_counter()
        layer(rows)
        seconds.append(time.perf_counter() - started)
    return min(seconds)
