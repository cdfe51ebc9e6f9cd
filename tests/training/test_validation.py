"""Scores of translations of the validation set."""

from __future__ import annotations

from nmt.artifacts.rundir import DirectedPairs
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.evaluation import score_sets
from nmt.training.validation import Validator


def test_the_same_translations_are_measured_once_and_others_anew(run):
    config = run.config()
    sets = run.read_sets("valid", config.data.directions[0])
    validator = Validator(sets, TokenizerPair.load(run.tokenizer), config)
    copies = list(sets[0].sources)
    measured = validator.measure(0, copies)
    assert validator.measure(0, tuple(copies)) is measured
    assert [each.score() for each in validator.measure(0, copies[::-1]).measured] != [
        each.score() for each in measured.measured
    ]


def test_measured_scores_are_those_of_the_whole_set(run):
    config = run.config()
    sets = run.read_sets("valid", config.data.directions[0])
    measured = Validator(sets, TokenizerPair.load(run.tokenizer), config).measure(0, sets[0].sources).measured

    def copied(pairs: DirectedPairs) -> list[str]:
        return list(pairs.sources)

    assert [each.score() for each in measured] == [
        each.value for each in score_sets(sets, copied, ("bleu", "chrf")).mean
    ]
