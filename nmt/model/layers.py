"""Encoder and decoder layer, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config.sections import ModelConfig
from nmt.model.attention import MultiHeadAttention, Rotary
from nmt.model.cache import KVCache
from nmt.model.dropout import Dropout
from nmt.model.packing import PackedMask

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "swiglu": F.silu}


def make_norm(config: ModelConfig) -> nn.Module:
    """Layer norm (Ba et al. 2016) or RMS norm (Zhang and Sennrich 2019), over D alone: positions do not mix."""
    return nn.LayerNorm(config.d_model) if config.norm == "layer" else nn.RMSNorm(config.d_model, eps=1e-6)


class FeedForward(nn.Module):
    """W_2 f(W_1 x) (Vaswani et al. 2017, section 3.3), or W_2 (silu(W_g x) * W_1 x) for SwiGLU (Shazeer 2020)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.gated = config.activation == "swiglu"
        self.activation = _ACTIVATIONS[config.activation]
        self.input_proj = nn.Linear(config.d_model, config.d_ff * (2 if self.gated else 1))
        self.output_proj = nn.Linear(config.d_ff, config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, states: Tensor) -> Tensor:
        hidden = self.input_proj(states)  # [B, T, F], or [B, T, 2F] with a gate
        if self.gated:
            gate, linear = hidden.chunk(2, dim=-1)
            hidden = self.dropout(self.activation(gate) * linear)  # [B, T, F]
        elif self.activation is F.relu:
            hidden = self.dropout.after_relu(hidden)
        else:
            hidden = self.dropout(self.activation(hidden))
        return self.output_proj(hidden)  # [B, T, D]


class Residual(nn.Module):
    """The norm and the dropout around a branch: x + drop(f(norm(x))), or norm(x + drop(f(x))) for post-norm."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.pre = config.norm_position == "pre"
        self.norm = make_norm(config)
        self.dropout = Dropout(config.dropout)

    def before(self, states: Tensor) -> Tensor:
        """What the branch reads."""
        return self.norm(states) if self.pre else states

    def after(self, states: Tensor, branch: Tensor) -> Tensor:
        """What leaves, given what came in and what the branch made of it."""
        total = self.dropout.add(states, branch)
        return total if self.pre else self.norm(total)


def _attention(config: ModelConfig, rotary: Rotary | None = None) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model, config.num_heads, attention=config.attention, dropout=config.attention_dropout, rotary=rotary
    )


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, config: ModelConfig, rotary: Rotary | None):
        super().__init__()
        self.self_attention = _attention(config, rotary)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, states: Tensor, mask: Tensor | PackedMask) -> Tensor:
        """states [B, S, D], mask [B, 1, 1, S] -> [B, S, D]."""
        offset = mask.queries.positions if isinstance(mask, PackedMask) else 0
        inputs = self.self_residual.before(states)
        key, value = self.self_attention.project_key_value(inputs, offset)
        branch, _ = self.self_attention(inputs, key, value, mask, offset=offset)
        states = self.self_residual.after(states, branch)
        branch = self.feed_forward(self.feed_forward_residual.before(states))
        return self.feed_forward_residual.after(states, branch)


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention and feed-forward."""

    def __init__(self, config: ModelConfig, rotary: Rotary | None):
        super().__init__()
        self.self_attention = _attention(config, rotary)
        self.self_residual = Residual(config)
        self.cross_attention = _attention(config)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, states: Tensor, mask: Tensor | PackedMask | None, cache: KVCache, layer: int) -> Tensor:
        """states [B, T, D]: the targets after those in the cache; mask [T, length + T] -> [B, T, D]."""
        offset = mask.queries.positions if isinstance(mask, PackedMask) else cache.offset
        inputs = self.self_residual.before(states)
        key, value = cache.append(layer, *self.self_attention.project_key_value(inputs, offset))
        branch, _ = self.self_attention(inputs, key, value, mask, offset=offset)
        states = self.self_residual.after(states, branch)

        inputs = self.cross_residual.before(states)
        keep = cache.attention is not None
        asking = cache.by_sentence(inputs)
        branch, weights = self.cross_attention(asking, *cache.cross[layer], cache.cross_mask, keep_weights=keep)
        cache.keep_attention(layer, weights)
        states = self.cross_residual.after(states, branch.view_as(states))

        branch = self.feed_forward(self.feed_forward_residual.before(states))
        return self.feed_forward_residual.after(states, branch)
