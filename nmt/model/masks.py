"""Masks: which keys each query may attend to.

In a boolean mask, True means that the query may attend to the key. (`torch.nn.MultiheadAttention` means the opposite.)
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nmt.base.special_tokens import PAD_ID
from nmt.model.kernels.packing import Flattening, Packing


class AttentionMask(NamedTuple):
    """The keys that each query may attend to, in the forms that the attention kernels read."""

    bias: Tensor | None = None  # from `mask_bias`, broadcast to scores [B, H, T, S]; None: every query sees every key
    # True for the causal mask of Vaswani et al. 2017, section 3.2.3: as many keys as queries, and each query sees its
    # own key and those before it.
    causal: bool = False
    # Set if queries and keys are packed or flattened; `bias` is then for the padded rows.
    queries: Packing | Flattening | None = None
    keys: Packing | Flattening | None = None


def padding_mask(ids: Tensor) -> Tensor:
    """Return which keys are real tokens: ids [B, S] -> [B, 1, 1, S], which broadcasts over heads and queries."""
    return (ids != PAD_ID)[:, None, None, :]


def causal_mask(num_queries: int, num_keys: int, device: torch.device | None = None) -> Tensor:
    """Return which keys each query may see, [num_queries, num_keys]: its own and those before it.

    The last query is aligned with the last key, so a chunk decoded with a cache sees everything in the cache.
    """
    return torch.ones(num_queries, num_keys, dtype=torch.bool, device=device).tril(num_keys - num_queries)


def mask_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where `mask` is True and the dtype's lowest number elsewhere, to add to scores before the softmax.

    Cheaper than the boolean mask, forward and backward. Every query must be allowed to attend to at least one key.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)
