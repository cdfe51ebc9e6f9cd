"""8-bit linear layers come close to those in fp32, and no row depends on another."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nmt.config.model import ModelConfig
from nmt.decoding import int8
from nmt.decoding.int8 import Int8Linear, int8_speedup, quantize
from nmt.model.transformer import Transformer


def test_an_8_bit_layer_comes_close_to_the_layer_it_was():
    torch.manual_seed(1)
    for bias in (True, False):
        linear = nn.Linear(64, 48, bias=bias)
        states = torch.randn(5, 7, 64)
        exact, rounded = linear(states), Int8Linear(linear)(states)
        assert rounded.shape == exact.shape
        assert (rounded - exact).norm() < 0.02 * exact.norm()


def test_a_row_does_not_depend_on_the_rows_beside_it_to_the_last_bit():
    torch.manual_seed(1)
    layer = Int8Linear(nn.Linear(64, 48))
    states = torch.randn(70, 64)
    states[3] *= 1000  # which would spoil a scale that all rows share
    together = layer(states)
    for count in (1, 2, 7, 33):
        assert torch.equal(layer(states[:count]), together[:count])


@pytest.mark.parametrize("num_rows", [1, 64])
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_the_largest_numbers_do_not_overflow(num_rows, signs):
    linear = nn.Linear(64, 48, bias=False)
    nn.init.constant_(linear.weight, signs[0])
    states = torch.full((num_rows, 64), float(signs[1]))
    assert torch.allclose(Int8Linear(linear)(states), linear(states), rtol=1e-6)


def test_zeros_stay_zeros():
    layer = Int8Linear(nn.Linear(8, 4, bias=False))
    assert torch.equal(layer(torch.zeros(2, 8)), torch.zeros(2, 4))


def test_every_linear_layer_of_a_model_is_replaced_and_the_embeddings_stay():
    config = ModelConfig(d_model=32, num_heads=2, d_ff=64, encoder_layers=1, decoder_layers=1)
    model = Transformer(config, 50, 50).eval()
    src, tgt = torch.randint(4, 50, (3, 6)), torch.randint(4, 50, (3, 5))
    embedding = model.tgt_embedding.tokens.weight.clone()
    exact = model(src, tgt)
    rounded = quantize(model)(src, tgt)
    assert not any(isinstance(module, nn.Linear) for module in model.modules())
    assert torch.equal(model.tgt_embedding.tokens.weight, embedding)
    assert (rounded - exact).norm() < 0.05 * exact.norm()


def test_the_trial_compares_both_forms_of_a_layer(monkeypatch):
    seconds = {nn.Linear: 0.3, Int8Linear: 0.1}
    monkeypatch.setattr(int8, "_fastest_seconds", lambda layer, rows: seconds[type(layer)])
    assert int8_speedup(Transformer(ModelConfig(d_model=32, num_heads=2, d_ff=64), 50, 50)) == pytest.approx(3.0)
    monkeypatch.undo()
    assert int8_speedup(Transformer(ModelConfig(d_model=32, num_heads=2, d_ff=64), 50, 50)) > 0
