"""Updates on blocks: those of padded batches, the same operations for every batch, and a failed recording."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.base.special_tokens import PAD_ID
from nmt.config import TrainingConfig
from nmt.data.store.batching import Batch, collate
from nmt.training.update.block import Block, BlockShape
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.loss import BatchLoss
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.step import Step
from tests.model.test_transformer import KINDS, make
from tests.quick import quick_and_slow
from tests.traced_updates import Tracer, drop_as_a_gpu

# In `make test`, every attention, kind of positions, norm and place of a norm once or more, and the last three.
every_kind = pytest.mark.parametrize(
    "kind",
    quick_and_slow(KINDS, lambda number, _: number % 5 == 0 or number >= len(KINDS) - 3),
    ids=lambda kind: "-".join(map(str, kind.values())),
)
# Quick are those without and with a scale of the loss.
every_dtype = pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow), torch.float16]
)
SHAPE = BlockShape.holding(num_src=100, num_tgt=120, num_sentences=9, width=10)


def batches(count: int, seed: int = 1, longest: int = 9) -> list[Batch]:
    draw = random.Random(seed)

    def side(num_rows):
        return [[draw.randrange(4, 13) for _ in range(draw.randint(1, longest))] for _ in range(num_rows)]

    sizes = [draw.randint(2, 9) for _ in range(count)]
    return [collate(side(size), side(size), 60, 60) for size in sizes]


def make_step(shape, recorder=None, dtype=torch.float32, **kind):
    kind = {"dropout": 0.0, "embedding_dropout": 0.0, **kind}
    model = make(**kind).train()
    step = Step(model, Optimizer(model, TrainingConfig(), dtype), ProcessGroup())
    if shape is not None:
        step.record(shape, 0.1, recorder)
    return step


def results_of(step, updates):
    found = []
    for number, parts in enumerate(updates, 1):
        num_tokens = sum(batch.num_tgt_tokens for batch in parts)
        found.append(torch.stack(step(parts, num_tokens, 1e-3 / number, 0.1)))
    return torch.stack(found)


@every_kind
def test_updates_on_a_block_are_those_of_padded_batches(kind):
    updates = [batches(1, 1), batches(3, 2), batches(1, 3)]
    padded, on_block = (results_of(make_step(shape, **kind), updates) for shape in (None, SHAPE))
    assert torch.allclose(on_block, padded, rtol=1e-4)


def test_gradients_on_a_block_are_those_of_padded_batches():
    (batch,) = batches(1)
    model = make(dropout=0.0, embedding_dropout=0.0).train()
    loss_of, block = BatchLoss(model), Block(SHAPE, torch.device("cpu"))
    block.fill(batch, 1.0, 1e-3)
    padded, on_block = (
        torch.autograd.grad(loss, loss_of.parameters)
        for loss in (loss_of(batch, 0.1), loss_of.of_block(block.contents(), 0.1))
    )
    for (name, _), expected, gradient in zip(model.named_parameters(), padded, on_block, strict=True):
        assert torch.allclose(gradient, expected, atol=1e-5), name


def test_batches_that_the_block_cannot_hold_are_computed_as_they_are():
    large = collate([[*range(4, 12)]] * 9, [[*range(4, 12)]] * 9, 60, 60)  # 81 tokens a side
    updates = [batches(1), [large, large], [*batches(1), large]]
    step = make_step(BlockShape.holding(num_src=60, num_tgt=60, num_sentences=9, width=10))
    assert torch.allclose(results_of(step, updates), results_of(make_step(None), updates), rtol=1e-4)
    assert step.num_launched == 6
    assert step.recorded.backward.num_calls == 3  # with a block of filler alone


class Operations(TorchDispatchMode):
    """List each operation with its shapes, dtypes and other arguments."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(f"{func} {described((args, *(kwargs or {}).items()))}")
        return func(*args, **(kwargs or {}))


def described(each):
    """`each` with the shape and the dtype for each tensor; torch's tree_map takes several times as long."""
    if isinstance(each, list | tuple):
        return [*map(described, each)]
    return (tuple(each.shape), each.dtype) if isinstance(each, torch.Tensor) else each


@every_dtype
def test_no_operation_of_an_update_depends_on_its_batch_its_rate_or_the_number_of_its_batches(dtype):
    step = make_step(SHAPE, dtype=dtype, dropout=0.1)
    first, second = batches(2, 7)
    results_of(step, [[first], [second]])  # the first one allocates

    def operations(batch, scale, lr):
        step.recorded.block.fill(batch, scale, lr)
        with Operations() as listed:
            step.recorded.backward()
            step.recorded.change()
        return listed.seen

    expected = operations(first, 1 / 50, 1e-3)
    assert len(expected) > 100
    for other in ((first, 1 / 50, 1e-3), (first, 1 / 50, 7e-4), (second, 1 / 50, 1e-3), (second, 1 / 83, 2e-3)):
        assert operations(*other) == expected


@every_kind
def test_no_operation_of_an_update_lets_the_host_wait_for_the_device_or_copies_from_it(kind):
    """With dropout as on a GPU: on a CPU, the host draws its numbers."""
    step, (first,) = make_step(SHAPE, dtype=torch.bfloat16, **kind), batches(1)
    results_of(step, [[first]])
    step.recorded.block.fill(first, 1 / 50, 1e-3)
    with Operations() as listed:
        step.recorded.backward()
        step.recorded.change()
    waits = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero", "lift_fresh")
    assert not [line for line in listed.seen if any(line.startswith(f"aten.{name}.") for name in waits)]
    indexed = [line for line in listed.seen if line.startswith(("aten.index.", "aten.index_put"))]
    assert not [line for line in indexed if "torch.bool" in line]


@every_dtype
def test_replayed_operations_train_on_new_batches_as_launched_ones_do(dtype):
    """From the fourth call on, also for several batches an update."""
    updates = [batches(1, 1), batches(1, 2), batches(1, 3), batches(1, 4), batches(3, 5), batches(1, 6)]
    recorder = Tracer()
    step, launched = make_step(SHAPE, recorder, dtype), make_step(SHAPE, None, dtype)
    assert torch.equal(results_of(step, updates), results_of(launched, updates))
    halves = (step.recorded.backward, step.recorded.change)
    assert [half.num_replays for half in halves] == [5, 3]
    assert [each.num_launched for each in (step, launched)] == [3, 8]
    assert recorder.made == 2
    for name, weights in step.optimizer.master.items():
        assert torch.equal(weights, launched.optimizer.master[name]), name


def test_replayed_dropout_draws_anew_what_launched_dropout_draws(monkeypatch):
    drop_as_a_gpu(monkeypatch)
    updates, found = [batches(1)] * 6, []
    for recorder in (None, Tracer()):
        step = make_step(SHAPE, recorder, dropout=0.3)
        torch.manual_seed(5)
        found.append(torch.stack([step(parts, 50, 0.0, 0.1)[0] for parts in updates]))
    assert step.recorded.backward.num_replays == 3
    assert torch.equal(*found)
    assert len(found[1].unique()) == 6  # the weights stay as they are


FAULTS = [
    RuntimeError("operation not permitted when stream is capturing\nSearch for `cudaErrorStreamCaptureUnsupported`"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=["capture", "memory", "no reason"])
def test_a_recording_that_fails_leaves_a_training_with_the_same_losses_and_says_so_once(fault, caplog, monkeypatch):
    drop_as_a_gpu(monkeypatch)
    updates, found = [[batch] for batch in batches(6)], []
    for recorder in (None, Tracer(fault)):
        step = make_step(SHAPE, recorder, dropout=0.1)
        torch.manual_seed(5)
        found.append(results_of(step, updates))
    assert torch.equal(*found)
    assert step.num_launched == 6
    (warning,) = caplog.messages
    assert warning.startswith("updates without CUDA graphs, which would be faster: recording failed: ")
    assert warning.endswith(str(fault).split("\n")[0])


def test_if_only_the_change_of_the_weights_cannot_be_recorded_gradients_are_replayed(caplog):
    """One warning, and the same losses."""
    recorder = Tracer()

    def record(work, device):
        recorder.fault = RuntimeError("no") if work.__name__ == "_change" else None
        return recorder(work, device)

    updates = [[batch] for batch in batches(6)]
    step = make_step(SHAPE, record)
    assert torch.equal(results_of(step, updates), results_of(make_step(SHAPE), updates))
    assert [half.num_replays for half in (step.recorded.backward, step.recorded.change)] == [3, 0]
    assert len(caplog.messages) == 1


def test_two_updates_of_one_batch_change_the_weights_twice():
    """A state that is replaced instead of written in place would stand still in a replay."""
    step, (batch,) = make_step(SHAPE, Tracer()), batches(1)
    results_of(step, [[batch]] * 4)
    before = [parameter.detach().clone() for parameter in step.loss.parameters]
    state = step.optimizer.adam.state["output_proj.weight"]["step"].clone()
    results_of(step, [[batch]])
    assert all(
        not torch.equal(old, new) for old, new in zip(before, step.loss.parameters, strict=True) if new.numel() > 30
    )
    assert step.optimizer.adam.state["output_proj.weight"]["step"] == state + 1


def test_an_update_whose_loss_is_not_finite_changes_no_weight():
    step, (batch,) = make_step(SHAPE), batches(1)
    with torch.no_grad():
        step.loss.model.decoder_norm.weight.fill_(float("nan"))
    before = step.loss.model.src_embedding.tokens.weight.detach().clone()
    loss, norm = step([batch], batch.num_tgt_tokens, 1e-3, 0.1)
    assert not torch.isfinite(loss + norm)
    assert torch.equal(step.loss.model.src_embedding.tokens.weight, before)


pairs = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=9)


@given(st.lists(pairs, min_size=1, max_size=4))
def test_a_block_holds_every_token_once_and_filler_has_no_loss(lengths_of_batches):
    block = Block(SHAPE, torch.device("cpu"))
    for lengths in lengths_of_batches:
        sides = [[[*range(4, 4 + length[side])] for length in lengths] for side in (0, 1)]
        batch = collate(*sides, 60, 60)
        assert SHAPE.fits(batch)
        block.fill(batch, 0.5, 0.25)
        contents = block.contents()
        for ids, padded in (
            (contents.src, batch.src),
            (contents.tgt_in, batch.tgt_in),
            (contents.tgt_out, batch.tgt_out),
        ):
            real = padded[padded != PAD_ID]
            assert torch.equal(ids[0, : len(real)], real)
        assert (contents.tgt_out != PAD_ID).sum() == batch.num_tgt_tokens
        for segments, padded in ((contents.sources, batch.src), (contents.targets, batch.tgt_out)):
            counts = segments.offsets.diff()
            assert counts[: len(lengths)].tolist() == (padded != PAD_ID).sum(1).tolist()
            assert (counts >= 0).all()
            assert counts.max() <= SHAPE.width
            assert segments.offsets[-1] == len(segments.positions)
        assert (contents.scale, contents.lr) == (0.5, 0.25)
