"""Two other ways to score how well a key fits a query, for study; the model's own is `attention.scaled_dot_product`."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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

    w starts at `initial_width`; by default at K^(-1/4), so that the q . k term of the score has the scale of the scaled
    dot product of heads of size K, or at 1 without a `head_size`.
    """

    def __init__(self, head_size: int = 1, *, initial_width: float | None = None):
        super().__init__()
        width = head_size**-0.25 if initial_width is None else initial_width
        self.width = nn.Parameter(torch.tensor(float(width)))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """query [..., Q, K], key [..., S, K] -> [..., Q, S]."""
        # |q|^2 - 2 q . k + |k|^2 avoids building the [..., Q, S, K] differences; in fp32 because of cancellation.
        dtype = query.dtype
        query = query.float()
        key = key.float()
        squares = query.square().sum(-1)[..., :, None] + key.square().sum(-1)[..., None, :]
        distances = (squares - 2.0 * query @ key.transpose(-1, -2)).clamp_min(0.0)
        return (-0.5 * self.width.float().square() * distances).to(dtype)


def make_score(name: str, head_size: int) -> nn.Module:
    """Build the scoring function that `model.attention` names, for heads of `head_size`."""
    return GaussianScore(head_size) if name == "gaussian" else AdditiveScore(head_size, head_size, head_size)
