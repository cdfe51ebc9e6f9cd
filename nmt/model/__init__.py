"""The Transformer and its parts, which the tutorial (docs/tutorials/transformer) puts together one by one.

They are imported when they are first used, so that `nmt.model.shapes` needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
    from nmt.config import ModelConfig
    from nmt.model.attention import MultiHeadAttention, attend, masked_softmax, scaled_dot_product
    from nmt.model.cache import KVCache, PreallocatedKVCache
    from nmt.model.kernels.chunked_loss import token_loss
    from nmt.model.layers import DecoderLayer, EncoderLayer, FeedForward
    from nmt.model.masks import AttentionMask, causal_mask, mask_bias, padding_mask, sequence_mask
    from nmt.model.positions import Rotary, sinusoidal_positions
    from nmt.model.recording import attention_weights
    from nmt.model.scores import AdditiveScore, GaussianScore
    from nmt.model.transformer import Transformer

__all__ = [
    "BOS_ID", "EOS_ID", "PAD_ID", "AdditiveScore", "AttentionMask", "DecoderLayer", "EncoderLayer", "FeedForward",
    "GaussianScore", "KVCache", "ModelConfig", "MultiHeadAttention", "PreallocatedKVCache", "Rotary", "Transformer",
    "attend", "attention_weights", "causal_mask", "mask_bias", "masked_softmax", "padding_mask", "scaled_dot_product",
    "sequence_mask", "sinusoidal_positions", "token_loss",
]  # fmt: skip

_HOMES = ("attention", "scores", "positions", "masks", "kernels.chunked_loss", "cache", "transformer", "recording")


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in (*(f"nmt.model.{module}" for module in _HOMES), "nmt.base.special_tokens"):
            if hasattr(module := import_module(home), name):
                return getattr(module, name)
    raise AttributeError(f"module 'nmt.model' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
