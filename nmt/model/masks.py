"""Masks: which keys each query may attend to.

In a boolean mask, True means that the query may attend to the key. (`torch.nn.MultiheadAttention` means the opposite.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.base.errors import NmtError
from nmt.base.special_tokens import PAD_ID
from nmt.model.kernels.packing import Layout


class AttentionMask(NamedTuple):
    """The keys that each query may attend to, in the forms that the attention kernels read."""

    bias: Tensor | None = None  # from `mask_bias`, broadcast to scores [B, H, T, S]; None: every query sees every key
    # True if the bias is the causal mask of Vaswani et al. 2017, section 3.2.3, and nothing else: as many keys as
    # queries, and each query sees its own key and those before it.
    causal: bool = False
    # Set if queries and keys are packed or flattened; `bias` is then for the padded rows.
    queries: Layout | None = None
    keys: Layout | None = None


def padding_mask(ids: Tensor) -> Tensor:
    """Return which keys are real tokens: ids [B, S] -> [B, 1, 1, S], which broadcasts over heads and queries."""
    return (ids != PAD_ID)[:, None, None, :]


def sequence_mask(states: Tensor, lengths: Tensor | Sequence[int], value: float = 0) -> Tensor:
    """Return states [B, S, ...] with `value` in place of what follows the valid `lengths` [B]. NmtError for others."""
    rows, size = states.shape[:2]
    keep = length_mask(torch.as_tensor(lengths, device=states.device), torch.Size((rows, 1, size)))[:, 0]  # [B, S]
    return states.masked_fill(~keep.view(rows, size, *[1] * (states.dim() - 2)), value)


def length_mask(lengths: Tensor, shape: torch.Size) -> Tensor:
    """Return which keys lie within the valid `lengths`, [B] or [B, Q], of scores of `shape` [B, ..., Q, S].

    The mask broadcasts to the scores. NmtError if `lengths` has another shape, no integers, or only zeros and ones for
    each query.
    """
    fits = lengths.shape == shape[:1] or lengths.shape == (*shape[:1], *shape[-2:-1])
    # A mask of zeros and ones has the shape of lengths if there are as many queries as keys.
    is_mask = lengths.dim() == 2 and shape[-1] > 1 and bool((lengths <= 1).all())
    if lengths.is_floating_point() or not fits or is_mask or lengths.dim() >= len(shape):
        kind = str(lengths.dtype).removeprefix("torch.")
        raise NmtError(
            f"a mask of {kind} {list(lengths.shape)} for scores {list(shape)}",
            hint="pass a boolean mask that broadcasts to the scores [B, ..., Q, S], or integer lengths [B] or [B, Q]",
        )
    between = [1] * (len(shape) - 1 - lengths.dim())  # axes without a length of their own, such as the heads
    lengths = lengths.reshape(shape[0], *between, *lengths.shape[1:], 1)
    return torch.arange(shape[-1], device=lengths.device) < lengths


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
