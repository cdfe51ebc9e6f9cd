"""Boolean masks, True = may attend. (`torch.nn.MultiheadAttention` means the opposite.)"""

from __future__ import annotations

import torch
from torch import Tensor

from nmt.special_tokens import PAD_ID


def padding_mask(ids: Tensor) -> Tensor:
    """Which keys are real: ids [B, S] -> [B, 1, 1, S], to be broadcast over heads and queries."""
    return (ids != PAD_ID)[:, None, None, :]


def causal_mask(num_queries: int, num_keys: int, device: torch.device | None = None) -> Tensor:
    """Which keys a query may see, [num_queries, num_keys]: itself and what came before.

    The last query stands at the last key, so a chunk decoded from a cache sees all that the cache holds.
    """
    everything = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device)
    return everything.tril(num_keys - num_queries)


def mask_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where `mask` is True, else the lowest number: added to scores before softmax, it lets nothing through there.

    Cheaper than the mask itself, forward and backward, for queries that may look somewhere.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)


def lengths_mask(valid_lens: Tensor, num_keys: int) -> Tensor:
    """Mask keys from a valid length on: [B] -> [B, 1, num_keys], or one length a query, [B, Q] -> [B, Q, num_keys]."""
    per_query = valid_lens[:, None] if valid_lens.dim() == 1 else valid_lens
    return torch.arange(num_keys, device=valid_lens.device) < per_query[..., None]
