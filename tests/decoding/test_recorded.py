"""Recorded steps give what plain ones give.

A recording of traced operations stands for a CUDA graph here: as in one, numbers of Python stay what they were when it
was made, tensors are those it was made with, and nothing but the operations happens again.
"""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from nmt.data.tokenizer import BOS_ID, PAD_ID
from nmt.decoding.constraints import Constraints
from nmt.decoding.decoder import Decoder
from nmt.decoding.greedy import greedy_search
from nmt.decoding.options import SearchOptions
from nmt.decoding.recorded import STEPS_BEFORE, RecordedSteps
from nmt.model.cache import FixedCache
from tests.model.test_transformer import KINDS, ids, make

LONG = 36  # more positions than are stored at first


class Tracer:
    """Records as `record_graph` does, from traced operations; `made` counts."""

    def __init__(self):
        self.made = 0

    def __call__(self, step, last):
        self.made += 1
        kept = [(cache, cache._position.clone(), cache._stored) for cache in self.caches]
        stored = [[pair.clone() for layer in each for pair in layer] for _, _, each in kept]
        operations = make_fx(lambda last: step(last))(
            last
        )  # which makes the step: undone, since a graph that is recorded computes nothing
        for (cache, position, layers), values in zip(kept, stored, strict=True):
            cache._position.copy_(position)
            for tensor, value in zip((pair for layer in layers for pair in layer), values, strict=True):
                tensor.copy_(value)
        output = torch.empty(len(last), 29)
        return lambda: output.copy_(operations(last)), output


def recorded(decoder):
    """`decoder` with fixed caches and recorded steps, and its recorder."""
    record = Tracer()
    decoder.caches = record.caches = [
        FixedCache(cache.cross, cache.cross_mask, cache.max_len, hypotheses=cache.hypotheses)
        for cache in decoder.caches
    ]
    decoder._step = RecordedSteps(decoder._plain_step, decoder.caches, record)
    return decoder, record


def sources():
    src = ids(5, 9)
    src[1, 4:] = PAD_ID
    return src


@pytest.mark.parametrize("kind", [kind for kind in KINDS if (kind["norm"], kind["norm_position"]) == ("layer", "pre")])
@torch.inference_mode()
def test_recorded_steps_equal_plain_ones_as_storage_grows(kind):
    model = make(**kind, max_src_len=LONG, max_tgt_len=LONG)
    model.least_rows = 1
    src = sources()
    plain, (fixed, record) = Decoder([model], src, LONG), recorded(Decoder([model], src, LONG))
    last = torch.full((5,), BOS_ID)
    for _ in range(LONG):
        expected, found = plain.step(last), fixed.step(last)
        assert torch.allclose(expected, found, atol=1e-4)
        last = expected.argmax(1)
    assert record.made == 2  # with room for 32 positions, and for all


@torch.inference_mode()
def test_recorded_steps_equal_plain_ones_as_sentences_leave_and_hypotheses_are_copied():
    model = make(max_src_len=LONG, max_tgt_len=LONG)
    model.least_rows = 1
    src = sources()
    plain, (fixed, record) = Decoder([model], src, LONG, 2), recorded(Decoder([model], src, LONG, 2))
    last = torch.full((10,), BOS_ID)
    for step in range(20):
        expected, found = plain.step(last), fixed.step(last)
        assert torch.allclose(expected, found, atol=1e-4)
        last = expected.topk(2, dim=1).indices[torch.arange(len(last)), torch.arange(len(last)) % 2]
        for decoder in (plain, fixed):
            decoder.copy_rows(torch.tensor([0]), torch.tensor([1]))
        last[1] = last[0]
        if step == 10:
            running = torch.tensor([True, False, False, True, False])
            rows = [decoder.let_leave(running, 2) for decoder in (plain, fixed)]
            assert torch.equal(*rows)
            last = last[rows[0]]
    assert record.made == 2


@torch.inference_mode()
def test_few_steps_are_not_recorded():
    model = make()
    decoder, record = recorded(Decoder([model], sources(), STEPS_BEFORE))
    for _ in range(STEPS_BEFORE):
        decoder.step(torch.full((decoder.num_sentences,), BOS_ID))
    assert record.made == 0


@torch.inference_mode()
def test_where_nothing_can_be_recorded_steps_are_made_as_they_are():
    def refuse(step, last):
        raise RuntimeError("operation not permitted when stream is capturing")

    model, src = make(), sources()
    plain, (fixed, _) = Decoder([model], src, 8), recorded(Decoder([model], src, 8))
    fixed._step.record = refuse
    last = torch.full((plain.num_sentences,), BOS_ID)
    for _ in range(8):
        expected, found = plain.step(last), fixed.step(last)
        assert torch.allclose(expected, found, atol=1e-4)
        last = expected.argmax(1)


def test_a_search_with_recorded_steps_finds_what_one_without_finds():
    model = make(max_src_len=LONG, max_tgt_len=LONG)
    src, limits = sources(), [LONG, 7, LONG, 23, LONG]
    found = []
    for decoder in (Decoder([model], src, LONG), recorded(Decoder([model], src, LONG))[0]):
        constraints = Constraints(SearchOptions(), [], (), decoder.num_sentences, decoder.device)
        found.append(greedy_search(decoder, limits, constraints))
    plain, again = found
    assert [each.ids for each in plain] == [each.ids for each in again]
    assert [each.score for each in plain] == pytest.approx([each.score for each in again], abs=1e-3)
