"""Render an evaluation as text: scores, comparisons and details."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.base.errors import printable
from nmt.evaluation.details import Details, Grouping, TestSentence
from nmt.evaluation.evaluation import Evaluation
from nmt.evaluation.scores import MetricScore
from nmt.evaluation.significance import LEVEL, ComparedSystem, describe_test

MIN_NAME_WIDTH = 5
"""Width of the column with the names of scores."""


def render_evaluation(evaluation: Evaluation) -> Iterator[str]:
    """Yield the lines of scores, of the set and of its changed versions, then of comparisons and details."""
    yield from _scores(evaluation)
    for kind, each in (evaluation.changed or {}).items():
        yield from (f"{kind}  {line}" for line in _scores(each))
    for other in evaluation.compared:
        assert evaluation.system is not None
        yield ""
        yield from render_comparison(evaluation.system.name, other)
    if evaluation.details is not None:
        yield from render_details(evaluation.details)


def _scores(evaluation: Evaluation) -> Iterator[str]:
    name_width = max(MIN_NAME_WIDTH, *(len(score.name) for score in evaluation.scores))
    if not evaluation.directions:
        for score in evaluation.scores:
            yield f"{score.name:<{name_width}} {_value(score)}  {score.signature}"
        return
    for direction, each in evaluation.directions.items():
        yield from (f"{direction}  {line}" for line in _scores(each))
    width = max(map(len, evaluation.directions))
    for score in evaluation.scores:
        yield f"{'mean':<{width}}  {score.name:<{name_width}} {_value(score)}"


def _value(score: MetricScore) -> str:
    return f"{score.value:6.2f}" + (f" ± {score.interval.half_width:.2f}" if score.interval is not None else "")


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
