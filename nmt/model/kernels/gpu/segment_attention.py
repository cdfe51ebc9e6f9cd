"""Attention within the sentences of a packed row, in one kernel each way, for NVIDIA GPUs.

A program computes one head of one sentence, in tiles about as large as sentences are: FlashAttention's tiles of 128
queries would be three quarters empty. No two programs write to the same place, so sums always have the same order. The
formulas are those of FlashAttention-2 (Dao 2023, algorithms 1 and 2).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.model.kernels.packing import Segments


@triton.jit  # type: ignore[untyped-decorator]
def _places(rows, end, stride, head, SIZE: tl.constexpr, PADDED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return where a head of `rows` is stored, [rows, PADDED], and which of these numbers exist."""
    features = tl.arange(0, PADDED)
    exists = (rows < end)[:, None] & (features < SIZE)[None, :]
    return rows[:, None] * stride + head * SIZE + features[None, :], exists


@triton.jit  # type: ignore[untyped-decorator]
def _load(matrix, rows, end, stride, head, SIZE: tl.constexpr, PADDED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Load a head of `rows` of `matrix`, [rows, PADDED], with zeros where there are no numbers."""
    places, exists = _places(rows, end, stride, head, SIZE, PADDED)
    return tl.load(matrix + places, mask=exists, other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _scores(  # type: ignore[no-untyped-def]
    query, key, query_rows, key_rows, query_start, key_start, key_end, scale, CAUSAL: tl.constexpr
):
    """Return the scores [queries, keys], -inf for keys that a query may not attend to."""
    allowed = (key_rows < key_end)[None, :]
    if CAUSAL:
        allowed = allowed & ((key_rows - key_start)[None, :] <= (query_rows - query_start)[:, None])
    return tl.where(allowed, tl.dot(query, tl.trans(key)) * scale, -float("inf"))


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(  # type: ignore[no-untyped-def]
    queries, keys, values, pooled, log_totals, query_offsets, key_offsets,
    query_stride, key_stride, value_stride, pooled_stride, num_tokens, scale,
    SIZE: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    sentence = tl.program_id(0)
    head = tl.program_id(1)
    query_start = tl.load(query_offsets + sentence)
    query_end = tl.load(query_offsets + sentence + 1)
    key_start = tl.load(key_offsets + sentence)
    key_end = tl.load(key_offsets + sentence + 1)
    for first_query in range(query_start, query_end, TILE):
        query_rows = first_query + tl.arange(0, TILE)
        query = _load(queries, query_rows, query_end, query_stride, head, SIZE, PADDED)
        largest = tl.full([TILE], -1e30, tl.float32)
        total = tl.zeros([TILE], tl.float32)
        summed = tl.zeros([TILE, PADDED], tl.float32)
        last_key = key_end
        if CAUSAL:
            last_key = tl.minimum(key_end, key_start + first_query - query_start + TILE)
        for first_key in range(key_start, last_key, TILE):
            key_rows = first_key + tl.arange(0, TILE)
            key = _load(keys, key_rows, key_end, key_stride, head, SIZE, PADDED)
            value = _load(values, key_rows, key_end, value_stride, head, SIZE, PADDED)
            scores = _scores(query, key, query_rows, key_rows, query_start, key_start, key_end, scale, CAUSAL)
            new_largest = tl.maximum(largest, tl.max(scores, 1))
            weights = tl.exp(scores - new_largest[:, None])
            shrunk = tl.exp(largest - new_largest)
            total = total * shrunk + tl.sum(weights, 1)
            summed = summed * shrunk[:, None] + tl.dot(weights.to(value.dtype), value)
            largest = new_largest
        total = tl.where(total > 0, total, 1.0)  # a sentence without keys pools zeros
        places, exists = _places(query_rows, query_end, pooled_stride, head, SIZE, PADDED)
        tl.store(pooled + places, (summed / total[:, None]).to(pooled.dtype.element_ty), mask=exists)
        tl.store(log_totals + head * num_tokens + query_rows, largest + tl.log(total), mask=query_rows < query_end)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(  # type: ignore[no-untyped-def]
    queries, keys, values, pooled, log_totals, grads, query_grads, key_grads, value_grads, query_offsets, key_offsets,
    query_stride, key_stride, value_stride, pooled_stride, grad_stride, key_grad_stride, num_tokens, scale,
    SIZE: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    sentence = tl.program_id(0)
    head = tl.program_id(1)
    query_start = tl.load(query_offsets + sentence)
    query_end = tl.load(query_offsets + sentence + 1)
    key_start = tl.load(key_offsets + sentence)
    key_end = tl.load(key_offsets + sentence + 1)
    # Once even without keys, because the gradient of the queries is zero then.
    for first_key in range(key_start, tl.maximum(key_end, key_start + 1), TILE):
        key_rows = first_key + tl.arange(0, TILE)
        key = _load(keys, key_rows, key_end, key_stride, head, SIZE, PADDED)
        value = _load(values, key_rows, key_end, value_stride, head, SIZE, PADDED)
        key_grad = tl.zeros([TILE, PADDED], tl.float32)
        value_grad = tl.zeros([TILE, PADDED], tl.float32)
        begin = query_start
        if CAUSAL:
            begin = query_start + first_key - key_start  # earlier queries see none of these keys
        for first_query in range(begin, query_end, TILE):
            query_rows = first_query + tl.arange(0, TILE)
            query = _load(queries, query_rows, query_end, query_stride, head, SIZE, PADDED)
            grad = _load(grads, query_rows, query_end, grad_stride, head, SIZE, PADDED)
            places, exists = _places(query_rows, query_end, pooled_stride, head, SIZE, PADDED)
            output = tl.load(pooled + places, mask=exists, other=0.0)
            is_query = query_rows < query_end
            log_total = tl.load(log_totals + head * num_tokens + query_rows, mask=is_query, other=0.0)
            scores = _scores(query, key, query_rows, key_rows, query_start, key_start, key_end, scale, CAUSAL)
            weights = tl.where(is_query[:, None], tl.exp(scores - log_total[:, None]), 0.0)
            value_grad += tl.dot(tl.trans(weights.to(grad.dtype)), grad)
            pooled_grad = tl.sum(grad.to(tl.float32) * output.to(tl.float32), 1)
            score_grad = weights * (tl.dot(grad, tl.trans(value)) - pooled_grad[:, None]) * scale
            score_grad = score_grad.to(query.dtype)
            key_grad += tl.dot(tl.trans(score_grad), query)
            query_grad = tl.dot(score_grad, key)
            if first_key > key_start:
                query_grad += tl.load(query_grads + places, mask=exists, other=0.0).to(tl.float32)
            tl.store(query_grads + places, query_grad.to(query.dtype), mask=exists)
        places, is_key = _places(key_rows, key_end, key_grad_stride, head, SIZE, PADDED)
        tl.store(key_grads + places, key_grad.to(key.dtype), mask=is_key)
        tl.store(value_grads + places, value_grad.to(key.dtype), mask=is_key)
        tl.debug_barrier()  # the next keys add to the gradients of queries, which other threads may have stored


class _SegmentAttention(torch.autograd.Function):
    """Attention of queries [N, H, K] to keys and values [M, H, K] of the same sentence, with all heads side by side."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, offsets: tuple[Tensor, Tensor], constants: dict[str, Any]
    ) -> Tensor:
        num_tokens, num_heads, size = query.shape
        pooled = query.new_empty(query.shape)
        log_totals = torch.empty(num_heads, num_tokens, dtype=torch.float32, device=query.device)
        _forward_kernel[(len(offsets[0]) - 1, num_heads)](
            query, key, value, pooled, log_totals, *offsets,
            query.stride(0), key.stride(0), value.stride(0), pooled.stride(0), num_tokens, size**-0.5, **constants,
        )  # fmt: skip
        ctx.save_for_backward(query, key, value, pooled, log_totals, *offsets)
        ctx.constants = constants
        return pooled

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        query, key, value, pooled, log_totals, *offsets = ctx.saved_tensors
        num_tokens, num_heads, size = query.shape
        grad = _with_heads_side_by_side(grads[0])
        query_grad = torch.empty_like(pooled)
        # Side by side, as the projection of keys and values has them.
        key_grad, value_grad = key.new_empty(len(key), 2, num_heads, size).unbind(1)
        _backward_kernel[(len(offsets[0]) - 1, num_heads)](
            query, key, value, pooled, log_totals, grad, query_grad, key_grad, value_grad, *offsets,
            query.stride(0), key.stride(0), value.stride(0), pooled.stride(0), grad.stride(0), key_grad.stride(0),
            num_tokens, size**-0.5, **ctx.constants,
        )  # fmt: skip
        return query_grad, key_grad, value_grad, None, None


def _with_heads_side_by_side(states: Tensor) -> Tensor:
    """Return states [N, H, K], copied if the H x K numbers of a token do not lie side by side."""
    return states if states.stride()[1:] == (states.size(2), 1) else states.contiguous()


def segment_attention(
    query: Tensor, key: Tensor, value: Tensor, queries: Segments, keys: Segments, causal: bool
) -> Tensor:
    """Attend from query [1, H, N, K] to key and value [1, H, M, K] of the same sentence -> pooled [1, H, N, K].

    Sentence i has the tokens from offset i to offset i + 1 on both sides. One without keys pools zeros. Dot products
    of fp32 round their inputs to TF32.
    """
    size = query.size(-1)
    width = max(queries.width, keys.width)
    constants = {
        "SIZE": size,
        "PADDED": max(16, triton.next_power_of_2(size)),
        "TILE": 32 if width <= 32 or size > 64 else 64,
        "CAUSAL": causal,
        "num_warps": 4,
        "num_stages": 2,
    }
    packed = (_with_heads_side_by_side(side.squeeze(0).transpose(0, 1)) for side in (query, key, value))
    pooled: Tensor = _SegmentAttention.apply(*packed, (queries.offsets, keys.offsets), constants)
    return pooled.transpose(0, 1).unsqueeze(0)
