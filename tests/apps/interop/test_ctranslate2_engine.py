"""The engine of the proof: the same meaning of every option that it has."""

from __future__ import annotations

import pytest

from nmt.apps.interop.ctranslate2_engine import CTranslate2Engine
from nmt.artifacts.rundir import RunDir
from nmt.config import SearchOptions
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.torch_engine import TorchEngine

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")

NEAR = 0.02  # nats


@pytest.fixture(scope="module")
def tokenizers(digits_run) -> TokenizerPair:
    return TokenizerPair.load(RunDir(digits_run).tokenizer)


@pytest.fixture(scope="module")
def engine(ours, digits_export, tokenizers) -> CTranslate2Engine:
    return CTranslate2Engine(digits_export, ours.models[0], tokenizers)


@pytest.fixture(scope="module")
def ours(digits_run, tokenizers) -> TorchEngine:
    return TorchEngine.load([RunDir(digits_run)], tokenizers, "cpu")


@pytest.fixture(scope="module")
def sources(digits_run, tokenizers) -> list[list[int]]:
    return tokenizers.src.encode_batch(RunDir(digits_run).read_pairs("test")[0])


def outputs(found):
    return [[(hypothesis.ids, hypothesis.finished) for hypothesis in hypotheses] for hypotheses in found]


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(),
        SearchOptions(max_len_factor=0.5, max_len_offset=3),  # some end in time, some do not
        SearchOptions(max_len_factor=0.5, max_len_offset=1, beam_size=4),
        SearchOptions(min_len=9, no_repeat_ngram=2),
        SearchOptions(min_len=12),
    ],
)
def test_the_search_finds_what_the_run_finds(engine, ours, sources, options):
    a, b = ours.search(sources, options), engine.search(sources, options)
    assert outputs(a) == outputs(b)
    for (first,), (second,) in zip(a, b, strict=True):
        assert first.score - 1e-4 <= second.score  # scaled up: the tokens that may not come have no share
    assert engine.search([], options) == []


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_the_beam_finds_what_the_beam_of_the_run_finds(engine, ours, sources, length_penalty):
    """But for hypotheses that the run scores alike: which of two near-ties stays in the beam is nobody's promise."""
    options = SearchOptions(beam_size=4, length_penalty=length_penalty)
    a, b = ([found.ids for (found,) in engine_.search(sources, options)] for engine_ in (ours, engine))
    for source, *both in zip(sources, a, b, strict=True):
        first, second = (sum(scores) for scores in ours.score([source] * 2, both))
        assert first == pytest.approx(second, abs=NEAR)
    assert sum(x != y for x, y in zip(a, b, strict=True)) <= 1


def test_a_prefix_may_go_beyond_the_longest_output(engine, ours, sources, tokenizers):
    (prefix,) = tokenizers.tgt.encode_batch(["9" * 20])
    options = SearchOptions(max_len_factor=0.0, max_len_offset=2)
    a, b = (some.search(sources[:3], options, [prefix, [], prefix[:1]]) for some in (ours, engine))
    assert outputs(a) == outputs(b)
    assert [found.ids[: len(prefix)] == prefix for (found,) in b] == [True, False, False]


def test_forced_scores_are_those_of_the_run(engine, ours, sources, digits_run, tokenizers):
    targets = tokenizers.tgt.encode_batch(RunDir(digits_run).read_pairs("test")[1])
    targets[3], targets[4] = [], [9] * 50
    for a, b in zip(ours.score(sources, targets), engine.score(sources, targets), strict=True):
        assert b == pytest.approx(a, abs=1e-3)
