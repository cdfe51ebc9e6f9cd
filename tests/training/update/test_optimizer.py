"""Schedules, the fp32 master copy and the scale of the loss."""

from __future__ import annotations

import pytest
import torch

from nmt.base.device import tf32_products
from nmt.base.special_tokens import PAD_ID
from nmt.config import ModelConfig, TrainingConfig
from nmt.data.store.batching import Batch
from nmt.model.transformer import Transformer
from nmt.training.update import optimizer as optimizer_module
from nmt.training.update import step as step_module
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.loss import BatchLoss
from nmt.training.update.optimizer import LossScale, Optimizer, learning_rate
from nmt.training.update.step import Step


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("inverse_sqrt", [0.5, 1.0, (4 / 16) ** 0.5, (4 / 20) ** 0.5]),
        ("linear", [0.5, 1.0, 0.25, 0.0]),
        ("cosine", [0.5, 1.0, 0.1464466, 0.0]),
        ("wsd", [0.5, 1.0, 0.8, 0.0]),
    ],
)
def test_schedules_warm_up_and_decay(schedule, expected):
    config = TrainingConfig(lr=1.0, warmup_updates=4, max_updates=20, schedule=schedule, cooldown_share=0.25)
    assert [learning_rate(config, update) for update in (2, 4, 16, 20)] == pytest.approx(expected)


def test_a_cooldown_that_would_begin_in_the_warmup_begins_after_it():
    config = TrainingConfig(lr=1.0, warmup_updates=4, max_updates=20, schedule="wsd", cooldown_share=1.0)
    assert [learning_rate(config, update) for update in (4, 5, 12, 20)] == pytest.approx([1.0, 15 / 16, 0.5, 0.0])


def test_no_warmup_starts_at_the_peak():
    config = TrainingConfig(lr=1.0, warmup_updates=0, max_updates=20)
    assert learning_rate(config, 1) == 1.0


def make() -> Transformer:
    torch.manual_seed(1)
    return Transformer(ModelConfig(d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1), 13, 13)


def one_update(model, optimizer, lr):
    src = torch.tensor([[5, 6, 7]])
    loss = model(src, src).float().square().mean()
    optimizer.accumulate(torch.autograd.grad(loss, list(model.parameters())))
    return optimizer.step(lr)


def test_bf16_keeps_steps_that_are_too_small_for_it():
    """Steps of 1e-5 on weights near 0.25 are lost to bf16's rounding, but not to the master copy."""
    model = make()
    optimizer = Optimizer(model, TrainingConfig(clip_norm=0), torch.bfloat16)
    name, weight = next(iter(optimizer.model_parameters.items()))
    before = optimizer.master[name].clone()
    for _ in range(5):
        one_update(model, optimizer, 1e-5)
    moved = (optimizer.master[name] - before).detach().abs()
    assert float(moved.max()) > 1e-6
    assert torch.equal(weight, optimizer.master[name].bfloat16())


@pytest.mark.parametrize(("limit", "applied"), [(1e-3, 1e-3), (0.0, None)])
def test_gradients_are_clipped_to_the_norm_or_not_at_all(limit, applied, monkeypatch):
    model = make()
    optimizer = Optimizer(model, TrainingConfig(clip_norm=limit), torch.float32)
    seen = []
    grads = lambda: [p.grad for p in optimizer.master.values() if p.grad is not None]  # noqa: E731
    monkeypatch.setattr(optimizer.adam, "step", lambda *_: seen.append(float(torch.nn.utils.get_total_norm(grads()))))
    norm = float(one_update(model, optimizer, 1e-3))
    assert norm > 1e-3
    assert seen == [pytest.approx(applied or norm, rel=1e-4)]


def test_bf16_leaves_the_table_of_positions_in_fp32():
    model = make()
    Optimizer(model, TrainingConfig(), torch.bfloat16)
    assert model.output_proj.weight.dtype == torch.bfloat16
    assert model.src_embedding.sinusoidal.dtype == torch.float32


class TwinProcesses(ProcessGroup):
    """Two processes with the same gradients."""

    def __init__(self):
        super().__init__(rank=0, world_size=2)
        self.exchanged = []

    def any(self, flag):
        return flag

    def sum(self, total):
        self.exchanged.append((total.dtype, total.numel()))
        return 2 * total


@pytest.mark.parametrize("chunk_numbers", [1, 1 << 25])
def test_bf16_gradients_of_micro_batches_are_added_up_in_fp32_and_exchanged_once(monkeypatch, chunk_numbers):
    monkeypatch.setattr(optimizer_module, "CHUNK_NUMBERS", chunk_numbers)
    rows = torch.randint(4, 13, (6, 5))
    batches = [Batch.from_ids(part, part, part) for part in rows.split(2)]
    num_tokens = sum(batch.num_tgt_tokens for batch in batches)
    sums, group = [], TwinProcesses()
    expected = dict.fromkeys(dict(make().named_parameters()))
    for each in (ProcessGroup(), group):
        model = make().eval()
        optimizer = Optimizer(model, TrainingConfig(clip_norm=0), torch.bfloat16)
        monkeypatch.setattr(optimizer.adam, "step", lambda grads, *_: sums.append(
            {name: grad.clone() for name, grad in zip(expected, grads, strict=True)}
        ))  # fmt: skip
        Step(model, optimizer, each)(batches, num_tokens, 1e-3, 0.1)
    assert group.exchanged == [(torch.float32, model.num_parameters())]
    model.zero_grad()
    expected = {name: torch.zeros_like(p, dtype=torch.float32) for name, p in model.named_parameters()}
    for batch in batches:
        (BatchLoss(model)(batch, 0.1, flattened=True) * (1 / num_tokens)).backward()
        for name, p in model.named_parameters():
            expected[name] += p.grad.float()
            p.grad = None
    for name, grad in expected.items():
        assert grad.any(), name
        assert torch.equal(sums[0][name], grad), name
        assert torch.equal(sums[1][name], 2 * grad), name


def test_accumulated_gradients_keep_their_memory_from_update_to_update():
    model = make()
    optimizer = Optimizer(model, TrainingConfig(), torch.bfloat16)
    addresses = []
    for lr in (1e-3, 1e-3):
        src = torch.tensor([[5, 6, 7]])
        loss = model(src, src).float().square().mean()
        optimizer.accumulate(torch.autograd.grad(loss, list(model.parameters())))
        addresses.append(optimizer.gradients.data_ptr())
        optimizer.step(lr)
    assert addresses[0] == addresses[1]


def test_an_update_computes_its_products_with_tf32_allowed(monkeypatch):
    """On CUDA alone; the switch of the device stands in for one."""
    monkeypatch.setattr(step_module, "tf32_products", lambda device: tf32_products(torch.device("cuda")))
    model = make()
    step = Step(model, Optimizer(model, TrainingConfig(), torch.float32), ProcessGroup())
    seen = []
    model.encoder_norm.register_forward_pre_hook(lambda *_: seen.append(torch.get_float32_matmul_precision()))
    rows = torch.randint(4, 13, (2, 5))
    step([Batch.from_ids(rows, rows, rows)], 10, 1e-3)
    step.dry_run(Batch.from_ids(rows, rows, rows))
    assert seen == ["high", "high"]
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_step_takes_a_share_without_rows():
    model = make()
    step = Step(model, Optimizer(model, TrainingConfig(), torch.float32), ProcessGroup())
    rows, nothing = torch.randint(4, 13, (2, 5)), torch.full((1, 1), PAD_ID)
    loss, _ = step([Batch.from_ids(rows, rows, rows), Batch.from_ids(rows[:1, :1], rows[:1, :1], nothing)], 10, 1e-3)
    assert torch.isfinite(loss)


def test_fp16_scales_the_loss_and_halves_the_scale_when_gradients_overflow():
    model = make().eval()
    optimizer = Optimizer(model, TrainingConfig(), torch.float16)
    step = Step(model, optimizer, ProcessGroup())
    rows = torch.randint(4, 13, (2, 5))
    batch = Batch.from_ids(rows, rows, rows)
    _, norm = step([batch], 10, 1e-3, 0.1)
    assert float(optimizer.loss_scale.scale) == 2**16
    reference = make().eval()
    loss = BatchLoss(reference)(batch, 0.1) / 10
    gradients = torch.autograd.grad(loss, list(reference.parameters()))
    assert float(norm) == pytest.approx(
        float(torch.stack([g.square().sum() for g in gradients]).sum().sqrt()), rel=0.05
    )
    before = {name: tensor.detach().clone() for name, tensor in optimizer.master.items()}
    optimizer.loss_scale.scale.fill_(2**24)
    step([batch], 10, 1e-3, 0.1)
    assert float(optimizer.loss_scale.scale) == 2**23
    assert all(torch.equal(before[name], tensor) for name, tensor in optimizer.master.items())


def test_the_scale_of_the_loss_doubles_after_a_while_without_overflow():
    scale = LossScale(torch.device("cpu"))
    scale.scale.fill_(8.0)
    scale.num_finite.fill_(1998.0)
    seen = []
    for is_finite in (True, True, True, False):
        scale.adapt(torch.tensor(is_finite))
        seen.append((float(scale.scale), float(scale.num_finite)))
    assert seen == [(8, 1999), (16, 0), (16, 1), (8, 0)]
