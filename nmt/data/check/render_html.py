"""The report of a check as one HTML page that needs nothing else: styles and pictures are in it, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from nmt.data.check.summary import CheckReport, Example, RuleReport, ShiftReport, bar_labels
from nmt.errors import printable

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e26; --soft: #5b6070; --line: #d9dce5; --page: #ffffff; --fill: #3f51b5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ef; --soft: #a3a8b8; --line: #3a3f4d; --page: #16181d; --fill: #8c9eff; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; margin-bottom: 0; }
p, figcaption { color: var(--soft); max-width: 45rem; } figure { margin: 1.5rem 0; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.text { overflow-wrap: anywhere; width: 45%; } code { color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: 2rem; } .figures b { display: block; font-size: 1.8rem; }
svg { width: 100%; height: auto; } svg rect { fill: var(--fill); } svg text { fill: var(--soft); font-size: 11px; }
"""
_BAR_WIDTH, _HEIGHT, _FOOT = 20, 120, 18  # of a picture, in its own units
_LABEL_EVERY = 3  # bars


def render_html(report: CheckReport) -> str:
    """Return the report as an HTML page; whatever comes from the corpus is escaped."""
    title = f"Check of {printable(', '.join(report.files))}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            *_overview(report),
            *_rule_table(report),
            *_pictures(report),
            *_findings(report),
            *_least_probable(report),
            "</body>\n</html>\n",
        ]
    )


def _overview(report: CheckReport) -> Iterator[str]:
    kept = report.pairs - report.dropped
    languages = f"{report.src.language} to {report.tgt.language}"
    yield "<p>A model learns from pairs of a sentence and its translation. A pair that is broken teaches it mistakes."
    yield "This page counts, rule by rule, the pairs that look broken. Each rule can be wrong: look at its examples"
    yield "before you let it drop pairs.</p>"
    yield '<div class="figures">'
    for number, label in (
        (f"{report.pairs:,}", f"pairs, {languages}"),
        (f"{kept:,}", "pairs are kept by the filters"),
        (f"{report.dropped:,}", f"pairs are dropped ({_share(report.dropped, report.pairs)})"),
    ):
        yield f"<div><b>{number}</b>{escape(label)}</div>"
    yield "</div>"


def _rule_table(report: CheckReport) -> Iterator[str]:
    yield "<h2>What was found</h2>"
    yield "<p><b>only this</b>: pairs that no other active filter drops, so that this rule alone decides on them.</p>"
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
            f"{side.median} characters, 99% at most {side.percent_99}. The last bar holds all longer ones."
        )
        yield _bar_chart(side.bars, length_labels, caption)
    caption = (
        f"Pairs by {report.tgt.language} characters per {report.src.language} character; {report.ratio} is usual. "
        "Pairs far from the peak are rarely translations."
    )
    yield _bar_chart(report.ratio_bars, ratio_labels, caption)


def _bar_chart(bars: Sequence[int], labels: Sequence[str], caption: str) -> str:
    top, width = max(1, *bars), _BAR_WIDTH * len(bars)
    parts = [f'<figure><svg viewBox="0 0 {width} {_HEIGHT + _FOOT}" role="img" aria-label="{escape(caption)}">']
    for number, (count, label) in enumerate(zip(bars, labels, strict=True)):
        height = _HEIGHT * count / top
        place = f'x="{number * _BAR_WIDTH + 1}" y="{_HEIGHT - height:.1f}" width="{_BAR_WIDTH - 2}"'
        parts.append(f'<rect {place} height="{height:.1f}"><title>from {label}: {count:,} pairs</title></rect>')
        if number % _LABEL_EVERY == 0:
            parts.append(f'<text x="{number * _BAR_WIDTH}" y="{_HEIGHT + _FOOT - 4}">{label}</text>')
    return "".join([*parts, f"</svg><figcaption>{escape(caption)}</figcaption></figure>"])


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
        lines = f"<code>{_text(shift.file)}</code>, lines {shift.first_line:,} to {shift.last_line:,}"
        yield f"<li>{lines}: the translations stand {place}</li>"
    yield "</ul>"


def _examples(rule: RuleReport) -> Iterator[str]:
    yield "<table><tbody>"
    for example in rule.examples:
        texts = "".join(f'<td class="text" dir="auto">{_text(text)}</td>' for text in (example.src, example.tgt))
        yield f"<tr><td>{_place(example)}</td>{texts}</tr>"
    yield "</tbody></table>"


def _least_probable(report: CheckReport) -> Iterator[str]:
    model = report.model
    if model is None:
        return
    yield "<h2>Least probable</h2>"
    yield f"<p>The model {escape(printable(model.model))} scored {model.scored:,} pairs. These are the least probable"
    yield "for their length, the worst first; many are wrong translations. The number says how far a pair is from"
    yield "others of its length, in standard deviations.</p><table><tbody>"
    for deviation, example in zip(model.deviations, model.pairs, strict=True):
        texts = "".join(f'<td class="text" dir="auto">{_text(text)}</td>' for text in (example.src, example.tgt))
        yield f'<tr><td>{_place(example)}</td>{texts}<td class="number">{deviation:+.1f}</td></tr>'
    yield "</tbody></table>"


def _place(example: Example) -> str:
    return f'<code title="{_text(example.file)}">{_text(Path(example.file).name)}:{example.line}</code>'


def _text(text: str) -> str:
    return escape(printable(text)) or "<i>empty</i>"


def _share(count: int, total: int) -> str:
    return f"{100 * count / max(1, total):.2f}%"
