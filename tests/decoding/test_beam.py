"""Beam search is what its definition says, however it is computed: cached, in batches, ended early."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.base.errors import RunError
from nmt.config import SearchOptions
from nmt.decoding.beam import _assign_rows, _top
from tests.decoding.naive import all_outputs, naive_beam, random_model, random_sources, rank, search
from tests.quick import examples

SEEDS = st.integers(0, 2**31)


def same(found, expected, tolerance=1e-4):
    assert [h.ids for h in found] == [h.ids for h in expected]
    assert [h.finished for h in found] == [h.finished for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=tolerance)


@settings(max_examples=examples(4, 32), deadline=None)
@given(
    seed=SEEDS,
    width=st.integers(1, 5),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    limit=st.integers(1, 12),
)
def test_cached_search_in_a_batch_equals_full_decoding_of_each_sentence(seed, width, penalty, limit):
    model, sources = random_model(seed), random_sources(seed, 3)
    limits = [limit, max(1, limit // 2), limit]
    options = SearchOptions(beam_size=width, num_hypotheses=width, length_penalty=penalty)
    for found, source, most in zip(search([model], sources, limits, options), sources, limits, strict=True):
        same(found, naive_beam([model], source, most, options))


@settings(max_examples=examples(3, 24), deadline=None)
@given(seed=SEEDS, usable=st.integers(2, 6), limit=st.integers(1, 4), penalty=st.sampled_from([0.0, 0.7, 1.0]))
def test_a_wide_beam_finds_the_best_of_all_outputs(seed, usable, limit, penalty):
    width = usable ** (limit - 1)
    model, (source,) = random_model(seed, usable), random_sources(seed, 1, usable=max(usable, 2))
    options = SearchOptions(beam_size=width, num_hypotheses=width, length_penalty=penalty)
    (found,) = search([model], [source], [limit], options)
    expected = all_outputs([model], source, limit, options, usable)[:width]
    assert [rank(h, options) for h in found] == pytest.approx([rank(h, options) for h in expected], abs=1e-5)
    same(found[:1], expected[:1], tolerance=1e-5)


@settings(max_examples=examples(4, 32), deadline=None)
@given(seed=SEEDS, width=st.integers(1, 5), limit=st.integers(1, 20), penalty=st.sampled_from([0.6, 1.0]))
def test_a_beam_finds_nothing_worse_than_greedy_search_does(seed, width, limit, penalty):
    model, sources = random_model(seed, 30), random_sources(seed, 9, 30)
    options = SearchOptions(beam_size=width, length_penalty=penalty)
    beam, greedy = (search([model], sources, [limit] * 9, o, beam=o is options) for o in (options, options.greedy()))
    for (one,), (other,) in zip(beam, greedy, strict=True):
        assert rank(one, options) >= rank(other, options) - 1e-5


def test_a_sentence_goes_on_while_a_hypothesis_that_has_not_ended_may_be_better():
    gains, options = [], SearchOptions(beam_size=3)
    for seed in range(examples(2, 5)):
        model, sources = random_model(seed), random_sources(seed, 4)
        for (found,), source in zip(search([model], sources, [15] * 4, options), sources, strict=True):
            (hasty,) = naive_beam([model], source, 15, options, free_tokens=0)
            gains.append(rank(found, options) - rank(hasty, options))
    assert min(gains) >= -1e-5
    assert max(gains) > 0.01


@settings(max_examples=examples(3, 24), deadline=None)
@given(seed=SEEDS, limit=st.integers(1, 20))
def test_a_beam_of_one_is_at_least_as_good_as_greedy_search(seed, limit):
    model, sources = random_model(seed, 30), random_sources(seed, 9, 30)
    limits = [max(1, limit - i) for i in range(9)]
    options = SearchOptions()
    beam, greedy = (search([model], sources, limits, options, beam=beam) for beam in (True, False))
    for (one,), (other,) in zip(beam, greedy, strict=True):
        assert rank(one, options) >= rank(other, options) - 1e-5
        assert one.ids[: len(other.ids)] == other.ids or not one.finished


@settings(max_examples=examples(3, 24), deadline=None)
@given(seed=SEEDS, min_len=st.integers(0, 6), size=st.integers(0, 3), width=st.integers(1, 4))
def test_shortest_length_repeats_and_prefixes_are_kept_to(seed, min_len, size, width):
    model, sources = random_model(seed), random_sources(seed, 4)
    prefixes = [[4, 5], [], [6, 4, 8, 5], [7]]
    options = SearchOptions(beam_size=width, num_hypotheses=width, min_len=min_len, no_repeat_ngram=size)
    found = search([model], sources, [8] * 4, options, prefixes)
    for hypotheses, source, prefix in zip(found, sources, prefixes, strict=True):
        same(hypotheses, naive_beam([model], source, 8, options, prefix))
        assert all(h.ids[: len(prefix)] == prefix for h in hypotheses)


@pytest.mark.parametrize(
    ("width", "dtype"),
    [
        (1, torch.float32),
        (4, torch.float32),
        pytest.param(1, torch.bfloat16, marks=pytest.mark.slow),
        (4, torch.bfloat16),
    ],
)
def test_a_sentence_alone_gives_the_same_bits_as_among_others(dtype, width):
    model = random_model(3, 200, d_model=64, num_heads=2, d_ff=96).to(dtype)
    sources = random_sources(5, 24, 200, longest=examples(15, 30))
    limits = [2 * len(source) + 1 for source in sources]
    options = SearchOptions(beam_size=width, num_hypotheses=width)
    many = search([model], sources, limits, options)
    for source, limit, found in zip(sources[:3], limits, many, strict=False):
        assert search([model], [source], [limit], options) == [found]


@pytest.mark.parametrize("width", [1, 3])
def test_weights_that_are_not_finite_end_a_search_with_one_message(width):
    model = random_model(1)
    with torch.no_grad():
        model.decoder_norm.weight[3] = float("nan")
    with pytest.raises(RunError, match=r"output is not finite: its weights are damaged, or its training diverged"):
        search([model], random_sources(2, 4), [9] * 4, SearchOptions(beam_size=width), beam=width > 1)


def test_a_beam_search_asks_the_device_only_where_the_host_looks(monkeypatch):
    """A GPU is waited for whenever a value of a tensor comes to the host."""
    asked = []
    for name in ("cpu", "item", "tolist", "nonzero", "__bool__", "__int__", "__float__", "__index__"):
        method = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor, name, lambda self, *a, method=method, **o: asked.append(1) or method(self, *a, **o)
        )
    model, sources, counts = random_model(3, 30), random_sources(4, 5), []
    for limit in (16, 48):
        asked.clear()
        options = SearchOptions(beam_size=4, min_len=limit)  # nothing ends before the limit
        search([model], sources, [limit] * 5, options, check_every=8)
        counts.append(len(asked))
    assert counts[1] - counts[0] == 4


@settings(max_examples=examples(6, 48), deadline=None)
@given(
    seed=SEEDS,
    width=st.integers(1, 5),
    count=st.integers(1, 20),
    limit=st.integers(1, 20),
    check_every=st.integers(2, 24),
    repeats=st.sampled_from([0, 2]),
    prefix=st.sampled_from([[], [4], [5, 4]]),
    beam=st.booleans(),
)
def test_a_host_that_looks_less_often_finds_the_same_outputs(
    seed, width, count, limit, check_every, repeats, prefix, beam
):
    """To the bit, although sentences run on after their end, and leave the batch later.

    With heads of eight: without AVX-512, MKL's products of heads of six depend on where these lie in memory.
    """
    model, sources = random_model(seed, 30, d_model=24), random_sources(seed, count, 30)
    limits = [max(len(prefix) + 1, limit - number % 5) for number in range(count)]
    options = SearchOptions(beam_size=width, num_hypotheses=(width + 1) // 2, no_repeat_ngram=repeats)
    if not beam:
        options = SearchOptions(no_repeat_ngram=repeats)
    prefixes = [prefix if number % 2 else [] for number in range(count)]
    always, rarely = (search([model], sources, limits, options, prefixes, beam, each) for each in (1, check_every))
    assert rarely == always


def test_an_ensemble_takes_the_mean_of_the_probabilities():
    models, sources = [random_model(1), random_model(2), random_model(4)], random_sources(3, 3)
    options = SearchOptions(beam_size=3, num_hypotheses=3)
    for found, source in zip(search(models, sources, [9] * 3, options), sources, strict=True):
        same(found, naive_beam(models, source, 9, options))
        for hypothesis in found:
            assert sum(hypothesis.token_scores) == pytest.approx(hypothesis.score, abs=1e-5)


@given(st.lists(st.lists(st.integers(0, 4), min_size=5, max_size=5), min_size=1, max_size=4))
def test_a_parent_keeps_its_place_and_no_row_is_copied_from_one_that_changes(parents):
    matrix = torch.tensor(parents)
    places = _assign_rows(matrix)
    assert torch.equal(places.sort(1).values, torch.arange(5).expand_as(places))
    for row, source in zip(parents, matrix.gather(1, places).tolist(), strict=True):
        changed = {place for place in range(5) if source[place] != place}
        assert changed.isdisjoint(row)
        assert set(row) <= {place for place in range(5) if source[place] == place}


@pytest.mark.parametrize("num_tokens", [7, 640, 651])
def test_the_best_tokens_are_found_by_blocks(num_tokens):
    log_probs = torch.randn(5, num_tokens).log_softmax(-1)
    log_probs[0, 1:] = float("-inf")
    scores, tokens = _top(log_probs, 6)
    assert torch.equal(scores, log_probs.topk(6).values)
    assert torch.equal(log_probs.gather(1, tokens), scores)
    assert all(len(set(row)) == 6 for row in tokens.tolist())
