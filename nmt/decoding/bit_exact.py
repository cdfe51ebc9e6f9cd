"""The minimum number of rows for which the bits of a row do not depend on the number of rows.

A translation must not depend on the rest of its batch, to the last bit. Kernels for few rows may sum in another order
than others. For a model and a device where they do, `Decoder` adds empty rows to small batches, which costs time.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from nmt.model.kernels.int8 import Int8Linear
from nmt.model.transformer import Transformer

DEFAULT_MIN_ROWS = 16  # bit-exact on every machine tried
_TRIED = (1, 2, 3, 5, 8, 11, 15)


@torch.inference_mode()
def min_rows(model: Transformer) -> int:
    """Return 1 if every linear layer computes a single row bit-identically to the same row in a batch, else 16.

    A short trial decides for models in fp32 on a CPU. Sums of integers do not depend on their order.
    """
    if isinstance(model.output_proj, Int8Linear):
        return 1
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
