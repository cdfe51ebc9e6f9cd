"""AdamW beside torch's own."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from nmt.training.update.adamw import AdamW

BETAS, EPS, LR = (0.9, 0.98), 1e-9, 1e-2


def make_parameters(seed=1):
    torch.manual_seed(seed)
    return {name: nn.Parameter(torch.randn(shape)) for name, shape in (("matrix", (5, 7)), ("bias", (7,)))}


def make_adamw(parameters):
    return AdamW(parameters, BETAS, EPS)


def set_gradients(parameters, update):
    torch.manual_seed(100 + update)
    for parameter in parameters.values():
        parameter.grad = torch.randn(parameter.shape)


def gradients(parameters):
    return [parameter.grad for parameter in parameters.values()]


FINITE = torch.tensor(True)


@pytest.mark.parametrize("fused", [True, False])
def test_updates_are_those_of_torchs_adamw_bit_for_bit(fused):
    ours, theirs = make_parameters(), make_parameters()
    adam = make_adamw(ours)
    adam.fused = fused  # False: as on devices without a fused kernel
    fixed = {"betas": BETAS, "eps": EPS, "weight_decay": 0.0, "fused": fused, "foreach": False}
    expected = torch.optim.AdamW(theirs.values(), lr=LR, **fixed)
    for update in range(1, 6):
        for parameters in (ours, theirs):
            set_gradients(parameters, update)
        for group in expected.param_groups:
            group["lr"] = LR / update
        expected.step()
        adam.step(gradients(ours), LR / update, FINITE)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert adam.state.keys() == {"matrix", "bias"}


@pytest.mark.parametrize("fused", [True, False])
def test_an_update_that_is_not_finite_changes_nothing(fused):
    parameters, untouched = make_parameters(), make_parameters()
    adam, other = make_adamw(parameters), make_adamw(untouched)
    adam.fused = other.fused = fused
    for update in (1, 2):
        for each in (parameters, untouched):
            set_gradients(each, update)
        adam.step(gradients(parameters), LR, FINITE)
        other.step(gradients(untouched), LR, FINITE)
        parameters["matrix"].grad.fill_(torch.nan)
        adam.step(gradients(parameters), LR, ~FINITE)
    assert all(torch.equal(parameters[name], untouched[name]) for name in parameters)
    assert all(torch.equal(adam.state[n][key], other.state[n][key]) for n in other.state for key in other.state[n])


@pytest.mark.slow
def test_no_update_imports_pytorchs_compiler():
    code = (
        "import sys, torch\n"
        "from nmt.config import ModelConfig, TrainingConfig\n"
        "from nmt.model.transformer import Transformer\n"
        "from nmt.training.update.optimizer import Optimizer\n"
        "model = Transformer(ModelConfig(d_model=8, num_heads=2, d_ff=8), 9, 9)\n"
        "optimizer = Optimizer(model, TrainingConfig(), torch.float32)\n"
        "ids = torch.full((1, 3), 5)\n"
        "optimizer.accumulate(torch.autograd.grad(model(ids, ids).sum(), list(model.parameters())))\n"
        "optimizer.step(1e-3)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
