"""Test the difference between groups of runs, over the seeds of the runs and over the sentences of the test set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.artifacts.rundir import RunDir
from nmt.data.read.lines import read_lines
from nmt.evaluation.model_comparison import METRICS
from nmt.evaluation.significance import LEVEL, SEED, Scorer

_NUM_DRAWS = 200_000  # of Student's t: p = 0.05 is found within 0.001
_MANY = 1e6  # degrees of freedom, as of a variance that is known


@dataclass(frozen=True)
class GroupDifference:
    """The difference between the means of one score of two groups."""

    name: str  # such as test BLEU
    value: float  # of the first group, minus that of the second
    low: float  # the 95% confidence interval
    high: float
    p_value: float  # two-sided
    over_sentences: bool  # the sentences were resampled; False: only the seeds vary


@dataclass(frozen=True)
class GroupComparison:
    """Two groups of runs that differ only in their seeds, and the differences of their mean scores."""

    first: list[str]
    second: list[str]
    differences: list[GroupDifference]


def compare_groups(
    first: Mapping[str, RunDir], second: Mapping[str, RunDir], scores: Mapping[str, Mapping[str, float]]
) -> GroupComparison:
    """Compare two groups of at least two runs each, by name, by the `scores` of each run that all have.

    Sentences are resampled for the scores of the test set if `nmt eval` left the translations of all runs.
    """
    runs = {**first, **second}
    resampled = _resampled(runs)
    differences = []
    for name in next(iter(scores.values())):
        if not all(name in of_run for of_run in scores.values()):
            continue
        groups = [[scores[run][name] for run in group] for group in (first, second)]
        of_sentences = 0.0
        if is_resampled := all(name in resampled.get(run, ()) for run in runs):
            means = [np.mean([resampled[run][name] for run in group], axis=0) for group in (first, second)]
            of_sentences = float(np.var(means[0] - means[1]))
        differences.append(_welch(name, groups, of_sentences, is_resampled))
    return GroupComparison([*first], [*second], differences)


def saved_name(run: RunDir, checkpoint: str | None) -> str:
    """Return the name of the evaluation to compare: of the network, if `nmt eval --engine native` made one.

    A phrase table may have made the usual one. RunError if the file is damaged.
    """
    return "test-native" if run.evaluation(checkpoint, "test-native") else "test"


def _welch(name: str, groups: Sequence[Sequence[float]], of_sentences: float, is_resampled: bool) -> GroupDifference:
    """Test a difference of means by Welch's t (1947), with another variance that is known well added to the seeds'."""
    value = fmean(groups[0]) - fmean(groups[1])
    of_seeds = [variance(group) / len(group) for group in groups]
    error = math.sqrt(sum(of_seeds) + of_sentences)
    spread = sum(part**2 / (len(group) - 1) for part, group in zip(of_seeds, groups, strict=True))
    freedom = min(error**4 / spread, _MANY) if spread else _MANY
    draws = error * np.abs(np.random.default_rng(SEED).standard_t(freedom, _NUM_DRAWS))
    half = float(np.quantile(draws, 1 - LEVEL))
    p_value = float(np.mean(draws >= abs(value))) if value else 1.0
    low = round(value - half, 2)
    high = round(value + half, 2)
    return GroupDifference(name, round(value, 2), low, high, p_value, over_sentences=is_resampled)


def _resampled(runs: Mapping[str, RunDir]) -> dict[str, dict[str, NDArray[Any]]]:
    """Return, by run and name, scores of resampled sentences of the test set, of translations that `nmt eval` saved."""
    found = {}
    for name, run in runs.items():
        directions = run.config().data.directions
        path = run.evaluations / f"{saved_name(run, run.index().best)}.hyp"
        if run.data.is_dir() and path.is_file() and len(directions) == 1:
            (each,) = run.read_sets("test", directions[0])
            scorer = Scorer([each.references], each.direction.tgt, METRICS)
            measured = scorer.measure(name, list(read_lines(path))).measured
            found[name] = {f"test {one.name}": one.resampled for one in measured}
    return found
