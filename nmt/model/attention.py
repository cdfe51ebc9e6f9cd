"""Masked softmax, the scoring functions, and multi-head attention.

The one place that knows attention kernels. It knows no cache: keys and values come projected, wherever they are kept.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.dropout import Dropout
from nmt.model.masks import lengths_mask
from nmt.model.packing import PackedMask


def on_meta_device() -> bool:
    """Whether a model is made on the meta device, where to compute values torch would import its compiler: seconds."""
    return torch.empty(()).is_meta


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the last axis, where `mask` lets it look; 0 elsewhere, and all 0 where it may look nowhere.

    scores [..., Q, S]. `mask` is boolean and broadcasts to it (True = may attend), or holds valid lengths as integers:
    [B] or [B, Q] for scores [B, Q, S] (Zhang et al., Dive into Deep Learning, section 11.3). Or it is a `mask_bias`,
    where each query may look somewhere.
    """
    if mask is None:
        return scores.softmax(-1)
    if mask.is_floating_point():
        return (scores + mask).softmax(-1)
    if mask.dtype != torch.bool:
        mask = lengths_mask(mask, scores.size(-1))
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


class ScaledDotProductScore(nn.Module):
    """score(q, k) = q . k / sqrt(K) (Vaswani et al. 2017, section 3.2.1)."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """query [..., Q, K], key [..., S, K] -> [..., Q, S]."""
        return (query * query.size(-1) ** -0.5) @ key.transpose(-1, -2)


class AdditiveScore(nn.Module):
    """score(q, k) = w_v . tanh(W_q q + W_k k) (Bahdanau et al. 2015, appendix A.1.2)."""

    def __init__(self, query_size: int, key_size: int, hidden_size: int):
        super().__init__()
        self.query_proj = nn.Linear(query_size, hidden_size, bias=False)
        self.key_proj = nn.Linear(key_size, hidden_size, bias=False)
        self.score_proj = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """query [..., Q, query_size], key [..., S, key_size] -> [..., Q, S]."""
        features = self.query_proj(query).unsqueeze(-2) + self.key_proj(key).unsqueeze(-3)  # [..., Q, S, hidden]
        return self.score_proj(features.tanh()).squeeze(-1)


class GaussianScore(nn.Module):
    """score(q, k) = -|(q - k) w|^2 / 2, w learned: the Nadaraya-Watson kernel (Watson 1964) in the exponent.

    `initial_width` w starts at 1; `MultiHeadAttention` starts at K^(-1/4), where the score's q . k term is scaled
    like that of the dot product.
    """

    def __init__(self, initial_width: float = 1.0):
        super().__init__()
        self.width = nn.Parameter(torch.tensor(initial_width))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """query [..., Q, K], key [..., S, K] -> [..., Q, S]."""
        # |q - k|^2 as a product, so that the [..., Q, S, K] differences are never built; in fp32, because it cancels.
        dtype, query, key = query.dtype, query.float(), key.float()
        squares = query.square().sum(-1)[..., :, None] + key.square().sum(-1)[..., None, :]
        distances = (squares - 2.0 * query @ key.transpose(-1, -2)).clamp_min(0.0)
        return (-0.5 * self.width.float().square() * distances).to(dtype)


def make_score(name: str, head_size: int) -> nn.Module:
    """The scoring function that `model.attention` names, for heads of `head_size`."""
    if name == "additive":
        return AdditiveScore(head_size, head_size, head_size)
    return GaussianScore(head_size**-0.25) if name == "gaussian" else ScaledDotProductScore()


def attend(
    score: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Module | None = None
) -> tuple[Tensor, Tensor]:
    """Attention pooling: softmax of the scores, then the weighted mean of the values.

    query [..., Q, K], key [..., S, K], value [..., S, Kv]; mask as for `masked_softmax`.
    Returns (pooled [..., Q, Kv], weights [..., Q, S]); the weights are those before dropout.
    """
    weights = masked_softmax(score(query, key), mask)
    return (weights if dropout is None else dropout(weights)) @ value, weights


def attend_packed(
    score: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: PackedMask, dropout: Dropout | None = None
) -> Tensor:
    """`attend` for packed rows: query [1, H, N, K], key and value [1, H, M, K] -> pooled [1, H, N, K]."""
    if query.is_cuda and varlen_may_serve(score, query.dtype, query.size(-1), dropout):
        return _varlen_attention(query, key, value, mask)
    heads = ((mask.queries, query), (mask.keys, key), (mask.keys, value))
    query, key, value = (packing.unpack(each.transpose(1, 2)).transpose(1, 2) for packing, each in heads)
    pooled, _ = attend(score, query, key, value, mask.padded, dropout)  # [B, H, T, K]
    return mask.queries.pack(pooled.transpose(1, 2)).transpose(1, 2)


def varlen_may_serve(score: nn.Module, dtype: torch.dtype, head_size: int, dropout: Dropout | None) -> bool:
    """Whether torch's kernel for packed rows on GPUs is made for this; it drops no weights."""
    drops = dropout is not None and dropout.training and dropout.rate > 0.0
    fits = dtype in (torch.bfloat16, torch.float16) and head_size % 8 == 0 and head_size <= 256
    return fits and isinstance(score, ScaledDotProductScore) and not drops


def _varlen_attention(query: Tensor, key: Tensor, value: Tensor, mask: PackedMask) -> Tensor:
    """`attend_packed` of scaled dot products by FlashAttention (Dao 2024), which reads and computes no padding."""
    from torch.nn.attention.varlen import varlen_attn

    pooled = varlen_attn(
        query.squeeze(0).transpose(0, 1),  # [N, H, K]
        key.squeeze(0).transpose(0, 1),
        value.squeeze(0).transpose(0, 1),
        mask.queries.offsets,
        mask.keys.offsets,
        mask.queries.width,
        mask.keys.width,
        window_size=(-1, 0 if mask.causal else -1),  # how far a query may look back and ahead
    )
    assert isinstance(pooled, Tensor)
    return pooled.transpose(0, 1).unsqueeze(0)


class Rotary(nn.Module):
    """Rotary positions (Su et al. 2021, section 3.2.2): queries and keys turn by an angle that grows with position."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, head_size: int, max_len: int):
        super().__init__()
        angles = torch.empty(max_len, head_size // 2)
        if not on_meta_device():
            frequencies = 10000.0 ** (-torch.arange(0, head_size, 2) / head_size)
            angles = torch.arange(max_len)[:, None] * frequencies  # [max_len, K/2]
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, heads: Tensor, offset: int | Tensor) -> Tensor:
        """heads [B, H, T, K], the first of them at position `offset`, or each at its own [T] -> the same shape."""
        here = offset if isinstance(offset, Tensor) else slice(offset, offset + heads.size(2))
        cosine, sine = self.cosine[here].to(heads.dtype), self.sine[here].to(heads.dtype)
        first, second = heads.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) with any of the scoring functions."""

    def __init__(self, d_model: int, num_heads: int, *, attention: str, dropout: float, rotary: Rotary | None = None):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_value_proj = nn.Linear(d_model, 2 * d_model)
        self.output_proj = nn.Linear(d_model, d_model)
        self.score = make_score(attention, d_model // num_heads)
        self.dropout = Dropout(dropout)
        self.rotary = rotary

    def _split_heads(self, states: Tensor) -> Tensor:
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, T, K]

    def project_key_value(self, states: Tensor, offset: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """states [B, S, D], the first at position `offset`, or each at its own [S] -> key, value [B, H, S, K] each."""
        key, value = (self._split_heads(half) for half in self.key_value_proj(states).chunk(2, dim=-1))
        return (key if self.rotary is None else self.rotary(key, offset)), value

    def forward(
        self,
        states: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | PackedMask | None,
        *,
        offset: int | Tensor = 0,
        keep_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """states [B, T, D] ask, key and value [B, H, S, K] answer; mask as for
        `masked_softmax`, broadcast to [B, H, T, S].

        Returns (states [B, T, D], weights [B, H, T, S] if `keep_weights`, else None).
        """
        query = self._split_heads(self.query_proj(states))  # [B, H, T, K]
        if self.rotary is not None:
            query = self.rotary(query, offset)
        if isinstance(mask, PackedMask):
            pooled, weights = attend_packed(self.score, query, key, value, mask, self.dropout), None
        elif query.is_cuda and isinstance(self.score, ScaledDotProductScore) and not keep_weights:
            rate = self.dropout.rate if self.training else 0.0
            pooled, weights = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate), None
        else:
            pooled, weights = attend(self.score, query, key, value, mask, self.dropout)  # [B, H, T, K]
        return self.output_proj(pooled.transpose(1, 2).flatten(2)), weights if keep_weights else None  # [B, T, D]


def sinusoidal_positions(max_len: int, d_model: int) -> Tensor:
    """The table of Vaswani et al. 2017, section 3.5: sine in even columns, cosine in odd ones. [max_len, D]."""
    if on_meta_device():
        return torch.empty(max_len, d_model)
    frequencies = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    angles = torch.arange(max_len)[:, None] * frequencies  # [max_len, D/2]
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # [max_len, D]
