"""The cheap dropout keeps what dropout promises."""

from __future__ import annotations

import pytest
import torch

from nmt.model.kernels.dropout import Dropout, add_dropped, dropped_relu


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_the_rate_and_the_expectation_are_right(rate):
    torch.manual_seed(1)
    states = torch.ones(1000, 1001)
    dropped = Dropout(rate).train()(states)
    assert float((dropped == 0).float().mean()) == pytest.approx(round(rate * 256) / 256, abs=2e-3)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=3e-3)


def test_all_elements_of_a_draw_are_alike():
    """Eight elements share one draw of 64 bits; none of the eight may be biased, nor follow its neighbor."""
    torch.manual_seed(1)
    dropped = (Dropout(0.25).train()(torch.ones(100_000, 8)) == 0).float()
    assert torch.allclose(dropped.mean(0), torch.full((8,), 0.25), atol=6e-3)
    covariance = torch.cov(dropped.T)
    assert float((covariance - covariance.diag().diag()).abs().max()) < 4e-3


def test_the_gradient_passes_where_the_value_did():
    states = torch.randn(7, 11, requires_grad=True)
    dropped = Dropout(0.5).train()(states)
    dropped.sum().backward()
    assert torch.equal(states.grad == 0, dropped == 0)
    assert torch.allclose(states.grad * states.detach(), dropped.detach())


def test_adding_a_dropped_branch_is_dropping_and_adding():
    states, branch = torch.randn(7, 11, requires_grad=True), torch.randn(7, 11, requires_grad=True)
    dropout = Dropout(0.3).train()
    outputs = []
    for combine in (lambda: states + dropout(branch), lambda: add_dropped(states, branch, dropout)):
        torch.manual_seed(4)
        output = combine()
        outputs.append((output, *torch.autograd.grad(output.square().sum(), (states, branch))))
    for plain, fused in zip(*outputs, strict=True):
        assert torch.allclose(plain, fused)


def test_dropping_after_relu_is_relu_and_dropping():
    inputs = torch.randn(7, 11, requires_grad=True)
    dropout = Dropout(0.3).train()
    outputs = []
    for combine in (lambda hidden: dropout(hidden.relu()), lambda hidden: dropped_relu(hidden, dropout)):
        torch.manual_seed(4)
        output = combine(inputs * 1.0)
        outputs.append((output, *torch.autograd.grad(output.square().sum(), inputs)))
    for plain, fused in zip(*outputs, strict=True):
        assert torch.allclose(plain, fused)


def test_the_gradient_of_dropping_after_relu_passes_where_the_value_is_positive():
    hidden = torch.tensor([[-1.0, 2.0, 0.0, 3.0] * 64], requires_grad=True)
    dropped = dropped_relu(hidden * 1.0, Dropout(0.5).train())
    dropped.sum().backward()
    assert torch.equal(hidden.grad, torch.where(dropped > 0, 2.0, 0.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_has_the_scale_of_the_value(dtype):
    dropout, states = Dropout(0.1).train(), torch.ones(4000, dtype=dtype, requires_grad=True)
    weights = torch.randn(4000, generator=torch.Generator().manual_seed(1)).to(dtype)
    dropped = dropped_relu(states * 1, dropout)
    (dropped * weights).sum().backward()
    assert states.grad is not None
    assert torch.equal(dropped.detach() * weights, states.grad)


def test_the_same_seed_drops_the_same():
    outputs = []
    for _ in range(2):
        torch.manual_seed(9)
        outputs.append(Dropout(0.2).train()(torch.ones(5, 13)))
    assert torch.equal(*outputs)


def test_nothing_is_dropped_in_evaluation_or_at_rate_zero():
    states = torch.randn(3, 5)
    assert torch.equal(Dropout(0.5).eval()(states), states)
    assert torch.equal(Dropout(0.0).train()(states), states)
