"""Minimum Bayes risk: the candidate that is most like the others is preferred. Tokens are aligned by attention."""

from __future__ import annotations

import sys

import pytest
import sacrebleu

from nmt.base.errors import NmtError
from nmt.config import SearchOptions
from nmt.translation import SegmentTranslation, Translator
from nmt.translation.segments import SearchInput, search_candidates

SOURCES = ["12345", "90", "", "777 31", "4", "8 16 24", "1111"]
BEAM = SearchOptions(rerank="mbr-chrf", num_candidates=6, num_hypotheses=3, retry_loops=False)
SAMPLES = BEAM.changed(sample=True, temperature=1.4, top_k=12, seed=5)


@pytest.fixture(scope="module")
def translator(digits_run):
    pytest.importorskip("fastchrf", reason="needs the extra mbr")
    with Translator.load(digits_run, device="cpu") as translator:
        yield translator


def texts_of(translator: Translator, sources: list[str], options: SearchOptions) -> list[list[str]]:
    found = translator.translate(sources, options)
    return [[each.text for each in (best, *best.alternatives)] for best in found]


@pytest.mark.parametrize("options", [BEAM, SAMPLES], ids=["beam", "samples"])
def test_candidates_are_ranked_by_their_mean_chrf_against_all(translator, options):
    candidates = texts_of(translator, SOURCES, options.of_candidates())
    assert [len(texts) for texts in candidates] == [1 if not source else 6 for source in SOURCES]
    for ranked, texts in zip(texts_of(translator, SOURCES, options), candidates, strict=True):
        expected = {text: sum(sacrebleu.sentence_chrf(text, [other]).score for other in texts) for text in texts}
        best = sorted((round(utility, 6) for utility in expected.values()), reverse=True)[:3]
        assert [round(expected[text], 6) for text in ranked] == best


def test_each_text_is_listed_once_and_counts_as_often_as_it_was_found():
    pytest.importorskip("fastchrf", reason="needs the extra mbr")
    texts = ["wxy", "abcd", "wxyz", "abcd", "abcd"]
    found = [
        SegmentTranslation(text, -number, [1], [2], truncated=False, finished=True) for number, text in enumerate(texts)
    ]
    (ranked,) = search_candidates(lambda *_: [found], [SearchInput([1])], BEAM.changed(num_hypotheses=4))
    assert [(each.text, each.score) for each in ranked] == [("abcd", -1), ("wxyz", -2), ("wxy", 0)]


def test_equal_samples_are_one_translation(translator):
    assert texts_of(translator, ["123"], SAMPLES.changed(temperature=0.01)) == [["321"]]


def test_a_text_alone_is_ranked_as_among_others(translator):
    together = texts_of(translator, SOURCES, BEAM)
    assert [texts_of(translator, [source], BEAM)[0] for source in SOURCES] == together


def test_the_same_seed_gives_the_same_choice(translator):
    assert texts_of(translator, SOURCES, SAMPLES) == texts_of(translator, SOURCES, SAMPLES)
    assert texts_of(translator, SOURCES, SAMPLES) != texts_of(translator, SOURCES, SAMPLES.changed(seed=6))


def test_a_loop_is_searched_again_for_as_many_candidates(translator):
    options = BEAM.changed(retry_loops=True)
    (best,) = translator.translate(["12"], options, prefixes=["9999999"])
    assert best.loop_retried
    assert len(best.alternatives) <= 2


def test_without_the_package_nothing_is_searched(digits_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastchrf", None)
    with Translator.load(digits_run, device="cpu") as translator:
        with pytest.raises(NmtError) as caught:
            translator.translate(["12"], BEAM)
        assert str(caught.value) == (
            "reranking by chrF needs the package fastchrf, which is not installed\n"
            '  in the checkout of nmt: pip install ".[mbr]"'
        )
        assert translator.translate(["12"], BEAM.greedy())[0].text == "21"


def test_the_search_is_wide_enough_for_the_candidates():
    options = SearchOptions(rerank="mbr-chrf", num_candidates=4, num_hypotheses=7, beam_size=3)
    assert (options.of_candidates().beam_size, options.of_candidates().num_hypotheses) == (7, 7)
    sampling = SearchOptions(rerank="mbr-chrf", sample=True).of_candidates()
    assert (sampling.beam_size, sampling.num_hypotheses, sampling.rerank) == (1, 16, "none")
