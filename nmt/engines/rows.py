"""How many rows a product needs, so that the bits of a row do not depend on how many there are.

A translation must not depend on what is translated beside it, to the last bit. Kernels for few rows may add in another
order than the rest; where they do, a batch gets rows that say nothing (`Transformer.min_rows`), which cost time.
"""

from __future__ import annotations

import os

import torch
from torch import nn
from torch.nn import functional as F

from nmt.machine import processor
from nmt.model.transformer import Transformer

_TRIED = (1, 2, 3, 5, 8, 11, 15)


def ask_for_steady_rows() -> None:
    """Ask Intel's MKL to add in one order for any number of rows, where that is as fast for many of them.

    On other makers' processors it would take its slowest code. It reads the variable once, before its first product in
    this process; one that is set already stays.
    """
    if "Intel" in processor() and torch.backends.cpu.get_cpu_capability() == "AVX512":
        os.environ.setdefault("MKL_CBWR", "AVX512,STRICT")


@torch.inference_mode()
def min_rows(model: Transformer) -> int:
    """1 where each linear layer of `model` gives a row alone the bits that it has among others, else as many as before.

    Found by trying, in some hundredths of a second.
    """
    layers = {module.weight.shape: module for module in model.modules() if isinstance(module, nn.Linear)}
    numbers = torch.Generator().manual_seed(1)
    for layer in layers.values():
        rows = torch.rand(64, layer.in_features, generator=numbers) - 0.5
        among_others = F.linear(rows, layer.weight, layer.bias)
        if any(not F.linear(rows[:n], layer.weight, layer.bias).equal(among_others[:n]) for n in _TRIED):
            return model.min_rows
    return 1
