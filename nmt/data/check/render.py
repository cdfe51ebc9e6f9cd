"""Render the report of a check: as text for a terminal, or as a self-contained HTML page with charts."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from itertools import chain
from pathlib import Path

from nmt.base.errors import counted, printable
from nmt.base.html_page import bar_chart, figures, html_page, html_table, html_text
from nmt.data.check.summary import CheckReport, Example, ModelReport, RuleReport, ShiftReport, bar_labels

_MAX_TEXT = 100  # columns of an example
_NEEDS = {
    "wrong_language": "needs --langid",
    "overlap": "needs a configuration with data.valid or data.test",
    "near_overlap": "the same",
}
_LABEL_EVERY = 3  # bars of a chart


def render_text(report: CheckReport) -> str:
    """Return the report as lines: the files, a table of the rules, and examples of each rule."""
    return "\n".join(_lines(report))


def _lines(report: CheckReport) -> Iterator[str]:
    src, tgt = report.src, report.tgt
    yield f"{printable(' + '.join(report.files))}: {counted(report.pairs, 'pair')}"
    for side in (src, tgt):
        yield f"  {side.language}: {side.median} characters in the median, {side.percent_99} at the 99th percentile"
    yield f"  {report.ratio} {tgt.language} characters per {src.language} character"
    yield ""
    found = [rule for rule in report.rules if rule.found]
    yield from _table(report, found)
    clean = [rule.name for rule in report.rules if not rule.found and rule.was_checked]
    if clean:
        yield f"nothing found: {', '.join(clean)}"
    unchecked = [f"{rule.name} ({_NEEDS[rule.name]})" for rule in report.rules if not rule.was_checked]
    if unchecked:
        yield f"not checked: {', '.join(unchecked)}"
    kept = report.pairs - report.dropped
    share = _share(kept, report.pairs)
    yield f"The filters marked * drop {counted(report.dropped, 'pair')} and keep {kept:,} ({share})."
    yield from _examples(report, found)
    if report.model is not None:
        yield from _least_probable(report.model)


def _table(report: CheckReport, found: list[RuleReport]) -> Iterator[str]:
    rows = [
        (f"{rule.name}{' *' * rule.is_on}", f"{rule.found:,}", _share(rule.found, report.pairs), f"{rule.only:,}")
        for rule in found
    ]
    rows.insert(0, ("rule", "pairs", "share", "only this"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield f"{row[0].ljust(widths[0])}  {numbers}"


def _examples(report: CheckReport, found: list[RuleReport]) -> Iterator[str]:
    for rule in found:
        yield ""
        yield f"{rule.name}: {rule.description}"
        if rule.name == "shifted":
            yield from (f"  {printable(_describe(shift))}" for shift in report.shifts)
        else:
            yield from chain.from_iterable(map(_example_lines, rule.examples))


def _least_probable(model: ModelReport) -> Iterator[str]:
    yield ""
    yield f"least probable under {printable(model.model)}, of {counted(model.scored, 'pair')} scored:"
    for deviation, example in zip(model.deviations, model.pairs, strict=True):
        yield from _example_lines(example, f"  {deviation:+.1f} standard deviations")
    if model.unspellable:
        yield f"{model.unspellable:,} of them contain characters that the model's tokenizer cannot spell"


def _example_lines(example: Example, note: str = "") -> Iterator[str]:
    yield f"  {printable(example.file)}:{example.line}{note}"
    yield f"    {_shortened(example.src)}"
    yield f"    {_shortened(example.tgt)}"


def _describe(shift: ShiftReport) -> str:
    lines = f"{shift.file}, lines {shift.first_line:,} to {shift.last_line:,}"
    direction = "below" if shift.offset > 0 else "above"
    return f"{lines}: the translations are {counted(abs(shift.offset), 'line')} {direction}"


def _share(count: int, total: int) -> str:
    return f"{100 * count / max(1, total):.2f}%"


def _shortened(text: str) -> str:
    """Return `text` made printable and cut to `_MAX_TEXT` columns; East Asian characters take two."""
    width, shown = 0, ""
    for char in printable(text):
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if width > _MAX_TEXT:
            return shown + "…"
        shown += char
    return shown or "(empty)"


def render_html(report: CheckReport) -> str:
    """Return the report as an HTML page; all text from the corpus is escaped."""
    title = f"Check of {printable(', '.join(report.files))}"
    body = (_overview, _rule_table, _pictures, _findings, _html_least_probable)
    return html_page(title, chain.from_iterable(part(report) for part in body))


def _overview(report: CheckReport) -> Iterator[str]:
    kept = report.pairs - report.dropped
    languages = f"{report.src.language} to {report.tgt.language}"
    yield "<p>A model learns from pairs of a sentence and its translation. A bad pair teaches it mistakes."
    yield "This page counts, rule by rule, the pairs that look bad. Every rule can be wrong: look at its examples"
    yield "before you let it drop pairs.</p>"
    yield figures(
        [
            (f"{report.pairs:,}", f"pairs, {languages}"),
            (f"{kept:,}", "pairs kept by the filters"),
            (f"{report.dropped:,}", f"pairs dropped ({_share(report.dropped, report.pairs)})"),
        ]
    )


def _rule_table(report: CheckReport) -> Iterator[str]:
    yield "<h2>Findings</h2>"
    yield "<p><b>only this</b>: pairs that no other active filter drops, so that only this rule decides on them.</p>"
    rows = []
    for rule in sorted(report.rules, key=lambda rule: -rule.found):
        numbers = [f"{rule.found:,}", _share(rule.found, report.pairs), f"{rule.only:,}"]
        name = f'<a href="#{rule.name}">{rule.name}</a>' if rule.found else rule.name
        shown = numbers if rule.was_checked else ["not checked", "", ""]
        rows.append([name, escape(rule.description), *shown, "active" if rule.is_on else "off"])
    heads = ["rule", "meaning", "pairs", "share", "only this", "filter"]
    yield html_table(heads, rows, numbers=range(2, 5))


def _pictures(report: CheckReport) -> Iterator[str]:
    length_labels, ratio_labels = bar_labels()
    yield "<h2>Lengths</h2>"
    for side in (report.src, report.tgt):
        caption = (
            f"Pairs by the length of the {side.language} sentence in characters. Half of the sentences have at most "
            f"{side.median} characters, 99% at most {side.percent_99}. The last bar includes all longer sentences."
        )
        yield _bar_chart(side.bars, length_labels, caption)
    caption = (
        f"Pairs by {report.tgt.language} characters per {report.src.language} character; {report.ratio} is usual. "
        "Pairs far from the peak are rarely translations."
    )
    yield _bar_chart(report.ratio_bars, ratio_labels, caption)


def _bar_chart(bars: Sequence[int], labels: Sequence[str], caption: str) -> str:
    titled = [(count, label, f"from {label}: {count:,} pairs") for count, label in zip(bars, labels, strict=True)]
    return bar_chart(titled, caption, label_every=_LABEL_EVERY)


def _findings(report: CheckReport) -> Iterator[str]:
    yield "<h2>Examples</h2>"
    for rule in report.rules:
        if rule.found:
            yield f'<h3 id="{rule.name}">{rule.name}</h3><p>{escape(rule.description)}</p>'
            if rule.name == "shifted":
                items = (f"<li>{html_text(_describe(shift))}</li>" for shift in report.shifts)
                yield f"<ul>{''.join(items)}</ul>"
            else:
                yield f"<table><tbody>{''.join(map(_example_row, rule.examples))}</tbody></table>"


def _html_least_probable(report: CheckReport) -> Iterator[str]:
    model = report.model
    if model is None:
        return
    yield "<h2>Least probable pairs</h2>"
    yield f"<p>The model {escape(printable(model.model))} scored {model.scored:,} pairs. These are the least probable"
    yield "for their length, worst first; many are wrong translations. The number is the distance of a pair from"
    yield "others of its length, in standard deviations.</p><table><tbody>"
    for deviation, example in zip(model.deviations, model.pairs, strict=True):
        yield _example_row(example, f'<td class="number">{deviation:+.1f}</td>')
    yield "</tbody></table>"


def _example_row(example: Example, more_cells: str = "") -> str:
    place = f'<code title="{html_text(example.file)}">{html_text(Path(example.file).name)}:{example.line}</code>'
    texts = "".join(f'<td class="text" dir="auto">{html_text(text)}</td>' for text in (example.src, example.tgt))
    return f"<tr><td>{place}</td>{texts}{more_cells}</tr>"
