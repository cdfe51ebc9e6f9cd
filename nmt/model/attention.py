"""Multi-head attention. It is independent of caching: the caller passes projected keys and values."""

from __future__ import annotations

from torch import Tensor, nn

from nmt.model.attention_kernels import fused_attend
from nmt.model.kernels.dropout import Dropout
from nmt.model.masks import AttentionMask
from nmt.model.positions import Rotary
from nmt.model.scores import attend, make_score


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) with any scoring function of `nmt.model.scores`."""

    def __init__(self, d_model: int, num_heads: int, *, attention: str, dropout: float, rotary: Rotary | None = None):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_value_proj = nn.Linear(d_model, 2 * d_model)
        self.output_proj = nn.Linear(d_model, d_model)
        self.score = make_score(attention, d_model // num_heads)
        self.dropout = Dropout(dropout)
        self.rotary = rotary
        self.query_norm: nn.Module | None = None
        self.key_norm: nn.Module | None = None

    def normalize_heads(self, eps: float) -> None:
        """Add an RMS norm to the query and the key of each head, before rotary positions (Henry et al. 2020).

        The heads of a layer share the norm's weights [K], as in Qwen3 (2025); OLMo 2 normalizes all heads at once.
        """
        head_size = self.query_proj.out_features // self.num_heads
        self.query_norm, self.key_norm = nn.RMSNorm(head_size, eps=eps), nn.RMSNorm(head_size, eps=eps)

    def _split_heads(self, states: Tensor) -> Tensor:
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, T, K]

    def project_key_value(self, states: Tensor, offset: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """Project states [B, S, D] to key and value, [B, H, S, K] each.

        `offset` is the position of the first state, or a tensor [S] with the position of each.
        """
        key, value = (self._split_heads(half) for half in self.key_value_proj(states).chunk(2, dim=-1))
        if self.key_norm is not None:
            key = self.key_norm(key)
        return (key if self.rotary is None else self.rotary(key, offset)), value

    def forward(
        self,
        states: Tensor,
        key_value: tuple[Tensor, Tensor],
        mask: AttentionMask,
        *,
        offset: int | Tensor = 0,
        keep_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `states` [B, T, D] to key and value [B, H, S, K].

        `offset` is the position of the first state, or a tensor [T] with the position of each.
        Return (states [B, T, D], weights [B, H, T, S] if `keep_weights`, else None).
        """
        query = self._split_heads(self.query_proj(states))  # [B, H, T, K]
        if self.query_norm is not None:
            query = self.query_norm(query)
        if self.rotary is not None:
            query = self.rotary(query, offset)
        if keep_weights:
            pooled, weights = attend(self.score, query, *key_value, mask.bias, self.dropout)  # [B, H, T, K]
        else:
            pooled, weights = fused_attend(self.score, query, key_value, mask, self.dropout), None
        return self.output_proj(pooled.transpose(1, 2).flatten(2)), weights  # [B, T, D]
