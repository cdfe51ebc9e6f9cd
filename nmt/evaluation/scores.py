"""BLEU, chrF, TER and related metrics, each with its sacreBLEU signature, without which a score says little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

from nmt.artifacts.rundir import DirectedPairs
from nmt.base.errors import DataError, NmtError, require_texts
from nmt.base.languages import bleu_tokenizer
from nmt.data.check.scripts import script_of_texts

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Score

METRICS = ("bleu", "chrf", "chrf++", "ter")
"""The metrics by their names on the command line."""

_MEANINGS = (  # from this BLEU or this chrF on
    (80, 90, "almost equal to the references; nmt data check looks for test sentences in the training data"),
    (50, 70, "close to the references"),
    (30, 57, "mostly right, with errors"),
    (15, 42, "enough to get the gist"),
    (5, 30, "words and phrases are right, but few sentences"),
    (-1, -1, "nothing usable yet"),
)


class Interval(NamedTuple):
    """A 95% confidence interval from bootstrap resampling: `mean` of the samples, plus or minus `half_width`."""

    mean: float
    half_width: float


class MetricScore(NamedTuple):
    """A corpus score: sacreBLEU's name for it (BLEU, chrF2, chrF2++, TER), its value, its signature.

    Values are 0-100, and higher is better. TER is edits per 100 reference words: lower is better, and it may exceed
    100.
    """

    name: str
    value: float
    signature: str
    interval: Interval | None = None  # if estimated; the signature then includes the number of samples and the seed


def score(
    hypotheses: list[str], references: list[str], tgt_lang: str, metrics: Sequence[str] = ("bleu", "chrf")
) -> list[MetricScore]:
    """Score `hypotheses` against one reference each; return a score for each metric (of `METRICS`), in order.

    Both lists contain lines of plain text. Values and signatures equal those of the `sacrebleu` command on the same
    lines, in Unicode's NFC, with `--tokenize` set to `tokenizer_for(tgt_lang, references)` (Post 2018, "A Call for
    Clarity in Reporting BLEU Scores"). chrF is chrF2 (Popović 2015), TER is Snover et al. 2006. DataError if the lists
    differ in length or are empty, NmtError for an unknown metric.
    """
    check_lengths(hypotheses, references)
    hypotheses = composed(hypotheses)
    references = composed(references)
    scores = []
    for name in metrics:
        metric = sacrebleu_metric(name, tgt_lang, [references])
        result = metric.corpus_score(hypotheses, None)
        scores.append(MetricScore(result.name, value_of(result), metric.get_signature().format()))
    return scores


def check_lengths(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raise DataError unless there are as many `hypotheses` as `references`, and at least one.

    NmtError if one of them is no text.
    """
    require_texts("translations", hypotheses)
    require_texts("references", references)
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} translations but {len(references)} references",
            hint="line n of one must correspond to line n of the other",
        )
    if not references:
        raise DataError("nothing to score: no references")


def value_of(result: Score) -> float:
    """Return a score's value, at most 100 unless it is TER: logarithms may give 100.00000000000004."""
    return float(result.score if result.name == "TER" else min(result.score, 100.0))


def describe_quality(bleu: float, chrf: float) -> str:
    """Return a line on what such scores usually mean: a rule of thumb, because they depend on the test set."""
    text = next(text for *limits, text in _MEANINGS if bleu >= limits[0] or chrf >= limits[1])
    return f"{text}. (This is a rule of thumb: BLEU and chrF compare systems only on the same test set.)"


def tokenization_fault(hypotheses: Sequence[str], references: Sequence[str]) -> str:
    """Return what is wrong if far more hypotheses than references end in a separate period; otherwise ""."""
    ours, theirs = (sum(line.endswith(" .") for line in lines) for lines in (hypotheses, references))
    if ours <= 2 * theirs + len(hypotheses) / 10:
        return ""
    return (
        f'{ours:,} translations end in " .", but only {theirs:,} references: the translations, or the texts that the '
        "model was trained on, are tokenized. Detokenize them, or the scores are too low"
    )


class DirectedScores(NamedTuple):
    """The scores of a set in one or several directions."""

    mean: list[MetricScore]  # over the directions; with only one direction, its scores
    by_direction: dict[str, list[MetricScore]]  # keys such as de-en; empty if there is only one direction


def score_sets(
    sets: Sequence[DirectedPairs], translate: Callable[[DirectedPairs], list[str]], metrics: Sequence[str]
) -> DirectedScores:
    """Score the result of `translate` for each of `sets` by its target language, and take the mean.

    Every direction has the same weight in the mean, whatever its number of sentences. Raises as `score`.
    """
    scores = [score(translate(each), each.references, each.direction.tgt, metrics) for each in sets]
    if len(sets) == 1:
        return DirectedScores(scores[0], {})
    by_direction = {str(each.direction): found for each, found in zip(sets, scores, strict=True)}
    return DirectedScores([mean_score(of_metric) for of_metric in zip(*scores, strict=True)], by_direction)


def mean_score(scores: Sequence[MetricScore]) -> MetricScore:
    """Return the mean of one metric over several directions, without an interval."""
    signatures = "; ".join(dict.fromkeys(each.signature for each in scores))
    value = sum(each.value for each in scores) / len(scores)
    return MetricScore(scores[0].name, value, f"mean of {len(scores)} directions: {signatures}")


def composed(texts: Sequence[str]) -> list[str]:
    """Return `texts` in NFC, so that canonically equal characters are equal."""
    return [normalize("NFC", text) for text in texts]


def tokenizer_for(tgt_lang: str, references: Iterable[str]) -> str:
    """Return sacreBLEU's tokenizer for a language, or for the script of `references` if the language needs none."""
    return bleu_tokenizer(tgt_lang, script_of_texts(references))


def sacrebleu_metric(name: str, tgt_lang: str, references: Sequence[Sequence[str]]) -> Metric:
    """Return sacreBLEU's metric for one of `METRICS`, which preprocesses `references` [R][N] once.

    NmtError for an unknown metric.
    """
    # Imported lazily, because sacreBLEU imports numpy and, for colors and locks, half a dozen other packages.
    from sacrebleu.metrics import BLEU, CHRF, TER

    if name == "bleu":
        # `force` silences a warning that counts " ." in hypotheses only: see `tokenization_fault`.
        return BLEU(tokenize=tokenizer_for(tgt_lang, references[0]), force=True, references=references)
    if name in ("chrf", "chrf++"):
        return CHRF(word_order=2 if name == "chrf++" else 0, references=references)
    if name == "ter":
        return TER(references=references)
    raise NmtError(f"unknown metric {name}", hint=f"choose from {', '.join(METRICS)}")
