"""Count the floating-point operations that training needs for a batch by the formulas, whatever the kernels do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np
from numpy.typing import NDArray
from torch import nn

from nmt.model.layers import DecoderLayer
from nmt.model.transformer import Transformer


class TrainingFlops:
    """Counts the FLOPs of a forward and backward pass for sentences of given lengths, without padding.

    Forward: two FLOPs per matrix weight and token, plus the two matrix products of attention (Kaplan et al. 2020,
    section 2.1). Backward takes twice as many. Embedding lookups, norms and softmax are not counted, as is usual.
    """

    def __init__(self, model: Transformer, num_passes: int = 1):
        """`num_passes` is how many times training processes each sentence per update (2 with R-Drop)."""
        self.config, self.num_passes = model.config, num_passes
        layers = cast("list[DecoderLayer]", model.decoder_layers)
        cross = _weights(layer.cross_attention.key_value_proj for layer in layers)
        self.per_src_token = _weights(model.encoder_layers) + cross
        self.per_tgt_token = _weights(model.decoder_layers) - cross + model.output_proj.weight.numel()

    def __call__(self, src_len: NDArray[np.int64], tgt_len: NDArray[np.int64]) -> float:
        """Return the FLOPs for sentences of src_len [B] and tgt_len [B] tokens, eos included."""
        matrices = self.per_src_token * src_len.sum() + self.per_tgt_token * tgt_len.sum()
        pairs = self.config.encoder_layers * (src_len * src_len).sum()
        # A target position attends to itself and the positions before it: half of the square.
        pairs += self.config.decoder_layers * ((tgt_len * (tgt_len + 1) / 2).sum() + (src_len * tgt_len).sum())
        return float(3.0 * self.num_passes * (2.0 * matrices + 4.0 * self.config.d_model * pairs))


def _weights(modules: Iterable[nn.Module]) -> int:
    linears = (part for module in modules for part in module.modules() if isinstance(part, nn.Linear))
    return sum(linear.weight.numel() for linear in linears)
