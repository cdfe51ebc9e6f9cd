"""Compare two models on the same test sets: scores, differences, and their significance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nmt.artifacts.rundir import DirectedPairs
from nmt.base.tables import aligned
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
    rows = [["test set", "", "sentences", first, second, "difference"]]
    verdicts = [""]
    for each in comparisons:
        for difference in each.differences:
            before, after = difference.other, difference.value
            scores = f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}"
            rows.append([f"{each.name} ({each.direction})", difference.name, f"{each.sentences:,}", *scores])
            verdicts.append(f"{difference.verdict()} (p = {difference.p_value:.3f})")
    lines = zip(aligned(rows, texts=2), verdicts, strict=True)
    return [f"{line}  {verdict}".rstrip() for line, verdict in lines]


def as_json(comparison: SetComparison) -> dict[str, object]:
    """Return a comparison as JSON values."""
    differences = {each.name: each.as_json() for each in comparison.differences}
    return {**comparison._asdict(), "differences": differences}
