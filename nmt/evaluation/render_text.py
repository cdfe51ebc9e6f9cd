"""Render comparisons and details of an evaluation as text."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.base.errors import printable
from nmt.evaluation.details import Details, Grouping, TestSentence
from nmt.evaluation.significance import LEVEL, ComparedSystem, describe_test

MIN_NAME_WIDTH = 5
"""Width of the column with the names of scores."""


def render_comparison(name: str, compared: ComparedSystem) -> Iterator[str]:
    """Yield the lines of a comparison of the system `name` with another: scores, difference, p-value and verdict."""
    other = compared.system.name
    yield f"{name} compared with {other} ({describe_test(compared.test)}; significant: p < {LEVEL})"
    width = max(MIN_NAME_WIDTH, *(len(each.name) for each in compared.differences))
    for each in compared.differences:
        values = f"{each.value:6.2f} {each.other:6.2f}  {each.value - each.other:+6.2f}  p = {each.p_values()}"
        yield f"{each.name:<{width}} {values}  {each.verdict()}"


def render_details(details: Details) -> Iterator[str]:
    """Yield the lines of groups of sentences, of flags, and of the worst sentences."""
    for grouping in details.groupings:
        yield ""
        yield from _table(grouping)
    yield ""
    flags = ", ".join(f"{count:,} {flag}" for flag, count in details.flags.items())
    yield f"outputs that look wrong: {flags or 'none'}"
    worst = details.worst()
    yield ""
    yield f"the {len(worst)} worst by chrF"
    for sentence in worst:
        yield from _sentence(sentence)


def _table(grouping: Grouping) -> Iterator[str]:
    names = list(grouping.groups[0].scores)
    width = max(len(group.label) for group in grouping.groups)
    yield f"by {grouping.property}"
    yield f"{'':<{width}} {'sentences':>10} " + " ".join(f"{name:>7}" for name in names)
    for group in grouping.groups:
        scores = " ".join(f"{group.scores[name]:7.2f}" for name in names)
        yield f"{group.label:<{width}} {group.sentences:>10,} {scores}"


def _sentence(sentence: TestSentence) -> Iterator[str]:
    flags = f"  ({', '.join(sentence.flags)})" if sentence.flags else ""
    yield f"line {sentence.number:,}: chrF {sentence.chrf:.2f}{flags}"
    if sentence.source is not None:
        yield f"  source     {printable(sentence.source)}"
    yield f"  output     {printable(sentence.hypothesis)}".rstrip()
    for reference in sentence.references:
        yield f"  reference  {printable(reference)}"
