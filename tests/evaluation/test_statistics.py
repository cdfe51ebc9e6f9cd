"""Scores of all sentences, of some, and of each, from the same counts."""

from __future__ import annotations

import pytest
import sacrebleu

from nmt.base.errors import DataError
from nmt.evaluation import score
from nmt.evaluation.statistics import Scorer
from tests.evaluation.texts import english, worsen

TEXTS = english(40)
OUTPUTS = worsen(TEXTS, 0.3)


def test_all_sentences_have_the_score_of_the_corpus():
    metrics = ["bleu", "chrf", "chrf++", "ter"]
    measured = Scorer([TEXTS], "en", metrics).measure("it", OUTPUTS).measured
    assert [(each.name, each.score()) for each in measured] == [
        (each.name, each.value) for each in score(OUTPUTS, TEXTS, "en", metrics)
    ]


def test_some_sentences_have_the_score_of_a_corpus_of_them():
    chosen = [3, 5, 8, 30]
    for each in Scorer([TEXTS], "en", ["bleu", "ter"]).measure("it", OUTPUTS).measured:
        (alone,) = score([OUTPUTS[i] for i in chosen], [TEXTS[i] for i in chosen], "en", [each.name.lower()])
        assert each.score(chosen) == alone.value


@pytest.mark.parametrize("metrics", [["bleu", "chrf"], ["bleu"]])
def test_chrf_of_each_sentence_is_that_of_sacrebleu_whether_or_not_it_is_a_metric(metrics):
    system = Scorer([TEXTS, OUTPUTS[::-1]], "en", metrics).measure("it", OUTPUTS)
    rows = zip(OUTPUTS, TEXTS, OUTPUTS[::-1], strict=True)
    assert system.sentence_chrf() == [sacrebleu.sentence_chrf(text, refs).score for text, *refs in rows]


def test_several_references_score_at_least_as_high_as_one():
    one, two = (Scorer(refs, "en", ["bleu"]).measure("it", OUTPUTS) for refs in ([TEXTS], [TEXTS, OUTPUTS]))
    assert two.measured[0].score() == 100 > one.measured[0].score()


def test_lists_of_unequal_lengths_are_refused():
    with pytest.raises(DataError, match="39 translations but 40 references"):
        Scorer([TEXTS, TEXTS[1:]], "en", ["bleu"])
    with pytest.raises(DataError, match="1 translations but 40 references"):
        Scorer([TEXTS], "en", ["bleu"]).measure("it", ["one"])
