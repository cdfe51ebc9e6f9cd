"""Attention: the masked softmax, the weighted mean of the values, and several heads of it side by side.

It is independent of caching: the caller passes projected keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from nmt.base.errors import NmtError
from nmt.model.kernels.attention_kernels import attend_by_kernel, halves, is_as_compiled
from nmt.model.kernels.dropout import Dropout
from nmt.model.kernels.linear import Linear
from nmt.model.masks import AttentionMask, length_mask
from nmt.model.positions import Rotary
from nmt.model.scores import make_score

Score = Callable[[Tensor, Tensor], Tensor]


def masked_softmax(scores: Tensor, mask: AttentionMask | Tensor | Sequence[int] | None = None) -> Tensor:
    """Compute the softmax over the last axis of scores [B, ..., Q, S], restricted to unmasked positions.

    `mask` takes one of three forms:
    - boolean (True = may attend), broadcast to the scores; fully masked rows become all zeros;
    - integer valid lengths, [B] or [B, Q], also as a list (Zhang et al., Dive into Deep Learning, section 11.3);
    - an `AttentionMask` of the model, whose bias is added; it must leave at least one key to every query.
    """
    if mask is None:
        return scores.softmax(-1)
    if isinstance(mask, AttentionMask):
        return (scores if mask.bias is None else scores + mask.bias).softmax(-1)
    mask = torch.as_tensor(mask, device=scores.device)
    if mask.dtype != torch.bool:
        mask = length_mask(mask, scores.shape)
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


def scaled_dot_product(query: Tensor, key: Tensor) -> Tensor:
    """Return the scores q . k / sqrt(K) (Vaswani et al. 2017, section 3.2.1).

    query [..., Q, K], key [..., S, K] -> [..., Q, S].
    """
    return (query * query.size(-1) ** -0.5) @ key.transpose(-1, -2)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: AttentionMask | Tensor | Sequence[int] | None = None,
    *,
    score: Score = scaled_dot_product,
    dropout: nn.Module | float | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute attention pooling: the softmax of the scores, then the weighted mean of the values.

    query [..., Q, K], key [..., S, K], value [..., S, Kv]; mask as for `masked_softmax`. `dropout` is a module, or a
    rate, at which weights are dropped in any case.
    Return (pooled [..., Q, Kv], weights [..., Q, S]); the weights are those before dropout.
    """
    weights = masked_softmax(score(query, key), mask)
    if isinstance(dropout, int | float):
        dropout = nn.Dropout(dropout)
    return (weights if dropout is None else dropout(weights)) @ value, weights


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) with the scoring function that `attention` names.

    `norm_eps` adds an RMS norm to the query and the key of each head, before rotary positions (Henry et al. 2020). The
    heads of a layer share the norm's weights [K], as in Qwen3 (2025); OLMo 2 normalizes all heads at once.
    """

    def __init__(
        self, d_model: int, num_heads: int, dropout: float = 0.0, *, attention: str = "scaled_dot_product",
        rotary: Rotary | None = None, norm_eps: float | None = None,
    ):  # fmt: skip
        super().__init__()
        if d_model % num_heads:
            raise NmtError(f"{num_heads} heads do not divide d_model {d_model}", hint="all heads have the same size")
        head_size = d_model // num_heads
        self.num_heads = num_heads
        self.query_proj = Linear(d_model, d_model)
        self.key_value_proj = Linear(d_model, 2 * d_model)
        self.output_proj = Linear(d_model, d_model)
        self.score: Score = scaled_dot_product
        if attention != "scaled_dot_product":
            self.score = make_score(attention, head_size)
        self.dropout = Dropout(dropout)
        self.rotary = rotary
        self.query_norm = None if norm_eps is None else nn.RMSNorm(head_size, eps=norm_eps)
        self.key_norm = None if norm_eps is None else nn.RMSNorm(head_size, eps=norm_eps)

    def _split_heads(self, states: Tensor) -> Tensor:
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, T, K]

    def project_key_value(self, states: Tensor, offset: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """Project states [B, S, D] to key and value, [B, H, S, K] each.

        `offset` is the position of the first state, or a tensor [S] with the position of each.
        """
        key, value = (self._split_heads(half) for half in halves(self.key_value_proj(states)))
        if self.key_norm is not None:
            key = self.key_norm(key)
        return (key if self.rotary is None else self.rotary(key, offset)), value

    def forward(
        self,
        states: Tensor,
        key_value: Tensor | tuple[Tensor, Tensor],
        mask: AttentionMask | Tensor | None = None,
        *,
        offset: int | Tensor = 0,
        keep_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `states` [B, T, D] to states [B, S, D], or to their projected key and value [B, H, S, K].

        `mask` is as for `masked_softmax` with scores [B, H, T, S]. `offset` is the position of the first of `states`,
        or a tensor [T] with the position of each.
        Return (states [B, T, D], weights [B, H, T, S] if `keep_weights`, else None).
        """
        if isinstance(key_value, Tensor):
            key_value = self.project_key_value(key_value)
        query = self._split_heads(self.query_proj(states))  # [B, H, T, K]
        if self.query_norm is not None:
            query = self.query_norm(query)
        if self.rotary is not None:
            query = self.rotary(query, offset)
        pooled, weights = self.attend(query, *key_value, mask, keep_weights)  # [B, H, T, K]
        return self.output_proj(pooled.transpose(1, 2).flatten(2)), weights  # [B, T, D]

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask | Tensor | None, keep_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Compute attention pooling per head: query [B, H, T, K], key and value [B, H, S, K] -> pooled [B, H, T, K].

        Packed rows are [1, H, N, K]. Return the weights [B, H, T, S] if `keep_weights`, else None.
        """
        formula = partial(attend, score=self.score, dropout=self.dropout)
        if keep_weights or not isinstance(mask, AttentionMask):
            pooled, weights = formula(query, key, value, mask)
            return pooled, weights if keep_weights else None
        is_dot_product = self.score is scaled_dot_product and is_as_compiled(attend, self.score)
        return attend_by_kernel(formula, query, (key, value), mask, self.dropout, is_dot_product), None
