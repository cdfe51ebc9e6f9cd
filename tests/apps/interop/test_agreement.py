"""What counts as agreement between two engines, and what does not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from nmt.apps.interop.agreement import (
    Agreement,
    compare,
    is_near_tie,
    require_agreement,
)
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.config import SearchOptions
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.torch_engine import TorchEngine

GOOD = Agreement(sentences=7, equal=5, near_ties=2, different=0, largest_score_difference=2e-5)


@pytest.fixture(scope="module")
def engine(digits_run) -> TorchEngine:
    run = RunDir(digits_run)
    return TorchEngine.load([run], TokenizerPair.load(run.tokenizer), "cpu")


@pytest.fixture(scope="module")
def sources(digits_run) -> list[list[int]]:
    run = RunDir(digits_run)
    return TokenizerPair.load(run.tokenizer).src.encode_batch(run.read_pairs("test")[0][:7])


def test_an_engine_agrees_with_itself(engine, sources):
    assert compare(engine, engine, sources) == Agreement(7, 7, 0, 0, 0.0)


def test_another_model_does_not_agree(engine, sources, digits_run):
    run = RunDir(digits_run)
    other = TorchEngine.load([run], TokenizerPair.load(run.tokenizer), "cpu")
    with torch.no_grad():
        other.models[0].output_proj.weight.mul_(-1)
    found = compare(engine, other, sources)
    assert (found.equal, found.different) == (0, 7)
    with pytest.raises(RunError, match="the score of a translation differs by"):
        require_agreement(found, reduced=False)


def test_outputs_that_part_at_equally_probable_tokens_are_a_near_tie(digits_run, sources):
    run = RunDir(digits_run)
    tokenizers = TokenizerPair.load(run.tokenizer)
    engine = TorchEngine.load([run], tokenizers, "cpu")
    (found,) = engine.search(sources[:1], SearchOptions())[0]
    twin = tokenizers.tgt.never_generated[-1]
    weight = engine.models[0].output_proj.weight
    with torch.no_grad():
        weight[twin] = weight[found.ids[1]]
    tied = found._replace(ids=[found.ids[0], twin, *found.ids[2:]])
    other = found._replace(ids=[found.ids[0], found.ids[0] ^ 1, *found.ids[2:]])
    shorter = found._replace(ids=found.ids[:2])  # eos there, where the other goes on
    assert is_near_tie(engine, sources[0], found, tied)
    assert not is_near_tie(engine, sources[0], found, other)
    assert not is_near_tie(engine, sources[0], found, shorter)
    assert not is_near_tie(engine, sources[0], found, shorter._replace(finished=False))


@pytest.mark.parametrize(
    ("change", "reduced", "message"),
    [
        ({}, False, None),
        ({"largest_score_difference": 1.1e-3}, False, "the score of a translation differs by 0.0011, more than 0.001"),
        ({"near_ties": 1, "different": 1}, False, "1 of 7 translations differ, and not in a near-tie"),
        ({"largest_score_difference": math.nan}, False, "differs by nan"),
        ({"largest_score_difference": 3.0, "different": 2}, True, None),
        ({"largest_score_difference": math.nan}, True, "differs by nan"),
        ({"largest_score_difference": math.inf}, True, "differs by inf"),
    ],
)
def test_what_is_asked_for(change, reduced, message):
    found = replace(GOOD, **change)
    if message is None:
        require_agreement(found, reduced=reduced)
        return
    with pytest.raises(RunError, match=message):
        require_agreement(found, reduced=reduced)
