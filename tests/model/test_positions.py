"""Rotary positions turn pairs of features by angles proportional to position, forward and in the gradient."""

from __future__ import annotations

import math

import pytest
import torch

from nmt.model.positions import Rotary

HEAD_SIZE, MAX_LEN = 6, 9


@pytest.fixture(scope="module")
def rotary():
    return Rotary(HEAD_SIZE, MAX_LEN).double()


def test_features_are_turned_as_complex_numbers(rotary):
    heads = torch.randn(2, 3, MAX_LEN, HEAD_SIZE, dtype=torch.float64)
    first, second = heads.chunk(2, dim=-1)
    angles = torch.tensor(
        [[position * 10000 ** (-2 * i / HEAD_SIZE) for i in range(HEAD_SIZE // 2)] for position in range(MAX_LEN)]
    )
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles).to(torch.complex128)
    assert torch.allclose(rotary(heads, 0), torch.cat([turned.real, turned.imag], dim=-1), atol=1e-6)


def test_offset_is_the_position_of_the_first_state_or_of_each(rotary):
    heads = torch.randn(1, 2, MAX_LEN, HEAD_SIZE, dtype=torch.float64)
    whole = rotary(heads, 0)
    assert torch.equal(rotary(heads[:, :, 4:], 4), whole[:, :, 4:])
    chosen = torch.tensor([7, 0, 7])
    assert torch.equal(rotary(heads[:, :, chosen], chosen), whole[:, :, chosen])


def test_product_depends_on_the_distance_alone(rotary):
    query, key = torch.randn(2, 1, 1, 1, HEAD_SIZE, dtype=torch.float64)
    products = [(rotary(query, at) * rotary(key, at + 3)).sum().item() for at in range(MAX_LEN - 3)]
    assert all(math.isclose(product, products[0], abs_tol=1e-6) for product in products)


def test_gradient_is_that_of_the_rotation(rotary):
    heads = torch.randn(2, 4, 3, HEAD_SIZE, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda heads: rotary(heads.transpose(1, 2), 5), heads)
