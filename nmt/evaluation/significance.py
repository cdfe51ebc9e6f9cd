"""Scores of any subset of sentences, confidence intervals, and significance tests, by resampling sentences.

sacreBLEU extracts the counts of each sentence and turns their sums into scores. The sums are computed here, because
sacreBLEU computes those of all samples at once, which takes gigabytes for a large test set.

The intervals equal those of `sacrebleu --confidence`, which draws the same samples from the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.evaluation.scores import Interval, MetricScore, check_lengths, composed, sacrebleu_metric, value_of

SEED = 12345
NUM_SAMPLES = 1000
TEST = f"paired bootstrap resampling, {NUM_SAMPLES:,} samples"
LEVEL = 0.05  # a difference with a smaller p-value is significant
MIN_DIFFERING = 6
"""If fewer sentences differ, chance favors the same system in all of them with a probability of at least 0.5^4, which
resampling so few sentences may miss."""

_ROUNDING = 1e-9  # of scores, so that equal differences count as equal
BLOCK_NUMBERS = 1 << 22  # random numbers in memory at once


@dataclass(frozen=True)
class SentenceStatistics:
    """The counts of a metric for N sentences of a system, K per sentence."""

    name: str  # as in MetricScore
    metric: Any  # of sacreBLEU, or one with its methods
    rows: list[list[float]]  # [N][K]

    def score(self, sentences: Sequence[int] | None = None) -> float:
        """Return the corpus score of the sentences with these indices (default: all)."""
        rows = self.rows if sentences is None else [self.rows[index] for index in sentences]
        return value_of(self.metric._aggregate_and_compute(rows))

    def sentence_scores(self) -> list[float]:
        """Return the score of each sentence [N], like `sacrebleu --sentence-level` for chrF and TER."""
        return [value_of(self.metric._compute_score_from_stats(row)) for row in self.rows]

    @cached_property
    def resampled(self) -> NDArray[Any]:
        """The scores [NUM_SAMPLES] of bootstrap samples of the sentences, drawn with replacement."""
        counts = np.array(self.rows, dtype=np.float64)  # [N, K]; all but TER's are integers, whose sums are exact
        sums = np.concatenate([weights @ counts for weights in _bootstrap_weights(len(counts))])
        scores = map(self.metric._compute_score_from_stats, sums.astype(np.float32))  # sacreBLEU's precision
        return np.array([each.score for each in scores])

    def signature(self) -> str:
        """Return sacreBLEU's signature of a score with an interval."""
        signature = self.metric.get_signature()
        signature.update("bs", NUM_SAMPLES)
        signature.update("seed", SEED)
        return signature.format()


@dataclass(frozen=True)
class System:
    """The translations of a system, with their measurements."""

    name: str
    hypotheses: list[str]
    references: Sequence[Sequence[str]]  # [R][N]
    tgt_lang: str
    measured: list[SentenceStatistics]

    def scores(self) -> list[MetricScore]:
        """Return the score of each metric with its confidence interval."""
        return [with_interval(each) for each in self.measured]

    def sentence_chrf(self) -> list[float]:
        """Return chrF of each sentence [N], even if it is not among the metrics."""
        for each in self.measured:
            if each.name == "chrF2":
                return each.sentence_scores()
        (chrf,) = Scorer(self.references, self.tgt_lang, ["chrf"]).measure(self.name, self.hypotheses).measured
        return chrf.sentence_scores()


class Scorer:
    """Metrics and references, for any number of systems that translated the same sentences."""

    def __init__(self, references: Sequence[Sequence[str]], tgt_lang: str, metrics: Sequence[str]):
        """Keep `references` [R][N], R per sentence, and `metrics` (of `METRICS`). Raises as `score`."""
        for others in references:
            check_lengths(others, references[0])
        self.references = [composed(texts) for texts in references]
        self.tgt_lang = tgt_lang
        self.metrics = [sacrebleu_metric(name, tgt_lang, self.references) for name in metrics]

    def measure(self, name: str, hypotheses: Sequence[str]) -> System:
        """Return the system `name`, measured by each metric, in order. DataError unless there are N `hypotheses`."""
        check_lengths(hypotheses, self.references[0])
        measured = []
        for metric in self.metrics:
            rows = metric._extract_corpus_statistics(composed(hypotheses), None)
            measured.append(SentenceStatistics(metric._aggregate_and_compute(rows).name, metric, rows))
        return System(name, list(hypotheses), self.references, self.tgt_lang, measured)


class Difference(NamedTuple):
    """The difference between two systems' scores, and the probability of such a difference by chance alone."""

    name: str  # as in MetricScore
    value: float  # the system's score
    other: float
    p_value: float  # two-sided
    signature: str
    num_differing: int  # sentences whose counts differ

    @property
    def gain(self) -> float:
        """The difference; positive if the system is better than the other. TER counts errors."""
        return self.other - self.value if self.name == "TER" else self.value - self.other

    @property
    def is_significant(self) -> bool:
        """True if chance alone causes a difference as large, in favor of either system, in fewer than 5% of cases."""
        return self.gain != 0 and self.p_value < LEVEL and self.num_differing >= MIN_DIFFERING

    def verdict(self) -> str:
        """Describe in words if the difference is significant."""
        if self.gain == 0:
            return "no difference"
        better = "better" if self.gain > 0 else "worse"
        if self.num_differing < MIN_DIFFERING:
            return f"{better}, but it may be chance: few sentences differ ({self.num_differing})"
        return f"{better}: the difference is significant" if self.is_significant else f"{better}, but it may be chance"

    def as_json(self) -> dict[str, object]:
        """Return the difference as JSON values; it is stored by its name."""
        return {
            "value": round(self.value, 2),
            "other": round(self.other, 2),
            "p_value": self.p_value,
            "significant": self.is_significant,
            "verdict": self.verdict(),
            "signature": self.signature,
        }


def with_interval(statistics: SentenceStatistics) -> MetricScore:
    """Return the corpus score with its 95% confidence interval, by bootstrap resampling (Koehn 2004)."""
    from sacrebleu.significance import estimate_ci

    interval = Interval(*map(float, estimate_ci(statistics.resampled)))
    return MetricScore(statistics.name, statistics.score(), statistics.signature(), interval)


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Pearson's correlation of two sequences; 0 if one of them does not vary."""
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else 0.0


def _bootstrap_weights(num_sentences: int) -> Iterator[NDArray[np.float64]]:
    """Yield how often each sentence occurs in each sample, [samples of the block, sentences]."""
    rng = np.random.default_rng(SEED)
    block = max(1, BLOCK_NUMBERS // num_sentences)
    for start in range(0, NUM_SAMPLES, block):
        size = min(block, NUM_SAMPLES - start)
        drawn = rng.choice(num_sentences, size=(size, num_sentences), replace=True)
        drawn += num_sentences * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * num_sentences)
        yield counts.reshape(size, num_sentences).astype(np.float64)


def compare(system: SentenceStatistics, other: SentenceStatistics) -> Difference:
    """Test whether the difference between two systems on the same sentences is more than chance.

    The sentences of both systems are resampled together (Koehn 2004), and the differences centered on their mean (Efron
    and Tibshirani 1993, section 16.4). The test is two-sided.
    """
    observed = abs(system.score() - other.score())
    differences = system.resampled - other.resampled
    chance = np.abs(differences - differences.mean())
    return Difference(
        name=system.name,
        value=system.score(),
        other=other.score(),
        p_value=(int(np.sum(chance >= observed - _ROUNDING)) + 1) / (NUM_SAMPLES + 1),
        signature=system.signature(),
        num_differing=sum(ours != theirs for ours, theirs in zip(system.rows, other.rows, strict=True)),
    )


class ComparedSystem(NamedTuple):
    """Another system that translated the same sentences, and the differences from it by each metric."""

    system: System
    differences: list[Difference]


def compare_systems(system: System, other: System) -> ComparedSystem:
    """Compare `system` with `other` by each metric; both must be measured by the same `Scorer`."""
    pairs = zip(system.measured, other.measured, strict=True)
    return ComparedSystem(other, [compare(ours, theirs) for ours, theirs in pairs])
