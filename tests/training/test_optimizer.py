"""Schedules and the fp32 master copy."""

from __future__ import annotations

import pytest
import torch

from nmt.config import ModelConfig, TrainingConfig
from nmt.model.transformer import Transformer
from nmt.training.optimizer import Optimizer, learning_rate


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("inverse_sqrt", [0.5, 1.0, (4 / 16) ** 0.5, (4 / 20) ** 0.5]),
        ("linear", [0.5, 1.0, 0.25, 0.0]),
        ("cosine", [0.5, 1.0, 0.1464466, 0.0]),
    ],
)
def test_schedules_warm_up_and_decay(schedule, expected):
    config = TrainingConfig(lr=1.0, warmup_updates=4, max_updates=20, schedule=schedule)
    assert [learning_rate(config, update) for update in (2, 4, 16, 20)] == pytest.approx(expected)


def test_no_warmup_starts_at_the_peak():
    config = TrainingConfig(lr=1.0, warmup_updates=0, max_updates=20)
    assert learning_rate(config, 1) == 1.0


def make() -> Transformer:
    torch.manual_seed(1)
    return Transformer(ModelConfig(d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1), 13, 13)


def one_update(model, optimizer, update):
    src = torch.tensor([[5, 6, 7]])
    model(src, src).float().square().mean().backward()
    optimizer.accumulate()
    return optimizer.step(update)


def test_bf16_keeps_steps_that_are_too_small_for_it():
    """Steps of 1e-5 on weights near 0.25 are lost to bf16's rounding, but not to the master copy."""
    model = make()
    optimizer = Optimizer(model, TrainingConfig(lr=1e-5, warmup_updates=0, clip_norm=0), torch.bfloat16)
    name, weight = next(iter(optimizer.model_parameters.items()))
    before = optimizer.master[name].clone()
    for update in range(1, 6):
        one_update(model, optimizer, update)
    moved = (optimizer.master[name] - before).detach().abs()
    assert float(moved.max()) > 1e-6
    assert torch.equal(weight, optimizer.master[name].bfloat16())


@pytest.mark.parametrize(("limit", "applied"), [(1e-3, 1e-3), (0.0, None)])
def test_gradients_are_clipped_to_the_norm_or_not_at_all(limit, applied, monkeypatch):
    model = make()
    optimizer = Optimizer(model, TrainingConfig(lr=1e-3, warmup_updates=0, clip_norm=limit), torch.float32)
    seen = []
    grads = lambda: [p.grad for p in optimizer.master.values() if p.grad is not None]  # noqa: E731
    monkeypatch.setattr(optimizer.adam, "step", lambda: seen.append(float(torch.nn.utils.get_total_norm(grads()))))
    norm = float(one_update(model, optimizer, 1))
    assert norm > 1e-3
    assert seen == [pytest.approx(applied or norm, rel=1e-4)]


def test_bf16_leaves_the_table_of_positions_in_fp32():
    model = make()
    Optimizer(model, TrainingConfig(), torch.bfloat16)
    assert model.output_proj.weight.dtype == torch.bfloat16
    assert model.src_embedding.sinusoidal.dtype == torch.float32


def test_weight_decay_spares_embeddings_norms_and_biases():
    model = make()
    decayed = Optimizer(model, TrainingConfig(weight_decay=0.1), torch.float32).adam.param_groups[0]["params"]
    names = {name for name, parameter in model.named_parameters() if any(parameter is p for p in decayed)}
    assert all(name.endswith("proj.weight") and "embedding" not in name for name in names)
    assert "encoder_layers.0.feed_forward.input_proj.weight" in names
