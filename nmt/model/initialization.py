"""Initial weights."""

from __future__ import annotations

import torch
from torch import nn

from nmt.base.device import on_meta_device


def make_embedding(num_rows: int, d_model: int) -> nn.Embedding:
    """Build an embedding table of `num_rows` vectors."""
    if on_meta_device():
        return nn.Embedding.from_pretrained(torch.empty(num_rows, d_model), freeze=False)
    return nn.Embedding(num_rows, d_model)


def initialize(model: nn.Module, d_model: int) -> None:
    """Initialize linear weights as in Glorot and Bengio 2010, biases with 0, and embeddings with variance 1/D.

    `Embedding` multiplies by sqrt(D), so its outputs have variance 1.
    """
    if on_meta_device():
        return
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=d_model**-0.5)
