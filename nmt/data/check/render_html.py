"""Render the report of a check as a self-contained HTML page, with styles and charts for light and dark mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import chain
from pathlib import Path

from nmt.base.errors import printable
from nmt.base.html_page import bar_chart, figures, html_page, html_text
from nmt.data.check.summary import CheckReport, Example, RuleReport, ShiftReport, bar_labels

_LABEL_EVERY = 3  # bars of a chart


def render_html(report: CheckReport) -> str:
    """Return the report as an HTML page; all text from the corpus is escaped."""
    title = f"Check of {printable(', '.join(report.files))}"
    body = (_overview, _rule_table, _pictures, _findings, _least_probable)
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
    yield '<table><thead><tr><th>rule</th><th>meaning</th><th class="number">pairs</th><th class="number">share</th>'
    yield '<th class="number">only this</th><th>filter</th></tr></thead><tbody>'
    for rule in sorted(report.rules, key=lambda rule: -rule.found):
        pairs, share, only = f"{rule.found:,}", _share(rule.found, report.pairs), f"{rule.only:,}"
        if not rule.was_checked:
            pairs, share, only = "not checked", "", ""
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in (pairs, share, only))
        name = f'<a href="#{rule.name}">{rule.name}</a>' if rule.found else rule.name
        state = "active" if rule.is_on else "off"
        yield f"<tr><td>{name}</td><td>{escape(rule.description)}</td>{numbers}<td>{state}</td></tr>"
    yield "</tbody></table>"


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
            yield from _shifts(report.shifts) if rule.name == "shifted" else _examples(rule)


def _shifts(shifts: Sequence[ShiftReport]) -> Iterator[str]:
    yield "<ul>"
    for shift in shifts:
        place = f"{abs(shift.offset)} {'below' if shift.offset > 0 else 'above'}"
        lines = f"<code>{html_text(shift.file)}</code>, lines {shift.first_line:,} to {shift.last_line:,}"
        yield f"<li>{lines}: the translations are {place}</li>"
    yield "</ul>"


def _examples(rule: RuleReport) -> Iterator[str]:
    yield "<table><tbody>"
    for example in rule.examples:
        texts = "".join(f'<td class="text" dir="auto">{html_text(text)}</td>' for text in (example.src, example.tgt))
        yield f"<tr><td>{_place(example)}</td>{texts}</tr>"
    yield "</tbody></table>"


def _least_probable(report: CheckReport) -> Iterator[str]:
    model = report.model
    if model is None:
        return
    yield "<h2>Least probable pairs</h2>"
    yield f"<p>The model {escape(printable(model.model))} scored {model.scored:,} pairs. These are the least probable"
    yield "for their length, worst first; many are wrong translations. The number is the distance of a pair from"
    yield "others of its length, in standard deviations.</p><table><tbody>"
    for deviation, example in zip(model.deviations, model.pairs, strict=True):
        texts = "".join(f'<td class="text" dir="auto">{html_text(text)}</td>' for text in (example.src, example.tgt))
        yield f'<tr><td>{_place(example)}</td>{texts}<td class="number">{deviation:+.1f}</td></tr>'
    yield "</tbody></table>"


def _place(example: Example) -> str:
    return f'<code title="{html_text(example.file)}">{html_text(Path(example.file).name)}:{example.line}</code>'


def _share(count: int, total: int) -> str:
    return f"{100 * count / max(1, total):.2f}%"
