"""The attention weights of every layer and head of a Transformer, for plots and for teaching."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from nmt.model.layers import DecoderLayer, EncoderLayer
from nmt.model.transformer import Transformer


class AttentionWeights(NamedTuple):
    """The softmax weights of each kind of attention, with layers as the first axis. Every row sums to 1."""

    encoder: Tensor  # [L, B, H, S, S], self-attention of the L encoder layers
    decoder: Tensor  # [L, B, H, T, T], self-attention of the L decoder layers; 0 at future positions
    cross: Tensor  # [L, B, H, T, S]


@torch.inference_mode()
def attention_weights(model: Transformer, src: Tensor, tgt_in: Tensor) -> AttentionWeights:
    """Run one teacher-forced forward pass of `model` and return all its attention weights.

    src [B, S], right-padded, ending in eos; tgt_in [B, T], starting with bos. Returns the weights before dropout.
    """
    encoder_layers = cast("list[EncoderLayer]", model.encoder_layers)
    decoder_layers = cast("list[DecoderLayer]", model.decoder_layers)
    encoder = [layer.self_attention for layer in encoder_layers]
    decoder = [layer.self_attention for layer in decoder_layers]
    cross = [layer.cross_attention for layer in decoder_layers]
    weights: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, arguments: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return arguments, {**options, "keep_weights": True}

    def store(module: nn.Module, arguments: Any, result: tuple[Tensor, Tensor]) -> None:
        weights[module] = result[1]

    with ExitStack() as handles:
        for module in (*encoder, *decoder, *cross):
            handles.enter_context(module.register_forward_pre_hook(keep, with_kwargs=True))
            handles.enter_context(module.register_forward_hook(store))
        model(src, tgt_in)
    return AttentionWeights(*(torch.stack([weights[each] for each in group]) for group in (encoder, decoder, cross)))
