"""The attention weights of every layer and head of a Transformer, for plots and for teaching."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from nmt.model.attention import MultiHeadAttention
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
    with _recording([*encoder, *decoder, *cross]) as weights:
        model(src, tgt_in)
    return AttentionWeights(*(torch.stack([weights[each] for each in group]) for group in (encoder, decoder, cross)))


@contextmanager
def _recording(attentions: Sequence[MultiHeadAttention]) -> Iterator[dict[nn.Module, Tensor]]:
    """Collect the weights that each module of `attentions` computes inside the context."""
    weights: dict[nn.Module, Tensor] = {}

    def ask(module: nn.Module, arguments: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        assert isinstance(module, MultiHeadAttention)
        return arguments, {**options, "keep_weights": True}

    def store(module: nn.Module, arguments: Any, result: tuple[Tensor, Tensor]) -> None:
        weights[module] = result[1]

    handles = [module.register_forward_pre_hook(ask, with_kwargs=True) for module in attentions]
    handles += [module.register_forward_hook(store) for module in attentions]
    try:
        yield weights
    finally:
        for handle in handles:
            handle.remove()
