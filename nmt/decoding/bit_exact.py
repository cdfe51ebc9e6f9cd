"""The minimum batch size from which the result for a row is bit-identical for any batch size.

A translation must not depend on the rest of its batch, not even in the last bit. But kernels for few rows may sum in a
different order than kernels for many. If they do for a model and device, `Decoder` pads small batches with empty rows,
which costs time.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from nmt.model.transformer import Transformer

DEFAULT_MIN_ROWS = 16  # bit-exact on every machine tried
_TRIED = (1, 2, 3, 5, 8, 11, 15)


@torch.inference_mode()
def min_rows(model: Transformer) -> int:
    """Return 1 if every linear layer computes a single row bit-identically to the same row in a batch, else 16.

    For fp32 models on a CPU, a short trial decides.
    """
    if model.output_proj.weight.dtype != torch.float32 or model.device.type != "cpu":
        return DEFAULT_MIN_ROWS
    layers = {module.weight.shape: module for module in model.modules() if isinstance(module, nn.Linear)}
    numbers = torch.Generator().manual_seed(1)
    for layer in layers.values():
        rows = torch.rand(64, layer.in_features, generator=numbers) - 0.5
        among_others = F.linear(rows, layer.weight, layer.bias)
        if any(not F.linear(rows[:n], layer.weight, layer.bias).equal(among_others[:n]) for n in _TRIED):
            return DEFAULT_MIN_ROWS
    return 1
