"""Schedules and the fp32 master copy."""

from __future__ import annotations

import copy

import pytest
import torch

from nmt.config import ModelConfig, TrainingConfig
from nmt.model.transformer import Transformer
from nmt.training.optimiser import Optimiser, learning_rate


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


def make(dtype) -> Transformer:
    torch.manual_seed(1)
    return Transformer(ModelConfig(d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1), 13, 13).to(
        dtype
    )


def one_update(model, optimiser, update):
    src = torch.tensor([[5, 6, 7]])
    model(src, src).float().square().mean().backward()
    optimiser.collect()
    return optimiser.step(update)


def test_bf16_keeps_steps_that_are_too_small_for_it():
    """Steps of 1e-5 on weights near 0.25 are lost to bf16's rounding, but not to the master copy."""
    model = make(torch.bfloat16)
    optimiser = Optimiser(model, TrainingConfig(lr=1e-5, warmup_updates=0, clip_norm=0))
    name, weight = next(iter(optimiser.model_parameters.items()))
    before = optimiser.master[name].clone()
    for update in range(1, 6):
        one_update(model, optimiser, update)
    moved = (optimiser.master[name] - before).detach().abs()
    assert float(moved.max()) > 1e-6
    assert torch.equal(weight, optimiser.master[name].bfloat16())


def test_gradients_are_clipped_to_the_norm():
    model = make(torch.float32)
    optimiser = Optimiser(model, TrainingConfig(lr=1e-3, warmup_updates=0, clip_norm=1e-3))
    before = copy.deepcopy(model.state_dict())
    assert float(one_update(model, optimiser, 1)) > 1e-3
    assert any(not torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_weight_decay_spares_embeddings_norms_and_biases():
    model = make(torch.float32)
    decayed = Optimiser(model, TrainingConfig(weight_decay=0.1)).adam.param_groups[0]["params"]
    names = {name for name, parameter in model.named_parameters() if any(parameter is p for p in decayed)}
    assert all(name.endswith("proj.weight") and "embedding" not in name for name in names)
    assert "encoder_layers.0.feed_forward.input_proj.weight" in names
