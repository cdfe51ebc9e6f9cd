"""Render an evaluation as text, or as an HTML page with a sortable, filterable table of sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from importlib.resources import files
from pathlib import PurePath
from string import Template

from nmt.base.errors import printable
from nmt.base.tables import aligned
from nmt.data.text.words import DIFF_TOKEN
from nmt.evaluation.details import FLAGS, Details, Grouping, TestSentence, rounded_chrf
from nmt.evaluation.evaluation import Evaluation
from nmt.evaluation.model_card import twins_line
from nmt.evaluation.scores import MetricScore
from nmt.evaluation.significance import LEVEL, TEST, ComparedSystem

Output = tuple[str, str, float]
"""The name of a system, its output for a sentence, and the chrF of the output."""

MIN_NAME_WIDTH = 5  # width of the column with the names of scores
MAX_ROWS = 5000  # a page with more sentences takes seconds to open; of larger test sets, it shows only the worst ones


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


def render_html(title: str, scores: Sequence[MetricScore], details: Details, compared: Sequence[ComparedSystem]) -> str:
    """Return an HTML page on a system and a test set that needs no other files; texts are escaped."""
    order = details.worst(MAX_ROWS)
    others = [(other.system.name, other.system.hypotheses, rounded_chrf(other.system)) for other in compared]
    left_out = len(details.sentences) - len(order)
    numbers = [(f"{len(details.sentences):,}", "sentences"), *((_value(score).strip(), score.name) for score in scores)]
    counts = [(flag, details.flags[flag]) for flag in FLAGS if flag in details.flags]
    texts = (["source"] if details.sentences[0].source is not None else []) + ["output", "reference"]
    rows = [[(name, hyps[each.number - 1], chrf[each.number - 1]) for name, hyps, chrf in others] for each in order]
    heads = [f'<button type="button">{_html_text(label)}</button>' for label, _ in _numbers(order[0], rows[0])]
    template = files("nmt.evaluation").joinpath("report.html").read_text("utf-8")
    return Template(template).safe_substitute(  # which leaves the `${…}` of the script
        title=escape(printable(title)),
        figures="\n".join(f"<div><b>{number}</b>{label}</div>" for number, label in numbers),
        signatures="\n".join(f"<li>{score.name}: <code>{escape(score.signature)}</code></li>" for score in scores),
        sections="\n".join(_sections(details, compared)),
        left_out=f"{left_out:,} better sentences are left out." if left_out else "",
        options="".join(f'<option value="{flag}">{flag} ({count:,})</option>' for flag, count in counts),
        numbers="".join(f'<th class="number">{head}</th>' for head in heads),
        texts="".join(f"<th>{head}</th>" for head in texts),
        rows="\n".join(map(_row, order, rows)),
    )


def _numbers(sentence: TestSentence, others: Sequence[Output]) -> list[tuple[str, str]]:
    """Return the numbers in the row of a sentence, each with the title of its column."""
    numbers = [("line", f"{sentence.number}"), ("chrF", f"{sentence.chrf:.2f}")]
    numbers.append(("length", f"{len(sentence.references[0])}"))
    if sentence.expected_chrf is not None:
        numbers.append(("expected", f"{sentence.expected_chrf:.2f}"))
    gains = [(f"gain over {PurePath(name).name}", f"{sentence.chrf - chrf:+.2f}") for name, _, chrf in others]
    return numbers + gains


def _sections(details: Details, systems: Sequence[ComparedSystem]) -> Iterator[str]:
    """Yield comparisons and groups of sentences: the tables of the terminal, under headings."""
    for compared in systems:
        yield _section(f"Compared with {compared.system.name}", render_comparison("this system", compared))
    for grouping in details.groupings:
        yield _section(f"By {grouping.property}", _group_lines(grouping))


def _section(title: str, lines: Iterable[str]) -> str:
    text = "\n".join(_html_text(line) for line in lines)
    return f"<h2>{_html_text(title)}</h2>\n<pre tabindex='0'>{text}</pre>"


def _row(sentence: TestSentence, others: Sequence[Output]) -> str:
    """Return the row of a sentence; `others` has what the other systems make of it."""
    output, reference = find_differences(sentence.hypothesis, sentence.references[0])
    cells = "".join(f'<td class="number">{value}</td>' for _, value in _numbers(sentence, others))
    flags = "".join(f'<div class="label">{flag}</div>' for flag in sentence.flags)
    more = "".join(
        f'<div><span class="label">{_html_text(name)}, chrF {chrf:.2f}</span><br>{_html_text(text)}</div>'
        for name, text, chrf in others
    )
    outputs = f"<div>{_marked(output)}</div>{flags}{more}"
    references = f"<div>{_marked(reference, 'missing')}</div>"
    references += "".join(f"<div>{_html_text(other)}</div>" for other in sentence.references[1:])
    sources = [] if sentence.source is None else [_html_text(sentence.source)]
    texts = "".join(f'<td class="text" dir="auto">{text}</td>' for text in (*sources, outputs, references))
    return f'<tr data-flags="{",".join(sentence.flags)}">{cells}{texts}</tr>'


def find_differences(first: str, second: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Split both texts into the longest parts that they share, and those that differ, which are marked True."""
    tokens = DIFF_TOKEN.findall(first), DIFF_TOKEN.findall(second)
    parts: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = ([], [])
    for kind, *places in SequenceMatcher(None, *tokens, autojunk=False).get_opcodes():
        for side, start, end in ((0, *places[:2]), (1, *places[2:])):
            if start < end:
                parts[side].append(("".join(tokens[side][start:end]), kind != "equal"))
    return parts


def _marked(parts: Sequence[tuple[str, bool]], kind: str = "extra") -> str:
    """Return the parts of a text as HTML, with those that differ marked."""
    shown = (
        f'<mark class="{kind}">{_html_text(text)}</mark>' if differs else _html_text(text) for text, differs in parts
    )
    return "".join(shown) or _html_text("")


def _html_text(text: str) -> str:
    """Return untrusted text as HTML: escaped, with control characters made visible, and a note if it is empty."""
    return escape(printable(text)) or "<i>empty</i>"
