"""Choose an attention kernel: the plain formula, torch's fused kernel, or the one for packed rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.kernels.dropout import Dropout
from nmt.model.kernels.packing import Packing, compiles_each_shape
from nmt.model.masks import AttentionMask
from nmt.model.scores import ScaledDotProductScore, attend

_SHORT = 32  # positions per row up to which training in bf16 on a CPU is faster with attention in fp32


def fused_attend(
    score: nn.Module, query: Tensor, key_value: tuple[Tensor, Tensor], mask: AttentionMask, dropout: Dropout
) -> Tensor:
    """Attend as `nmt.model.scores.attend` does, with the fastest kernel that computes it.

    query [B, H, T, K], key and value [B, H, S, K] -> pooled [B, H, T, K]. If `mask` has packings, all of them are
    packed: query and pooled [1, H, N, K], key and value [1, H, M, K].
    """
    if mask.queries is not None:
        return _attend_packed(score, query, key_value, mask, dropout)
    if query.is_cuda and isinstance(score, ScaledDotProductScore):
        return sdpa(query, key_value, mask, dropout.rate if dropout.training else 0.0)
    return _attend_padded(score, query, key_value, mask.bias, dropout)


def _attend_padded(
    score: nn.Module, query: Tensor, key_value: tuple[Tensor, Tensor], bias: Tensor | None, dropout: Dropout
) -> Tensor:
    """Attend by the plain formula: query [B, H, T, K], key and value [B, H, S, K] -> pooled [B, H, T, K].

    In training, where batches have many shapes, short rows are computed in fp32 if each shape would need a kernel.
    """
    # Sizes last: a compiled step must not depend on them.
    trains = query.requires_grad and compiles_each_shape(query) and not torch.compiler.is_compiling()
    scaled = isinstance(score, ScaledDotProductScore)
    if trains and scaled and max(query.size(2), key_value[0].size(2)) <= _SHORT:
        key, value = (each.float() for each in key_value)
        bias = None if bias is None else bias.float()
        return attend(score, query.float(), key, value, bias, dropout)[0].to(query.dtype)
    return attend(score, query, *key_value, bias, dropout)[0]


def sdpa(query: Tensor, key_value: tuple[Tensor, Tensor], mask: AttentionMask, dropout_rate: float = 0.0) -> Tensor:
    """Attend with torch's kernel for scaled dot products; shapes as for `fused_attend`, without packings.

    FlashAttention accepts no bias, so a causal mask is passed as `is_causal`. torch aligns it to the top left, which is
    correct if there are as many keys as queries. torch silently accepts a bias together with `is_causal`: never pass
    both.
    """
    bias = None if mask.causal else mask.bias
    return F.scaled_dot_product_attention(
        query, *key_value, attn_mask=bias, dropout_p=dropout_rate, is_causal=mask.causal
    )


def varlen_may_serve(score: nn.Module, dtype: torch.dtype, head_size: int, dropout: Dropout) -> bool:
    """Return whether torch's GPU kernel for packed rows supports this attention; it cannot drop attention weights."""
    drops = dropout.training and dropout.rate > 0.0
    fits = dtype in (torch.bfloat16, torch.float16) and head_size % 8 == 0 and head_size <= 256
    return fits and isinstance(score, ScaledDotProductScore) and not drops


def _attend_packed(
    score: nn.Module, query: Tensor, key_value: tuple[Tensor, Tensor], mask: AttentionMask, dropout: Dropout
) -> Tensor:
    """Attend within each packed row: query [1, H, N, K], key and value [1, H, M, K] -> pooled [1, H, N, K]."""
    queries, keys = mask.queries, mask.keys
    assert queries is not None
    assert keys is not None
    if query.is_cuda and varlen_may_serve(score, query.dtype, query.size(-1), dropout):
        assert isinstance(queries, Packing)
        assert isinstance(keys, Packing)
        return _varlen_attention(query, key_value, queries, keys, causal=mask.causal)
    query, key, value = (
        packing.unpack(packed.transpose(1, 2)).transpose(1, 2)
        for packing, packed in ((queries, query), (keys, key_value[0]), (keys, key_value[1]))
    )
    pooled = _attend_padded(score, query, (key, value), mask.bias, dropout)
    return queries.pack(pooled.transpose(1, 2)).transpose(1, 2)


def _varlen_attention(
    query: Tensor, key_value: tuple[Tensor, Tensor], queries: Packing, keys: Packing, *, causal: bool
) -> Tensor:
    """Attend within packed rows with FlashAttention (Dao 2024), which neither reads nor computes padding."""
    from torch.nn.attention.varlen import varlen_attn

    key, value = key_value
    pooled = varlen_attn(
        query.squeeze(0).transpose(0, 1),  # [N, H, K]
        key.squeeze(0).transpose(0, 1),
        value.squeeze(0).transpose(0, 1),
        queries.offsets,
        keys.offsets,
        queries.width,
        keys.width,
        window_size=(-1, 0 if causal else -1),  # how far back and ahead a query may attend; -1: no limit
    )
    assert isinstance(pooled, Tensor)
    return pooled.transpose(0, 1).unsqueeze(0)
