"""The loss counts real tokens alone, and the chunked one is the plain one."""

from __future__ import annotations

import pytest
import torch

from nmt.base.special_tokens import PAD_ID
from nmt.data.store.batching import Batch
from nmt.model.kernels import chunked_loss
from nmt.model.kernels.chunked_loss import (
    projected_token_loss,
    token_loss,
    with_bias,
)


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(5)
    tgt_out = torch.randint(2, 11, (3, 5))
    tgt_out[0, 3:] = PAD_ID
    return torch.randn(3, 5, 7, requires_grad=True), torch.randn(11, 7, requires_grad=True), tgt_out


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_padding_counts_nothing(smoothing):
    states, weight, tgt_out = batch()
    logits = states @ weight.T
    whole, count = token_loss(logits, tgt_out, label_smoothing=smoothing)
    parts = [token_loss(logits[i, :n], tgt_out[i, :n], label_smoothing=smoothing) for i, n in enumerate((3, 5, 5))]
    assert int(count) == 13
    assert torch.allclose(whole, sum(part for part, _ in parts))


def test_label_smoothing_follows_its_formula():
    logits, target = torch.randn(1, 11), torch.tensor([4])
    log_probs = logits.log_softmax(-1)
    expected = -(0.9 * log_probs[0, 4] + 0.1 * log_probs.mean())
    assert torch.allclose(token_loss(logits[None], target[None], label_smoothing=0.1)[0], expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk_rows", [1, 4, 100])
def test_the_chunked_loss_and_its_gradients_are_those_of_all_logits_at_once(smoothing, chunk_rows, monkeypatch):
    monkeypatch.setattr(chunked_loss, "CHUNK_ROWS", chunk_rows)
    states, weight, tgt_out = batch()
    plain, plain_count = token_loss(states @ weight.T, tgt_out, label_smoothing=smoothing)
    plain_grads = torch.autograd.grad(plain / 7, (states, weight))
    real = Batch.from_ids(tgt_out, tgt_out, tgt_out).tgt_real
    chunked = projected_token_loss(states, weight, tgt_out, real, smoothing)
    grads = torch.autograd.grad(chunked / 7, (states, weight))
    assert len(real) == int(plain_count)
    assert torch.allclose(chunked, plain, rtol=1e-5)
    for ours, theirs in zip(grads, plain_grads, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_the_chunked_loss_of_a_projection_with_a_bias_is_that_of_its_logits():
    states, weight, tgt_out = batch()
    projection = torch.nn.Linear(weight.size(1), weight.size(0))
    parameters = (states, projection.weight, projection.bias)
    plain, _ = token_loss(projection(states), tgt_out, label_smoothing=0.1)
    plain_grads = torch.autograd.grad(plain, parameters)
    real = Batch.from_ids(tgt_out, tgt_out, tgt_out).tgt_real
    chunked = projected_token_loss(*with_bias(states, projection), tgt_out, real, 0.1)
    assert torch.allclose(chunked, plain, rtol=1e-5)
    for ours, theirs in zip(torch.autograd.grad(chunked, parameters), plain_grads, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)


def test_the_chunked_loss_takes_bf16_within_its_precision():
    states, weight, tgt_out = batch()
    plain, _ = token_loss(states @ weight.T, tgt_out, label_smoothing=0.1)
    real = Batch.from_ids(tgt_out, tgt_out, tgt_out).tgt_real
    reduced = projected_token_loss(states.bfloat16(), weight.bfloat16(), tgt_out, real, 0.1)
    reduced.backward()
    assert torch.allclose(reduced, plain, rtol=0.02)
    assert weight.grad is not None


def test_rows_of_a_block_without_a_target_have_no_loss_and_no_gradient():
    states, weight = torch.randn(1, 9, 7, requires_grad=True), torch.randn(11, 7, requires_grad=True)
    targets = torch.randint(2, 11, (1, 9))
    targets[0, 4:6] = PAD_ID
    real = (targets != PAD_ID).flatten().nonzero().squeeze(1)
    losses = [projected_token_loss(states, weight, targets, each, 0.1) for each in (real, None)]
    expected, found = (torch.autograd.grad(loss, (states, weight)) for loss in losses)
    assert torch.allclose(*losses)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(expected, found, strict=True))
    assert not found[0][0, 4:6].any()


def test_the_chunked_loss_in_bf16_has_the_gradients_of_all_logits_at_once_whatever_the_number_of_rows(monkeypatch):
    monkeypatch.setattr(chunked_loss, "CHUNK_ROWS", 64)
    for count in (1, 63, 64, 65, 130):
        states = torch.randn(1, count, 7).bfloat16().requires_grad_()
        weight = torch.randn(11, 7).bfloat16().requires_grad_()
        targets = torch.randint(2, 11, (1, count))
        plain, _ = token_loss(states.float() @ weight.float().T, targets, label_smoothing=0.1)
        loss = projected_token_loss(states, weight, targets, torch.arange(count), 0.1)
        assert torch.allclose(loss, plain, rtol=0.02)
        expected = torch.autograd.grad(plain, (states, weight))
        for ours, theirs in zip(torch.autograd.grad(loss, (states, weight)), expected, strict=True):
            assert torch.allclose(ours.float(), theirs.float(), atol=0.02 * theirs.abs().max().item())


@pytest.mark.parametrize(("vocab_size", "rows"), [(100, 8192), (32_000, 8192), (100_000, 2684), (1_000_000, 1024)])
def test_a_gpu_holds_more_rows_of_logits_at_once_but_at_most_a_gibibyte(vocab_size, rows):
    assert chunked_loss.chunk_rows(torch.empty(vocab_size, 2, device="meta")) == rows
    assert chunked_loss.chunk_rows(torch.empty(vocab_size, 2)) == 1024
