"""The parts, called as a student of Dive into Deep Learning (Zhang et al.) would type them from memory.

Its chapter on encoders and decoders pads with a token of its own, passes valid lengths everywhere, and trains on a loss
per sequence.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import nmt.model
from nmt.base.errors import NmtError
from nmt.model import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    DecoderLayer,
    EncoderLayer,
    GaussianScore,
    ModelConfig,
    MultiHeadAttention,
    Transformer,
    attend,
    masked_softmax,
    sequence_mask,
    token_loss,
)

V = 23


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(2)
    return Transformer(ModelConfig(d_model=24, num_heads=3, d_ff=40, encoder_layers=1, decoder_layers=1), V, V)


def test_what_follows_the_valid_lengths_is_replaced():
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert sequence_mask(ids, torch.tensor([1, 2])).tolist() == [[1, 0, 0], [4, 5, 0]]
    assert sequence_mask(ids, [3, 0], value=-1).tolist() == [[1, 2, 3], [-1, -1, -1]]
    states = sequence_mask(torch.ones(2, 3, 4, 5), torch.tensor([1, 2]), -1.0)
    assert states[:, :, 0, 0].tolist() == [[1, -1, -1], [1, 1, -1]]
    assert ids[0, 1] == 2  # of a copy
    for lengths in ([1, 2, 3], torch.tensor([1.0, 2.0]), 2, [[1, 2, 3], [2, 3, 3]]):
        with pytest.raises(NmtError, match=r"integer lengths \[B\]"):
            sequence_mask(ids, lengths)


def test_the_names_of_the_parts_are_listed():
    assert dir(nmt.model) == sorted(nmt.model.__all__)


def test_sizes_and_a_rate_are_given_by_place():
    states = torch.ones(2, 4, 100)
    output, _ = MultiHeadAttention(100, 5, 0.5)(states, torch.ones(2, 6, 100), torch.tensor([3, 2]))
    assert output.shape == states.shape
    assert MultiHeadAttention(100, 5, 0.5).dropout.rate == 0.5


def test_lengths_may_be_a_list():
    scores = torch.randn(2, 2, 4)
    for lengths in ([2, 3], [[1, 3], [2, 4]]):
        assert torch.equal(masked_softmax(scores, lengths), masked_softmax(scores, torch.tensor(lengths)))
    assert masked_softmax(scores, [2, 3])[0, :, 2:].abs().sum() == 0


def test_attention_drops_weights_at_a_rate():
    query, key, value = torch.randn(2, 5, 8), torch.randn(2, 7, 8), torch.ones(2, 7, 3)
    plain, weights = attend(query, key, value, [3, 7], dropout=0.0)
    assert torch.allclose(plain, torch.ones_like(plain))
    torch.manual_seed(1)
    dropped, same = attend(query, key, value, [3, 7], dropout=0.5)
    assert torch.equal(weights, same)
    assert not torch.allclose(dropped, plain)
    torch.manual_seed(1)
    assert torch.equal(attend(query, key, value, [3, 7], dropout=nn.Dropout(0.5))[0], dropped)


def test_a_gaussian_score_takes_the_size_of_the_heads_as_the_others_do():
    assert GaussianScore(8).width.item() == pytest.approx(8**-0.25)
    assert GaussianScore().width.item() == 1
    assert GaussianScore(8, initial_width=2).width.item() == 2


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_a_layer_needs_nothing_but_its_sizes_and_valid_lengths(positions):
    config = ModelConfig(d_model=24, num_heads=3, d_ff=40, positions=positions, dropout=0.0)
    layer, states = EncoderLayer(config).eval(), torch.randn(2, 5, 24)
    assert layer(states).shape == (2, 5, 24)
    with torch.inference_mode():
        first = layer(states, torch.tensor([3, 5]))
        states[0, 3:] = 9.0
        assert torch.equal(layer(states, torch.tensor([3, 5]))[0, :3], first[0, :3])
        assert not torch.equal(layer(states)[0, :3], first[0, :3])
    assert (layer.self_attention.rotary is None) is (positions == "sinusoidal")
    assert (DecoderLayer(config).self_attention.rotary is None) is (positions == "sinusoidal")


def test_lengths_of_the_sources_do_for_a_padding_token_of_another_id(model):
    model.eval()
    src, tgt = torch.randint(4, V, (2, 6)), torch.randint(4, V, (2, 4))
    padded = src.clone()
    padded[0, 4:] = PAD_ID
    with torch.inference_mode():
        assert torch.equal(model(src, tgt, torch.tensor([4, 6])), model(padded, tgt))
        memory = model.encode(src, lengths=torch.tensor([4, 6]))
        assert torch.equal(model.decode(tgt, model.start_cache(memory)), model(padded, tgt))


def test_the_loss_of_each_token_and_sequence(model):
    logits, labels = torch.randn(2, 4, V), torch.randint(4, V, (2, 4))
    total, count = token_loss(logits, labels, torch.tensor([2, 4]))
    losses, counts = token_loss(logits, labels, torch.tensor([2, 4]), reduction="none")
    assert losses.shape == (2, 4)
    assert losses[0, 2:].tolist() == [0, 0]
    assert counts.tolist() == [2, 4]
    assert count == 6
    assert losses.sum() == pytest.approx(total.item(), rel=1e-6)
    by_hand = -logits[1].log_softmax(-1)[range(4), labels[1]].sum()
    assert losses[1].sum().item() == pytest.approx(by_hand.item(), rel=1e-6)
    uniform, _ = token_loss(torch.zeros(1, 4, V), labels[:1], torch.tensor([3]), label_smoothing=0.1, reduction="none")
    assert uniform[0].tolist() == pytest.approx([math.log(V)] * 3 + [0])
    with pytest.raises(NmtError, match=r"integer lengths \[B\]"):
        token_loss(logits, labels, 0.1)  # a rate of smoothing needs its name


def test_the_loop_of_the_chapter_trains_and_predicts(model):
    """A batch of sources, targets and their valid lengths; teacher forcing; then one token after the other."""
    torch.manual_seed(0)
    src = torch.randint(4, V, (8, 5))
    lengths = torch.tensor([5, 4, 3, 5, 2, 4, 5, 3])
    tgt = torch.full((8, 6), PAD_ID)
    for row, length in enumerate(lengths.tolist()):
        tgt[row, :length], tgt[row, length] = src[row, :length], EOS_ID
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    model.train()
    history = []
    for _ in range(12):
        optimizer.zero_grad()
        bos = torch.full((len(src), 1), BOS_ID)
        decoder_input = torch.cat([bos, tgt[:, :-1]], 1)
        predicted = model(src, decoder_input, lengths)
        losses, counts = token_loss(predicted, tgt, lengths + 1, reduction="none")
        loss = losses.sum(-1) / counts  # of each sequence
        loss.sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        history.append(loss.mean().item())
    assert history[-1] < history[0]
    model.eval()
    cache = model.start_cache(model.encode(src[:1], lengths[:1]), max_len=6)
    token, output = torch.tensor([[BOS_ID]]), []
    for _ in range(6):  # with gradients, as the chapter does it
        token = model.decode(token, cache).argmax(dim=2)
        output.append(token.item())
    with torch.no_grad():
        given = torch.tensor([[BOS_ID, *output[:-1]]])
        assert model(src[:1], given, lengths[:1]).argmax(2)[0].tolist() == output
    with pytest.raises(NmtError, match=r"room for 6 targets, and was given 7\n  give it room for all of them"):
        model.decode(token, cache)
