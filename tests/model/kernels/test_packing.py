"""Rows without their padding: the same states and gradients, whatever the model."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.base.special_tokens import PAD_ID
from nmt.config import TrainingConfig
from nmt.data.store.batching import Batch
from nmt.model.attention import MultiHeadAttention
from nmt.model.cache import KVCache
from nmt.model.kernels import attention_kernels
from nmt.model.kernels.packing import Flattening, Packing
from nmt.model.masks import AttentionMask
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.step import BatchLoss, Packings, Step
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
    assert packing.offsets.tolist() == [0, 3, 4, 8]
    assert packing.positions.tolist() == [0, 1, 2, 0, 0, 1, 2, 3]
    unpacked = packing.unpack(packed)
    assert torch.equal(unpacked[rows != PAD_ID], packed[0])
    assert unpacked.isfinite().all()


@pytest.mark.parametrize("added", [0, 55, 56])
def test_filler_makes_the_number_of_tokens_a_multiple_of_64_and_is_a_sentence_of_its_own(added):
    rows = ragged(3, 1, 4 + added)
    packing = Packing.from_ids(rows)
    filled = packing.filled()
    total = 64 if 8 + added < 64 else 128
    assert filled.offsets.tolist() == [*packing.offsets.tolist(), total]
    states = torch.randn(*rows.shape, 2)
    packed = filled.pack(states)
    assert packed.shape == (1, total, 2)
    assert torch.equal(packed[:, : 8 + added], packing.pack(states))
    assert filled.positions.tolist() == [*packing.positions.tolist(), *[0] * (total - 8 - added)]
    assert torch.equal(filled.unpack(packed), packing.unpack(packing.pack(states)))


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
        padded, memory = model.encode(src), model.encode(src, sources)
        assert memory.states.shape == (1, 16 if layout is Packing else 64, 24)
        assert close(sources.unpack(memory.states)[src != PAD_ID], padded.states[src != PAD_ID])
        expected = model.decode_states(tgt_in, model.start_cache(padded))
        cache = KVCache(model.project_memory(memory), memory.mask._replace(queries=targets))
        states = model.decode_states(tgt_in, cache)
    assert close(targets.unpack(states)[tgt_in != PAD_ID], expected[tgt_in != PAD_ID])


def note(states, shapes):
    shapes.append(tuple(states.shape))
    return states


@pytest.mark.parametrize("attention", ["scaled_dot_product", "additive"])
def test_packed_and_flattened_batches_have_the_loss_and_the_gradients_of_padded_ones(attention):
    src, tgt = ragged(5, 2, 9), ragged(7, 1, 4)
    batch = Batch.from_ids(src, tgt, tgt)
    losses, gradients = [], []
    padded, as_one_row = (3, 8, 24), (1, 64, 24)
    layouts = ((None, padded), (Packings.from_batch(batch), as_one_row), (Packings.flattening(batch), as_one_row))
    for packings, shape in layouts:
        model = make(attention=attention).train()
        for module in model.modules():
            if hasattr(module, "rate"):
                module.rate = 0.0  # which numbers are dropped depends on where they lie
        batch_loss = BatchLoss(model)
        shapes, states = [], batch_loss.states
        batch_loss.states = lambda *inputs, states=states, shapes=shapes: note(states(*inputs), shapes)
        loss = batch_loss(batch, 0.1, packings)
        assert shapes == [shape]
        loss.backward()
        losses.append(loss.detach())
        gradients.append([parameter.grad for parameter in model.parameters()])
    for loss, grads in zip(losses[1:], gradients[1:], strict=True):
        assert torch.allclose(loss, losses[0], rtol=1e-5)
        assert all(torch.allclose(a, b, atol=1e-4, rtol=1e-4) for a, b in zip(grads, gradients[0], strict=True))


class Products(TorchDispatchMode):
    """Note the dtype and the shapes of every matrix product."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm):
            self.seen.append((args[0].dtype, tuple(each.shape for each in args if isinstance(each, torch.Tensor))))
        return func(*args, **(kwargs or {}))


def shapes_of_products(dtype, *widths, packed=False):
    """Train in `dtype` on batches of these widths, and return the shapes of the products that were in `dtype`."""
    model = make(dropout=0.1).train()
    step = Step(model, Optimizer(model, TrainingConfig(), dtype), ProcessGroup(), packed=packed)
    with Products() as products:
        for update, width in enumerate(widths, 1):
            rows = ragged(*[width, width - 1] * 4)
            step([Batch.from_ids(rows, rows, rows)], 8 * width - 4, 1e-3 / update)
    return {shapes for product_dtype, shapes in products.seen if product_dtype == dtype}


def test_in_bf16_on_a_cpu_batches_of_any_shape_have_products_of_the_same_shapes():
    some = shapes_of_products(torch.bfloat16, 5, 11)  # 48 and 96 positions
    assert some
    assert shapes_of_products(torch.bfloat16, 3, 4, 6, 8, 9, 10, 12) == some
    assert len(shapes_of_products(torch.float32, 3, 4, 6, 8)) > len(shapes_of_products(torch.float32, 5, 11))


def test_packed_batches_of_any_shape_have_projections_of_the_same_shapes():
    def projections(*widths):  # without the products of attention
        found = shapes_of_products(torch.bfloat16, *widths, packed=True)
        return {shapes for shapes in found if not any(len(shape) == 3 for shape in shapes)}

    some = projections(5)
    assert some
    assert projections(3, 4, 6, 7, 8) == some


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_a_compiled_step_in_bf16_has_one_graph_for_short_and_long_rows(monkeypatch):
    monkeypatch.setattr(attention_kernels, "SHORT", 7)
    torch._dynamo.reset()
    graphs = []
    model = make().eval().bfloat16()
    states = torch.compile(
        BatchLoss(model)._states, dynamic=True, backend=lambda graph, _: graphs.append(graph) or graph.forward
    )
    for width in (5, 8, 6, 12, 9):
        states(ids(3, width), ids(3, width), None)
    assert len(graphs) == 1


def test_a_batch_without_a_target_is_not_packed():
    nothing = torch.full((1, 1), PAD_ID)
    batch = Batch.from_ids(ids(1, 1), ids(1, 1), nothing)
    loss, _ = packed_step(make())([batch], 1, 1e-3)
    assert loss == 0


def packed_step(model):
    return Step(model, Optimizer(model, TrainingConfig(), torch.float32), ProcessGroup(), packed=True)


def test_a_packed_update_has_the_loss_of_a_padded_one_and_packings_that_are_moved_to_the_device_whole(monkeypatch):
    rows = ragged(5, 2, 9)
    batch = Batch.from_ids(rows, rows, rows)
    expected = BatchLoss(make())(batch, 0.1)
    step = packed_step(make())
    moved = []
    monkeypatch.setattr(Packing, "to", lambda self, device: moved.append(self) or self)
    loss, _ = step([batch], batch.num_tgt_tokens, 1e-3, 0.1)
    assert torch.allclose(loss, expected, rtol=1e-5)
    assert [len(packing.real) for packing in moved] == [64, 64]


@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu_a_kernel_for_packed_rows_is_called_as_its_signature_says(causal):
    """Shapes and types alone: no number is computed, so that no GPU is needed."""
    with FakeTensorMode():
        queries, keys = (
            Packing.from_ids(
                torch.empty(3, width, dtype=torch.int64, device="cuda"),
                torch.empty(real, dtype=torch.int64, device="cuda"),
            ).filled()
            for width, real in ((10, 16), (10, 16) if causal else (12, 20))
        )
        query, key, value = (
            torch.empty(1, len(packing.real), 2, 8, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
            for packing in (queries, keys, keys)
        )
        mask = AttentionMask(torch.empty(10, 10) if causal else None, causal, queries, keys)
        pooled, _ = MultiHeadAttention(16, 2).attend(query, key, value, mask)
    assert pooled.shape == query.shape
    assert (pooled.device.type, pooled.dtype) == ("cuda", torch.bfloat16)
