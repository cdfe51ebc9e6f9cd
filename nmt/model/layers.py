"""The encoder layer and the decoder layer (Vaswani et al. 2017, section 3.1), and their parts."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config.model import AttentionKind, ModelConfig
from nmt.model.attention import MultiHeadAttention
from nmt.model.cache import KVCache
from nmt.model.kernels.dropout import Dropout, add_dropped, dropped_relu
from nmt.model.kernels.linear import LayerNorm, Linear
from nmt.model.masks import AttentionMask
from nmt.model.positions import Rotary

NORM_EPS = {"layer": 1e-5, "rms": 1e-6}

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "swiglu": F.silu,
    "relu2": lambda hidden: F.relu(hidden).square(),  # So et al. 2021, Primer, section 4
}


def make_norm(config: ModelConfig) -> nn.Module:
    """Build a layer norm (Ba et al. 2016) or RMS norm (Zhang and Sennrich 2019) over D, separately per position."""
    norm = LayerNorm if config.norm == "layer" else nn.RMSNorm
    return norm(config.d_model, eps=NORM_EPS[config.norm])


def make_attention(config: ModelConfig, kind: AttentionKind, rotary: Rotary | None = None) -> MultiHeadAttention:
    """Build the self-attention or cross-attention that `config` describes."""
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        attention=config.attention,
        dropout=config.attention_dropout,
        rotary=rotary,
        norm_eps=NORM_EPS["rms"] if config.normalizes_heads(kind) else None,
    )


def make_rotary(config: ModelConfig) -> Rotary | None:
    """Build the rotary positions of all layers, if `config` has them."""
    max_len = max(config.max_src_len, config.max_tgt_len)
    return Rotary(config.d_model // config.num_heads, max_len) if config.positions == "rotary" else None


class FeedForward(nn.Module):
    """W_2 f(W_1 x) (Vaswani et al. 2017, section 3.3), or W_2 (silu(W_g x) * W_1 x) for SwiGLU (Shazeer 2020)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.gated = config.activation == "swiglu"
        self.activation = _ACTIVATIONS[config.activation]
        self.input_proj = Linear(config.d_model, config.d_ff * (2 if self.gated else 1))
        self.output_proj = Linear(config.d_ff, config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, states: Tensor) -> Tensor:
        """Transform each position of states [B, T, D] independently."""
        hidden = self.input_proj(states)  # [B, T, F], or [B, T, 2F] with a gate
        if self.gated:
            gate, linear = hidden.chunk(2, dim=-1)
            hidden = self.dropout(self.activation(gate) * linear)  # [B, T, F]
        elif self.activation is F.relu:
            hidden = dropped_relu(hidden, self.dropout)
        else:
            hidden = self.dropout(self.activation(hidden))
        return self.output_proj(hidden)  # [B, T, D]


class Residual(nn.Module):
    """The norm, dropout and residual connection around a sublayer f.

    Pre-norm: x + drop(f(norm(x))) (Xiong et al. 2020). Post-norm: norm(x + drop(f(x))) (Vaswani et al. 2017).
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.pre = config.norm_position == "pre"
        self.norm = make_norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `sublayer` to states [B, T, D] with norm, dropout and residual connection."""
        if self.pre:
            return add_dropped(states, sublayer(self.norm(states)), self.dropout)
        return self.norm(add_dropped(states, sublayer(states), self.dropout))


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network. Layers of a model share their `rotary` positions."""

    def __init__(self, config: ModelConfig, rotary: Rotary | None = None):
        super().__init__()
        self.self_attention = make_attention(config, "self", rotary or make_rotary(config))
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, states: Tensor, mask: AttentionMask | Tensor | None = None, offset: int | Tensor = 0) -> Tensor:
        """Transform states [B, S, D]; `offset` is the first position, or a tensor [S] with each position.

        `mask` is as for `masked_softmax`, such as valid lengths [B].
        """

        def attend_to_source(states: Tensor) -> Tensor:
            key_value = self.self_attention.project_key_value(states, offset)
            return self.self_attention(states, key_value, mask, offset=offset)[0]

        states = self.self_residual(states, attend_to_source)
        return self.feed_forward_residual(states, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, then cross-attention to the source, then a feed-forward network."""

    def __init__(self, config: ModelConfig, rotary: Rotary | None = None):
        super().__init__()
        self.self_attention = make_attention(config, "self", rotary or make_rotary(config))
        self.self_residual = Residual(config)
        self.cross_attention = make_attention(config, "cross")
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, states: Tensor, mask: AttentionMask, cache: KVCache, layer: int) -> Tensor:
        """Transform states [B, T, D] of the target positions that follow those in the cache."""

        def attend_to_target(states: Tensor) -> Tensor:
            key_value = cache.append(layer, *self.self_attention.project_key_value(states, cache.offset))
            return self.self_attention(states, key_value, mask, offset=cache.offset)[0]

        def attend_to_source(states: Tensor) -> Tensor:
            queries = cache.by_sentence(states)  # [B, W x T, D]
            keep = cache.attention is not None
            pooled, weights = self.cross_attention(queries, cache.cross[layer], cache.cross_mask, keep_weights=keep)
            cache.keep_attention(layer, weights)
            return pooled.view_as(states)

        states = self.self_residual(states, attend_to_target)
        states = self.cross_residual(states, attend_to_source)
        return self.feed_forward_residual(states, self.feed_forward)
