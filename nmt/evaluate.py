"""BLEU, chrF and TER of translations, each with the sacreBLEU signature without which a score says little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nmt.errors import DataError, NmtError
from nmt.languages import bleu_tokenizer
from nmt.rundir import DirectedPairs

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

METRICS = ("bleu", "chrf", "ter")


class MetricScore(NamedTuple):
    """One corpus score: sacreBLEU's name for it (BLEU, chrF2, TER), its value, and its signature.

    Values are 0-100, higher is better; TER is edits per 100 reference words, lower is better, and can pass 100.
    """

    name: str
    value: float
    signature: str


def score(
    hypotheses: list[str], references: list[str], tgt_lang: str, metrics: Sequence[str] = ("bleu", "chrf")
) -> list[MetricScore]:
    """Score `hypotheses` against one reference each; return a score per metric (`bleu`, `chrf`, `ter`), in order.

    Both lists are plain text, line by line. Values and signatures are those of the `sacrebleu` command on the same
    lines with `--tokenize` as `bleu_tokenizer(tgt_lang)` says (Post 2018, "A Call for Clarity in Reporting BLEU
    Scores"); chrF is chrF2 (Popović 2015), TER is Snover et al. 2006. DataError if the lists differ in length or are
    empty, NmtError for an unknown metric.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} translations but {len(references)} references",
            hint="line n of one must belong to line n of the other",
        )
    if not references:
        raise DataError("there is nothing to score: no references")
    scores = []
    for metric in [_metric(name, tgt_lang) for name in metrics]:
        result = metric.corpus_score(hypotheses, [references])
        scores.append(MetricScore(result.name, result.score, metric.get_signature().format()))
    return scores


class DirectedScores(NamedTuple):
    """The scores of a set of one direction or several."""

    mean: list[MetricScore]  # over the directions; of one direction its scores
    by_direction: dict[str, list[MetricScore]]  # such as de-en; empty if there is one


def score_sets(
    sets: Sequence[DirectedPairs], translate: Callable[[DirectedPairs], list[str]], metrics: Sequence[str]
) -> DirectedScores:
    """Score what `translate` returns for each of `sets`, each by its own target language, and take the mean.

    Every direction counts alike in the mean, whatever its number of sentences. Raises as `score`.
    """
    scores = [score(translate(each), each.references, each.direction.tgt, metrics) for each in sets]
    if len(sets) == 1:
        return DirectedScores(scores[0], {})
    mean = [_mean(of_metric) for of_metric in zip(*scores, strict=True)]
    return DirectedScores(mean, {str(each.direction): found for each, found in zip(sets, scores, strict=True)})


def _mean(scores: Sequence[MetricScore]) -> MetricScore:
    signatures = "; ".join(dict.fromkeys(each.signature for each in scores))
    value = sum(each.value for each in scores) / len(scores)
    return MetricScore(scores[0].name, value, f"mean of {len(scores)} directions: {signatures}")


def _metric(name: str, tgt_lang: str) -> Metric:
    # Lazily: sacreBLEU brings numpy and, for its colors and locks, half a dozen packages.
    from sacrebleu.metrics import BLEU, CHRF, TER

    if name == "bleu":
        tokenizer = bleu_tokenizer(tgt_lang)
        # `force` silences advice on tokenized text, which is beside the point where each character is a token.
        return BLEU(tokenize=tokenizer, force=tokenizer in {"zh", "char"})
    if name == "chrf":
        return CHRF()
    if name == "ter":
        return TER()
    raise NmtError(f"unknown metric {name}", hint=f"choose from {', '.join(METRICS)}")
