"""8-bit linear layers come close to those in fp32, and no row depends on another."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nmt.config.sections import ModelConfig
from nmt.model.kernels import int8
from nmt.model.kernels.int8 import Int8Linear, int8_is_exact, int8_speedup, quantize, quantize_if_faster
from nmt.model.transformer import Transformer

needs_exact_products = pytest.mark.skipif(not int8_is_exact(), reason="this processor's 8-bit products overflow")


@needs_exact_products
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


def test_zeros_stay_zeros():
    layer = Int8Linear(nn.Linear(8, 4, bias=False))
    assert torch.equal(layer(torch.zeros(2, 8)), torch.zeros(2, 4))


@needs_exact_products
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


@pytest.mark.parametrize("bad_rows", [1, 64])
def test_a_model_stays_in_fp32_where_8_bit_products_overflow(monkeypatch, caplog, bad_rows):
    exact = torch._int_mm

    def saturating(rows, weight):
        """As oneDNN without VNNI: rows are moved to 0 to 255, and pairs of products are added up in 16 bits."""
        if len(rows) != bad_rows:
            return exact(rows, weight)
        products = (rows.int() + 128)[:, :, None] * weight.int()  # [rows, in, out]
        pairs = products.unflatten(1, (-1, 2)).sum(2).clamp(-(2**15), 2**15 - 1)
        return pairs.sum(1) - 128 * weight.int().sum(0)

    monkeypatch.setattr(torch, "_int_mm", saturating)
    monkeypatch.setattr(int8, "int8_speedup", lambda model: 2.0)
    model = Transformer(ModelConfig(d_model=32, num_heads=2, d_ff=64), 50, 50)
    assert isinstance(quantize_if_faster([model])[0].output_proj, nn.Linear)
    assert [record.message for record in caplog.records] == [
        "8-bit products overflow on this processor: computing in fp32"
    ]
