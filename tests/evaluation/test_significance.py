"""Intervals, sacreBLEU's p-values and signatures are those of the `sacrebleu` command, with blocks of any size."""

from __future__ import annotations

import dataclasses
import json
from itertools import islice

import numpy as np
import pytest
from sacrebleu import sentence_chrf
from sacrebleu.significance import PairedTest

from nmt.base.errors import DataError
from nmt.evaluation import significance
from nmt.evaluation.scores import sacrebleu_metric
from nmt.evaluation.scores import score as corpus_score
from nmt.evaluation.significance import (
    Difference,
    Scorer,
    System,
    compare,
    compare_systems,
    with_interval,
)
from tests.evaluation.texts import english, worsen, write_lines
from tests.sacrebleu_command import run_sacrebleu

METRICS = ["bleu", "chrf", "ter"]
REFERENCES = [english(60), worsen(english(60), 0.1, seed=3)]
OURS, OTHER = worsen(REFERENCES[0], 0.2), worsen(REFERENCES[0], 0.3, seed=2)


@pytest.fixture(scope="module")
def systems() -> tuple[System, System]:
    scorer = Scorer(REFERENCES, "en", METRICS)
    return scorer.measure("ours", OURS), scorer.measure("other", OTHER)


@pytest.fixture(scope="module")
def sacrebleu(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    files = [write_lines(folder / f"r{number}", lines) for number, lines in enumerate(REFERENCES)]
    write_lines(folder / "ours", OURS), write_lines(folder / "other", OTHER)

    def run(*arguments: str) -> str:
        return run_sacrebleu([*files, "-m", *METRICS, "-q", "-w", "4", "-i", *arguments], folder)

    return run


def test_intervals_are_those_of_the_sacrebleu_command(systems, sacrebleu):
    theirs = json.loads(sacrebleu("ours", "--confidence"))
    for score, expected in zip(map(with_interval, systems[0].measured), theirs, strict=True):
        assert score.interval is not None
        found = (score.name, round(score.value, 4), *(round(value, 4) for value in score.interval), score.signature)
        names = ("name", "score", "confidence_mean", "confidence_var", "signature")
        assert found == tuple(expected[name] for name in names)


def test_scores_of_samples_are_those_of_sacrebleu_to_the_last_bit_in_blocks_of_any_size(systems, monkeypatch):
    metrics = {name.upper(): sacrebleu_metric(name, "en", REFERENCES) for name in METRICS[1:]}
    signatures, theirs = PairedTest([("ours", OURS), ("other", OTHER)], metrics, None, test_type="bs")()
    monkeypatch.setattr(significance, "BLOCK_NUMBERS", 60 * 333)  # 1,000 samples are no whole blocks
    for measured in zip(*(system.measured[1:] for system in systems), strict=True):
        pair = [*map(dataclasses.replace, measured)]  # without samples
        found, (ours, other) = compare(*pair), theirs[pair[0].name]
        assert (found.value, found.other) == (ours.score, other.score)
        assert found.signature == signatures[pair[0].name].format()
        differences = np.abs(np.subtract(*(each.resampled for each in pair)))
        exceeding = differences - differences.mean() > abs(found.gain)  # one tail, as sacreBLEU counts
        assert (exceeding.sum() + 1) / 1001 == other.p_value


def test_samples_of_a_large_set_stay_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(significance, "BLOCK_NUMBERS", 50_000)
    for num_sentences in (700, 50_001):
        shapes = (weights.shape for weights in islice(significance._bootstrap_weights(num_sentences), 20))
        assert max(rows * columns for rows, columns in shapes) <= max(50_000, num_sentences)


def test_the_score_of_a_corpus_of_equal_sentences_is_sure():
    texts = ["the same sentence"] * 5
    score = with_interval(Scorer([texts], "en", ["chrf"]).measure("one", texts).measured[0])
    assert score.interval == (100, 0)


@pytest.mark.parametrize(
    ("value", "other", "p_value", "metric", "verdict"),
    [
        (31.0, 30.0, 0.049, "BLEU", "better: the difference is significant"),
        (31.0, 30.0, 0.05, "BLEU", "better, but it may be chance"),
        (29.0, 30.0, 0.001, "BLEU", "worse: the difference is significant"),
        (29.0, 30.0, 0.001, "TER", "better: the difference is significant"),
        (31.0, 30.0, 0.7, "TER", "worse, but it may be chance"),
        (30.0, 30.0, 0.001, "BLEU", "no difference"),
    ],
)
def test_the_verdict_says_in_words_whether_a_difference_is_real(value, other, p_value, metric, verdict):
    assert Difference(metric, value, other, p_value, "", 6).verdict() == verdict


def test_a_p_value_counts_both_tails(systems):
    ours, other = (system.measured[1] for system in systems)
    found, reverse = compare(ours, other), compare(other, ours)
    differences = ours.resampled - other.resampled
    chance = differences - differences.mean()
    tails = [np.sum(chance >= abs(found.gain)), np.sum(chance <= -abs(found.gain))]
    assert found.p_value == reverse.p_value == (sum(tails) + 1) / 1001


def test_systems_that_are_equally_good_differ_by_chance():
    """Each takes its translations from the same two systems, by turns."""
    turns = [(ours, other)[number % 2] for number, (ours, other) in enumerate(zip(OURS, OTHER, strict=True))]
    others = [(other, ours)[number % 2] for number, (ours, other) in enumerate(zip(OURS, OTHER, strict=True))]
    scorer = Scorer(REFERENCES, "en", ["chrf"])
    (found,) = compare_systems(scorer.measure("turns", turns), scorer.measure("others", others)).differences
    assert found.p_value > 0.4
    assert not found.is_significant


def test_a_difference_in_a_few_sentences_may_be_chance_whatever_the_p_value():
    texts = ["a b c d"] * 20
    perfect, wrong = (
        Scorer([texts], "en", ["chrf"]).measure(name, outputs)
        for name, outputs in (("perfect", texts), ("wrong", [*texts[1:], "a b c e"]))
    )
    (difference,) = compare_systems(perfect, wrong).differences
    for each in (difference, difference._replace(p_value=0.001)):
        assert each.verdict() == "better, but it may be chance: few sentences differ (1)"


def test_a_system_does_not_differ_from_itself(systems):
    for each in compare_systems(systems[0], systems[0]).differences:
        assert (each.gain, each.p_value, each.verdict()) == (0, 1, "no difference")


def test_the_same_seed_gives_the_same_samples(systems):
    first, second = (dataclasses.replace(systems[0].measured[0]).resampled for _ in range(2))
    assert np.array_equal(first, second)


TEXTS = english(40)
OUTPUTS = worsen(TEXTS, 0.3)


def test_all_sentences_have_the_score_of_the_corpus():
    metrics = ["bleu", "chrf", "chrf++", "ter"]
    measured = Scorer([TEXTS], "en", metrics).measure("it", OUTPUTS).measured
    assert [(each.name, each.score()) for each in measured] == [
        (each.name, each.value) for each in corpus_score(OUTPUTS, TEXTS, "en", metrics)
    ]


def test_some_sentences_have_the_score_of_a_corpus_of_them():
    chosen = [3, 5, 8, 30]
    for each in Scorer([TEXTS], "en", ["bleu", "ter"]).measure("it", OUTPUTS).measured:
        (alone,) = corpus_score([OUTPUTS[i] for i in chosen], [TEXTS[i] for i in chosen], "en", [each.name.lower()])
        assert each.score(chosen) == alone.value


@pytest.mark.parametrize("metrics", [["bleu", "chrf"], ["bleu"]])
def test_chrf_of_each_sentence_is_that_of_sacrebleu_whether_or_not_it_is_a_metric(metrics):
    system = Scorer([TEXTS, OUTPUTS[::-1]], "en", metrics).measure("it", OUTPUTS)
    rows = zip(OUTPUTS, TEXTS, OUTPUTS[::-1], strict=True)
    assert system.sentence_chrf() == [sentence_chrf(text, refs).score for text, *refs in rows]


def test_several_references_score_at_least_as_high_as_one():
    one, two = (Scorer(refs, "en", ["bleu"]).measure("it", OUTPUTS) for refs in ([TEXTS], [TEXTS, OUTPUTS]))
    assert two.measured[0].score() == 100 > one.measured[0].score()


def test_lists_of_unequal_lengths_are_refused():
    with pytest.raises(DataError, match="39 translations but 40 references"):
        Scorer([TEXTS, TEXTS[1:]], "en", ["bleu"])
    with pytest.raises(DataError, match="1 translations but 40 references"):
        Scorer([TEXTS], "en", ["bleu"]).measure("it", ["one"])
