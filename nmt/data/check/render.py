"""Render the report of a check as text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import chain

from nmt.base.errors import counted, printable
from nmt.data.check.summary import CheckReport, Example, ModelReport, RuleReport, ShiftReport

_MAX_TEXT = 100  # columns of an example
_NEEDS = {
    "wrong_language": "needs --langid",
    "overlap": "needs a configuration with data.valid or data.test",
    "near_overlap": "the same",
}


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
