"""Choose how attention is computed: by the plain formula, torch's fused kernel, or the one for segments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.model.kernels.dropout import Dropout
from nmt.model.kernels.linear import has_triton
from nmt.model.kernels.packing import ROW_MULTIPLE, Segments, compiles_each_shape
from nmt.model.masks import AttentionMask

MAX_HEAD_SIZE = 128  # of the kernel for segments
SHORT = 32  # positions per row up to which training in bf16 on a CPU pads its rows to few shapes
_WIDTH_MULTIPLE = 8  # positions: torch's softmax of other widths on a CPU takes up to twelve times as long

Formula = Callable[[Tensor, Tensor, Tensor, AttentionMask], tuple[Tensor, Tensor]]
"""`nmt.model.attention.attend` with a score and its dropout."""


@cache
def is_as_compiled(attend: Callable[..., tuple[Tensor, Tensor]], score: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Return whether `attend` with `score` is attention by the scaled dot product, as the kernels compute it.

    A formula that somebody has edited is found by a trial, so that a training computes what is written.
    """
    query = torch.arange(24.0).sin().view(1, 2, 3, 4)
    key = query.roll(1)
    value = query.roll(2)
    bias = torch.tensor([0.0, 0.0, torch.finfo(torch.float32).min])
    compiled = F.scaled_dot_product_attention(query, key, value, bias.expand(3, 3))
    return torch.allclose(attend(query, key, value, AttentionMask(bias), score=score)[0], compiled, atol=1e-5)


def attend_by_kernel(
    formula: Formula, query: Tensor, key_value: tuple[Tensor, Tensor], mask: AttentionMask, dropout: Dropout,
    is_dot_product: bool,
) -> Tensor:  # fmt: skip
    """Return the values that `formula` pools, computed by the fastest kernel for them.

    query [B, H, T, K], key and value [B, H, S, K] -> pooled [B, H, T, K]. If `mask` has layouts, all of them are laid
    out: query and pooled [1, H, N, K], key and value [1, H, M, K]. `is_dot_product` says that the formula scores by
    the scaled dot product, which is what the kernels compute.
    """
    queries = mask.queries
    keys = mask.keys
    has_kernel = query.is_cuda and is_dot_product
    if isinstance(queries, Segments) or isinstance(keys, Segments):
        assert isinstance(queries, Segments)
        assert isinstance(keys, Segments)
        if has_kernel and segments_may_serve(query.size(-1), dropout):
            from nmt.model.kernels.gpu.segment_attention import segment_attention

            return segment_attention(query, *key_value, queries, keys, mask.causal)
        return formula(query, *key_value, AttentionMask(queries.bias(keys, mask.causal, query.dtype)))[0]
    if mask.causal and (mask.bias is None or mask.bias.dim() != 2):
        # A GPU's kernel reads only `causal`, and the formula only the bias: with padding in it, they would differ.
        raise ValueError("a causal AttentionMask needs the bias of its causal mask [T, T], and no other")
    if queries is None or keys is None:
        if has_kernel:
            return sdpa(query, key_value, mask, dropout.rate if dropout.training else 0.0)
        return _attend_padded(formula, query, key_value, mask, dropout if is_dot_product else None)
    query, key, value = (
        packing.unpack(packed.transpose(1, 2)).transpose(1, 2)
        for packing, packed in ((queries, query), (keys, key_value[0]), (keys, key_value[1]))
    )
    padded = mask._replace(queries=None, keys=None)
    pooled = attend_by_kernel(formula, query, (key, value), padded, dropout, is_dot_product)
    return queries.pack(pooled.transpose(1, 2)).transpose(1, 2)


def _attend_padded(
    formula: Formula, query: Tensor, key_value: tuple[Tensor, Tensor], mask: AttentionMask, dropout: Dropout | None
) -> Tensor:
    """Attend by the plain formula: query [B, H, T, K], key and value [B, H, S, K] -> pooled [B, H, T, K].

    In training, where batches have many shapes, short rows are padded to few if each shape would need a kernel. Without
    `dropout`, the scores are others than scaled dot products.
    """
    key, value = key_value
    trains = query.requires_grad and compiles_each_shape(query)
    if not trains or dropout is None or mask.bias is None or max(query.size(2), key.size(2)) > SHORT:
        return formula(query, key, value, mask)[0]
    bias = _padded(mask.bias.expand(len(query), 1, query.size(2), key.size(2)).float(), torch.finfo(query.dtype).min)
    scores = torch.add(bias, _padded(query) @ _padded(key).transpose(-1, -2), alpha=query.size(-1) ** -0.5)
    weights = dropout(scores.softmax(-1).to(query.dtype))
    return (weights @ _padded(value))[: len(query), :, : query.size(2), : query.size(3)]


def _padded(rows: Tensor, filler: float = 0.0) -> Tensor:
    """Return rows [B, H, T, K] with `filler` up to multiples of rows, positions and features."""
    count, _, length, width = rows.shape
    missing = (0, -width % _WIDTH_MULTIPLE, 0, -length % _WIDTH_MULTIPLE, 0, 0, 0, -count % ROW_MULTIPLE)
    return F.pad(rows, missing, value=filler)


def sdpa(query: Tensor, key_value: tuple[Tensor, Tensor], mask: AttentionMask, dropout_rate: float = 0.0) -> Tensor:
    """Attend with torch's kernel for scaled dot products; shapes as for `attend_by_kernel`, without packings.

    FlashAttention accepts no bias, so a causal mask is passed as `is_causal`. torch aligns it to the top left, which is
    correct if there are as many keys as queries. torch silently accepts a bias together with `is_causal`: never pass
    both.
    """
    bias = None if mask.causal else mask.bias
    return F.scaled_dot_product_attention(
        query, *key_value, attn_mask=bias, dropout_p=dropout_rate, is_causal=mask.causal
    )


def segments_may_serve(head_size: int, dropout: Dropout) -> bool:
    """Return whether there is a GPU kernel for segments with heads of this size; it cannot drop weights."""
    return has_triton() and head_size <= MAX_HEAD_SIZE and not dropout.drops


def halves(states: Tensor) -> tuple[Tensor, Tensor]:
    """Return both halves of states [..., 2D], [..., D] each, which must not be overwritten."""
    return _Halves.apply(states)


class _Halves(torch.autograd.Function):
    """Gradients that already lie side by side, as the kernel for segments writes them, are joined without a copy."""

    @staticmethod
    def forward(ctx: Any, states: Tensor) -> tuple[Tensor, ...]:
        return states.chunk(2, dim=-1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        first, second = grads
        size = first.size(-1)
        stride = first.stride()
        same_rows = second.stride() == stride and stride[-2:] == (2 * size, 1)
        if same_rows and second.data_ptr() == first.data_ptr() + size * first.itemsize:
            return first.as_strided((*first.shape[:-1], 2 * size), stride)
        return torch.cat(grads, -1)


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn feature k of heads [B, H, T, K] with feature k + K/2, by the angles of `cosine` and `sine` [T, K].

    Both tables hold each angle twice, and the first half of `sine` is negated.
    """
    return _Rotate.apply(heads, cosine, sine)


def _rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([second, first], dim=-1).mul_(sine).addcmul_(heads, cosine)


class _Rotate(torch.autograd.Function):
    """The gradient is rotated back: torch's own would take a product and a sum for each term of the formula."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _rotate(heads, cosine, sine)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        return _rotate(grads[0], cosine, -sine), None, None
