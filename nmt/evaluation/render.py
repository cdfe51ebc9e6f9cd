"""Render an evaluation as text."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.base.errors import printable
from nmt.base.tables import aligned
from nmt.evaluation.details import Details, Grouping, TestSentence
from nmt.evaluation.evaluation import Evaluation
from nmt.evaluation.model_card import twins_line
from nmt.evaluation.scores import MetricScore
from nmt.evaluation.significance import LEVEL, TEST, ComparedSystem

MIN_NAME_WIDTH = 5  # width of the column with the names of scores


def render_evaluation(evaluation: Evaluation) -> Iterator[str]:
    """Yield the lines of scores, of the set and of its changed versions, then of comparisons and details."""
    yield from _score_lines(evaluation)
    for kind, each in (evaluation.changed or {}).items():
        yield from (f"{kind}  {line}" for line in _score_lines(each))
    for other in evaluation.compared:
        assert evaluation.system is not None
        yield ""
        yield from render_comparison(evaluation.system.name, other)
    if evaluation.details is not None:
        yield from render_details(evaluation.details)


def _score_lines(evaluation: Evaluation) -> Iterator[str]:
    name_width = max(MIN_NAME_WIDTH, *(len(score.name) for score in evaluation.scores))
    if not evaluation.directions:
        for score in evaluation.scores:
            yield f"{score.name:<{name_width}} {_value(score)}  {score.signature}"
        if evaluation.near_twins:
            yield twins_line(evaluation.near_twins, evaluation.sentences, evaluation.without_twins)
        return
    for direction, each in evaluation.directions.items():
        yield from (f"{direction}  {line}" for line in _score_lines(each))
    width = max(map(len, evaluation.directions))
    for score in evaluation.scores:
        yield f"{'mean':<{width}}  {score.name:<{name_width}} {_value(score)}"


def _value(score: MetricScore) -> str:
    return f"{score.value:6.2f}" + (f" ± {score.interval.half_width:.2f}" if score.interval is not None else "")


def render_comparison(name: str, compared: ComparedSystem) -> Iterator[str]:
    """Yield the lines of a comparison of the system `name` with another: scores, difference, p-value and verdict."""
    yield f"{name} compared with {compared.system.name} ({TEST}; significant: p < {LEVEL})"
    width = max(MIN_NAME_WIDTH, *(len(each.name) for each in compared.differences))
    for each in compared.differences:
        values = f"{each.value:6.2f} {each.other:6.2f}  {each.value - each.other:+6.2f}  p = {each.p_value:.4f}"
        yield f"{each.name:<{width}} {values}  {each.verdict()}"


def render_details(details: Details) -> Iterator[str]:
    """Yield the lines of groups of sentences, of flags, and of the worst sentences."""
    for grouping in details.groupings:
        yield from ("", f"by {grouping.property}", *_group_lines(grouping))
    yield ""
    flags = ", ".join(f"{count:,} {flag}" for flag, count in details.flags.items())
    yield f"outputs that look wrong: {flags or 'none'}"
    worst = details.worst()
    yield ""
    yield f"the {len(worst)} worst by chrF"
    for sentence in worst:
        yield from _sentence_lines(sentence)


def _group_lines(grouping: Grouping) -> Iterator[str]:
    rows = [
        [group.label, f"{group.sentences:,}", *(f"{score:.2f}" for score in group.scores.values())]
        for group in grouping.groups
    ]
    return aligned([["", "sentences", *grouping.groups[0].scores], *rows], texts=1)


def _sentence_lines(sentence: TestSentence) -> Iterator[str]:
    flags = f"  ({', '.join(sentence.flags)})" if sentence.flags else ""
    expected = "" if sentence.expected_chrf is None else f", expected {sentence.expected_chrf:.2f}"
    yield f"line {sentence.number:,}: chrF {sentence.chrf:.2f}{expected}{flags}"
    if sentence.source is not None:
        yield f"  source     {printable(sentence.source)}"
    yield f"  output     {printable(sentence.hypothesis)}".rstrip()
    for reference in sentence.references:
        yield f"  reference  {printable(reference)}"
