"""Attention by formula: the scoring functions, the masked softmax, and the weighted mean of the values."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Compute the softmax over the last axis of scores [..., Q, S], restricted to unmasked positions.

    `mask` takes one of three forms:
    - boolean (True = may attend), broadcast to the scores; fully masked rows become all zeros;
    - integer valid lengths, [B] or [B, Q] for scores [B, Q, S] (Zhang et al., Dive into Deep Learning, section 11.3);
    - a `mask_bias`, which must leave at least one key to every query.
    """
    if mask is None:
        return scores.softmax(-1)
    if mask.is_floating_point():
        return (scores + mask).softmax(-1)
    if mask.dtype != torch.bool:
        valid_lens = mask[:, None, None] if mask.dim() == 1 else mask[..., None]
        mask = torch.arange(scores.size(-1), device=scores.device) < valid_lens
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


def attend(
    score: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Module | None = None
) -> tuple[Tensor, Tensor]:
    """Compute attention pooling: the softmax of the scores, then the weighted mean of the values.

    query [..., Q, K], key [..., S, K], value [..., S, Kv]; mask as for `masked_softmax`.
    Return (pooled [..., Q, Kv], weights [..., Q, S]); the weights are those before dropout.
    """
    weights = masked_softmax(score(query, key), mask)
    return (weights if dropout is None else dropout(weights)) @ value, weights


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
    """score(q, k) = -|(q - k) w|^2 / 2 with w learned: Nadaraya-Watson regression (Watson 1964) with a Gaussian kernel.

    w starts at `initial_width`. `MultiHeadAttention` starts it at K^(-1/4), so that the q . k term of the score has the
    scale of the scaled dot product.
    """

    def __init__(self, initial_width: float = 1.0):
        super().__init__()
        self.width = nn.Parameter(torch.tensor(initial_width))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """query [..., Q, K], key [..., S, K] -> [..., Q, S]."""
        # |q|^2 - 2 q . k + |k|^2 avoids building the [..., Q, S, K] differences; in fp32 because of cancellation.
        dtype, query, key = query.dtype, query.float(), key.float()
        squares = query.square().sum(-1)[..., :, None] + key.square().sum(-1)[..., None, :]
        distances = (squares - 2.0 * query @ key.transpose(-1, -2)).clamp_min(0.0)
        return (-0.5 * self.width.float().square() * distances).to(dtype)


def make_score(name: str, head_size: int) -> nn.Module:
    """Build the scoring function that `model.attention` names, for heads of `head_size`."""
    if name == "additive":
        return AdditiveScore(head_size, head_size, head_size)
    return GaussianScore(head_size**-0.25) if name == "gaussian" else ScaledDotProductScore()
