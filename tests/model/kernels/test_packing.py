"""Rows without their padding: the same states and gradients, whatever the model."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.base.special_tokens import PAD_ID
from nmt.config import TrainingConfig
from nmt.data.store.batching import Batch
from nmt.model.attention import MultiHeadAttention, attend, scaled_dot_product
from nmt.model.cache import KVCache
from nmt.model.kernels.attention_kernels import attend_by_kernel, is_as_compiled
from nmt.model.kernels.dropout import Dropout
from nmt.model.kernels.packing import Flattening, Packing, Segments
from nmt.model.masks import AttentionMask
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.loss import BatchLoss
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.step import Step
from tests.model.test_transformer import MAX_LEN, close, every_kind, ids, make


def ragged(*lengths: int) -> torch.Tensor:
    rows = ids(len(lengths), max(lengths) + 1)  # the last column is padding in every row
    for row, length in zip(rows, lengths, strict=True):
        row[length:] = PAD_ID
    return rows


def test_packing_keeps_real_positions_in_order_and_unpacking_puts_them_back():
    rows = ragged(3, 1, 4)
    packing = Packing.from_ids(rows)
    states = torch.randn(3, 5, 2)
    packed = packing.pack(states)
    assert torch.equal(packed[0], states[rows != PAD_ID])
    assert packing.positions.tolist() == [0, 1, 2, 0, 0, 1, 2, 3]
    unpacked = packing.unpack(packed)
    assert torch.equal(unpacked[rows != PAD_ID], packed[0])
    assert unpacked.isfinite().all()


def test_flattening_keeps_all_positions_and_appends_zeros_up_to_a_multiple_of_64():
    flattening = Flattening.from_ids(ids(9, 11))
    states = torch.randn(9, 11, 2)
    flat = flattening.pack(states)
    assert flat.shape == (1, 128, 2)
    assert not flat[0, 99:].any()
    assert flattening.positions.tolist() == [*range(11)] * 11 + [*range(7)]
    assert torch.equal(flattening.unpack(flat), states)


@every_kind
@pytest.mark.parametrize("layout", [Packing, Flattening])
def test_packed_or_flattened_states_equal_padded_ones(kind, layout):
    model, src, tgt_in = make(**kind), ragged(5, 2, 9), ragged(7, 1, MAX_LEN - 1)
    sources, targets = layout.from_ids(src), layout.from_ids(tgt_in)
    with torch.no_grad():
        padded, memory = model.encode(src), model.encode(src, packing=sources)
        assert memory.states.shape == (1, 16 if layout is Packing else 64, 24)
        assert close(sources.unpack(memory.states)[src != PAD_ID], padded.states[src != PAD_ID])
        expected = model.decode_states(tgt_in, model.start_cache(padded))
        cache = KVCache(model.project_memory(memory), memory.mask._replace(queries=targets))
        states = model.decode_states(tgt_in, cache)
    assert close(targets.unpack(states)[tgt_in != PAD_ID], expected[tgt_in != PAD_ID])


@pytest.mark.parametrize("attention", ["scaled_dot_product", "additive"])
def test_flattened_batches_have_the_loss_and_the_gradients_of_padded_ones(attention):
    src, tgt = ragged(5, 2, 9), ragged(7, 1, 4)
    batch = Batch.from_ids(src, tgt, tgt)
    model = make(attention=attention, dropout=0.0, embedding_dropout=0.0).train()
    shapes, loss_of, results = [], BatchLoss(model), []
    states = loss_of.states
    loss_of.states = lambda *inputs: note(states(*inputs), shapes)
    for flattened in (False, True):
        loss = loss_of(batch, 0.1, flattened=flattened)
        results.append((loss, *torch.autograd.grad(loss, loss_of.parameters)))
    assert shapes == [(3, 8, 24), (1, 64, 24)]
    assert all(torch.allclose(a, b, atol=1e-4, rtol=1e-4) for a, b in zip(*results, strict=True))


def note(states, shapes):
    shapes.append(tuple(states.shape))
    return states


@pytest.mark.parametrize("causal", [False, True])
def test_the_bias_of_segments_allows_keys_of_the_same_sentence_alone(causal):
    queries = Segments(torch.tensor([0, 2, 2, 5], dtype=torch.int32), torch.tensor([0, 1, 0, 1, 2]), 3)
    keys = queries if causal else Segments(torch.tensor([0, 1, 3, 4], dtype=torch.int32), torch.tensor([0, 0, 1, 0]), 2)
    allowed = queries.bias(keys, causal, torch.float32) == 0
    block = (lambda n: torch.ones(n, n).tril()) if causal else None
    expected = (
        torch.block_diag(block(2), block(3))
        if causal
        else torch.block_diag(torch.ones(2, 1), torch.zeros(0, 2), torch.ones(3, 1))
    )
    assert torch.equal(allowed, expected.bool())


class Products(TorchDispatchMode):
    """Note the dtype and the shapes of every matrix product."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kinds = (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.mkldnn._linear_pointwise)
        if func.overloadpacket in kinds:
            self.seen.append((args[0].dtype, tuple(each.shape for each in args if isinstance(each, torch.Tensor))))
        return func(*args, **(kwargs or {}))


def shapes_of_products(dtype, *widths):
    """Train in `dtype` on batches of these widths, and return the shapes of the products that were in `dtype`."""
    model = make(dropout=0.1).train()
    step = Step(model, Optimizer(model, TrainingConfig(), dtype), ProcessGroup())
    with Products() as products:
        for update, width in enumerate(widths, 1):
            rows = ragged(*[width, width - 1] * 4)
            step([Batch.from_ids(rows, rows, rows)], 8 * width - 4, 1e-3 / update)
    return {shapes for product_dtype, shapes in products.seen if product_dtype == dtype}


@pytest.mark.parametrize(("num_queries", "num_keys", "rate"), [(5, 5, 0.0), (7, 11, 0.0), (8, 16, 0.5), (1, 3, 0.0)])
def test_in_bf16_on_a_cpu_padded_attention_is_that_of_the_formula(num_queries, num_keys, rate):
    sizes = (num_queries, num_keys, num_keys)
    rows = [torch.randn(3, 2, size, 6).bfloat16().requires_grad_() for size in sizes]
    hidden = torch.zeros(3, 1, 1, num_keys).bool()
    hidden[0, ..., 1:] = True
    bias = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.bfloat16).min)
    dropout = Dropout(rate)
    torch.manual_seed(1)
    pooled = attend_by_kernel(None, rows[0], rows[1:], AttentionMask(bias.bfloat16()), dropout, True)
    if rate:
        assert not pooled.equal(attend_by_kernel(None, rows[0], rows[1:], AttentionMask(bias), dropout, True))
        return
    exact = [each.detach().float().requires_grad_() for each in rows]
    expected = attend(*exact, AttentionMask(bias))[0]
    grads = torch.autograd.grad(pooled.float().square().sum(), rows)
    expected_grads = torch.autograd.grad(expected.square().sum(), exact)
    for got, wanted in zip((pooled, *grads), (expected, *expected_grads), strict=True):
        assert torch.allclose(got.float(), wanted, atol=0.05, rtol=0.05)


def test_a_formula_of_attention_that_was_edited_is_found():
    def without_scale(query, key):
        return query @ key.transpose(-1, -2)

    def twice(query, key, value, mask, *, score):
        pooled, weights = attend(query, key, value, mask, score=score)
        return 2 * pooled, weights

    assert is_as_compiled(attend, scaled_dot_product)
    assert not is_as_compiled(attend, without_scale)
    assert not is_as_compiled(twice, scaled_dot_product)


def test_a_training_in_bf16_on_a_cpu_computes_an_edited_formula(monkeypatch):
    def nothing(*arguments, **options):
        pooled, weights = attend(*arguments, **options)
        return 0 * pooled, weights

    layer = MultiHeadAttention(16, 2).bfloat16()
    states = torch.randn(3, 5, 16).bfloat16().requires_grad_()
    mask = AttentionMask(torch.zeros(1, 1, 1, 5).bfloat16())
    bias = layer.output_proj.bias.expand(3, 5, 16)
    assert not layer(states, states, mask)[0].equal(bias)
    monkeypatch.setattr("nmt.model.attention.attend", nothing)
    assert layer(states, states, mask)[0].equal(bias)


def test_in_bf16_on_a_cpu_batches_of_any_shape_have_products_of_the_same_shapes():
    some = shapes_of_products(torch.bfloat16, 5, 11)  # 48 and 96 positions
    assert some
    assert shapes_of_products(torch.bfloat16, 3, 4, 6, 8, 9, 10, 12) == some
    assert len(shapes_of_products(torch.float32, 3, 4, 6, 8)) > len(shapes_of_products(torch.float32, 5, 11))
