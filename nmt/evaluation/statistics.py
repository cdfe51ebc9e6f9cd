"""The sentence counts from which sacreBLEU computes a score, for scores of any subset or sample of the sentences.

sacreBLEU extracts the counts and turns their sums into scores. The sums are computed here, because sacreBLEU computes
those of all samples at once, which takes gigabytes for a large test set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nmt.evaluation.scores import check_lengths, name_of, sacrebleu_metric, value_of

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Signature


@dataclass(frozen=True)
class SentenceStatistics:
    """The counts of a metric for N sentences of a system, K per sentence."""

    name: str  # as in MetricScore
    metric: Any  # of sacreBLEU, or one with its methods
    rows: list[list[float]]  # [N][K]

    @property
    def lower_is_better(self) -> bool:
        """True for TER, which counts errors."""
        return self.name == "TER"

    def score(self, sentences: Sequence[int] | None = None) -> float:
        """Return the corpus score of the sentences with these indices (default: all)."""
        rows = self.rows if sentences is None else [self.rows[index] for index in sentences]
        return value_of(self.metric._aggregate_and_compute(rows))

    def sentence_scores(self) -> list[float]:
        """Return the score of each sentence [N], like `sacrebleu --sentence-level` for chrF and TER."""
        return [value_of(self.metric._compute_score_from_stats(row)) for row in self.rows]

    def counts(self) -> NDArray[np.float64]:
        """Return the counts as an array [N, K]. All except TER's are integers, whose sums are exact."""
        return np.array(self.rows, dtype=np.float64)

    def scores_of(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Return the score of each row of `sums` [S, K], computed in their precision."""
        return np.array([self.metric._compute_score_from_stats(row).score for row in sums])

    def signature(self) -> Signature:
        """Return sacreBLEU's signature, without samples and seed."""
        return self.metric.get_signature()


@dataclass(frozen=True)
class System:
    """The translations of a system, with their measurements."""

    name: str
    hypotheses: list[str]
    references: Sequence[Sequence[str]]  # [R][N]
    tgt_lang: str
    measured: list[SentenceStatistics]

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
        for others in references[1:]:
            check_lengths(others, references[0])
        self.references, self.tgt_lang = references, tgt_lang
        self.metrics = {name: sacrebleu_metric(name, tgt_lang, references) for name in metrics}

    def measure(self, name: str, hypotheses: Sequence[str]) -> System:
        """Return the system `name`, measured by each metric, in order. DataError unless there are N `hypotheses`."""
        check_lengths(hypotheses, self.references[0])
        measured = []
        for key, metric in self.metrics.items():
            rows = metric._extract_corpus_statistics(hypotheses, None)
            measured.append(SentenceStatistics(name_of(key, metric._aggregate_and_compute(rows)), metric, rows))
        return System(name, list(hypotheses), self.references, self.tgt_lang, measured)
