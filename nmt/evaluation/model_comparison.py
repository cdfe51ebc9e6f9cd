"""Compare two models on the same test sets: scores, differences, and their significance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nmt.artifacts.rundir import DirectedPairs
from nmt.evaluation.significance import Difference, Scorer, compare_systems

METRICS = ("bleu", "chrf")


class SetComparison(NamedTuple):
    """The scores of two models on one set in one direction; a difference's `value` is the second model's score."""

    name: str
    direction: str  # such as de-en
    sentences: int
    differences: list[Difference]  # BLEU, chrF2

    @property
    def bleu(self) -> Difference:
        """The difference in BLEU."""
        return self.differences[0]


def compare_on(name: str, each: DirectedPairs, first: Sequence[str], second: Sequence[str]) -> SetComparison:
    """Compare the translations of a set by two models, by BLEU and chrF (paired bootstrap resampling, Koehn 2004)."""
    scorer = Scorer([each.references], each.direction.tgt, METRICS)
    before, after = scorer.measure("first", first), scorer.measure("second", second)
    return SetComparison(name, str(each.direction), len(each.sources), compare_systems(after, before).differences)


def render_table(comparisons: Sequence[SetComparison], first: str, second: str) -> list[str]:
    """Return the lines of a table; `first` and `second` are the column titles of the two models."""
    names = [f"{each.name} ({each.direction})" for each in comparisons]
    width = max(map(len, names), default=0)
    lines = [f"{'test set':<{width}}  {'sentences':>9}  {'':<5}  {first:>8}  {second:>8}  difference"]
    for name, each in zip(names, comparisons, strict=True):
        begin = f"{name:<{width}}  {each.sentences:>9,}"
        for difference in each.differences:
            before, after = difference.other, difference.value
            values = f"{before:8.2f}  {after:8.2f}  {after - before:+10.2f}"
            verdict = f"{difference.verdict()} (p = {difference.p_value:.3f})"
            lines.append(f"{begin}  {difference.name:<5}  {values}  {verdict}")
            begin = " " * len(begin)  # a set is named once
    return lines


def as_json(comparison: SetComparison) -> dict[str, object]:
    """Return a comparison as JSON values."""
    scores = {
        each.name: {
            "first": round(each.other, 2),
            "second": round(each.value, 2),
            "p_value": round(each.p_value, 4),
            "significant": each.is_significant,
            "signature": each.signature,
        }
        for each in comparison.differences
    }
    return {**comparison._asdict(), "differences": scores}
