"""The weights of every layer and head are those that the model uses."""

from __future__ import annotations

import pytest
import torch

from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
from nmt.config import ModelConfig
from nmt.model.recording import attention_weights
from nmt.model.transformer import Transformer

B, S, T, H, V = 2, 7, 5, 3, 11
ENCODER_LAYERS, DECODER_LAYERS = 2, 4
SRC = torch.tensor([[4, 5, 6, 7, 8, 9, EOS_ID], [4, 5, 6, EOS_ID, PAD_ID, PAD_ID, PAD_ID]])
TGT_IN = torch.tensor([[BOS_ID, 5, 6, 7, 8], [BOS_ID, 5, 6, 7, 8]])


@pytest.fixture(scope="module", params=["scaled_dot_product", "additive", "gaussian"])
def model(request):
    torch.manual_seed(1)
    config = ModelConfig(
        d_model=12,
        num_heads=H,
        d_ff=13,
        encoder_layers=ENCODER_LAYERS,
        decoder_layers=DECODER_LAYERS,
        attention=request.param,
    )
    return Transformer(config, V, V).eval()


def test_every_layer_and_head_gives_its_weights(model):
    weights = attention_weights(model, SRC, TGT_IN)
    assert weights.encoder.shape == (ENCODER_LAYERS, B, H, S, S)
    assert weights.decoder.shape == (DECODER_LAYERS, B, H, T, T)
    assert weights.cross.shape == (DECODER_LAYERS, B, H, T, S)
    for each in weights:
        torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:-1]))


def test_no_weight_lies_on_padding_or_in_the_future(model):
    weights = attention_weights(model, SRC, TGT_IN)
    assert not weights.encoder[:, 1, :, :, 4:].any()
    assert not weights.cross[:, 1, :, :, 4:].any()
    assert not weights.decoder.triu(1).any()
    assert (weights.cross[:, 0] > 0).all()


def test_the_model_computes_the_same_after_its_weights_were_read_and_collects_none(model):
    results = []
    handle = model.encoder_layers[0].self_attention.register_forward_hook(lambda *given: results.append(given[-1]))
    with torch.inference_mode():
        before = model(SRC, TGT_IN)
        attention_weights(model, SRC, TGT_IN)
        assert torch.equal(model(SRC, TGT_IN), before)
    handle.remove()
    assert [weights is None for _, weights in results] == [True, False, True]
