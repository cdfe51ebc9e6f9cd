"""Add up the findings of a check, chunk by chunk: counts, examples, lengths, shifted runs; describe them as text."""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from nmt.base.errors import counted, printable
from nmt.base.tables import aligned
from nmt.config.corpora import ParallelFiles
from nmt.data.check.checker import texts_of
from nmt.data.check.profile import MAX_RATIO, Expectations
from nmt.data.check.remarks import SideText, remarks
from nmt.data.check.rules import RULES, rules_that_drop
from nmt.data.check.shifts import Shift
from nmt.data.check.stream import MAX_EXAMPLES, CheckedPairs, DroppedRows
from nmt.data.read.pairs import SentencePair, path_of, paths_of

log = logging.getLogger(__name__)

MAX_SHIFTS = 1000
_EXAMPLE_CHARACTERS = 300
_MAX_TEXT = 100  # columns of an example
_NEEDS = {
    "wrong_language": "needs data.filters.wrong_language",
    "overlap": "needs a configuration with data.valid or data.test",
    "near_overlap": "the same",
    "near_twin": "the same",
}


@dataclass(frozen=True)
class Example:
    """A pair that breaks a rule: its file and line (from 1), and its text, shortened if it is long."""

    file: str
    line: int
    src: str
    tgt: str


@dataclass(frozen=True)
class RuleReport:
    """A rule, the number of pairs that break it, and the number of those that no other active filter drops (`only`).

    `was_checked` is False if the rule lacked its input: the held-out sets, or language identification.
    """

    name: str
    description: str
    is_on: bool
    was_checked: bool
    found: int
    only: int
    examples: list[Example]


@dataclass(frozen=True)
class ShiftReport:
    """Lines whose translation is `offset` lines below (above, if negative)."""

    file: str
    first_line: int
    last_line: int
    offset: int


@dataclass(frozen=True)
class LengthReport:
    """The lengths of a side in characters."""

    language: str
    median: int
    percent_99: int


@dataclass(frozen=True)
class CheckReport:
    """The result of a check. `ratio`: target characters per source character; `remarks`: on all pairs together."""

    files: list[str]
    pairs: int
    dropped: int
    rules: list[RuleReport]
    shifts: list[ShiftReport]
    src: LengthReport
    tgt: LengthReport
    ratio: float
    remarks: list[str]


def summarize(
    chunks: Iterable[CheckedPairs],
    expected: Sequence[Expectations],
    corpora: Sequence[ParallelFiles],
    sides: tuple[SideText, SideText],
) -> CheckReport:
    """Report on the checked pairs of `corpora`; `expected` has the expectations for each.

    Their texts are added to `sides`. The examples of a rule are spread over the corpus, and depend on no chunks.
    """
    num_pairs = 0
    num_dropped = 0
    found: Counter[str] = Counter()
    only: Counter[str] = Counter()
    examples: dict[str, list[SentencePair]] = {name: [] for name in RULES}
    shifts: list[ShiftReport] = []
    for chunk in chunks:
        candidates: dict[str, list[SentencePair]] = {}
        for broken, (pair, dropping, _) in zip(chunk.result.rules, chunk.judged(), strict=True):
            num_dropped += bool(dropping)
            for name in broken:
                found[name] += 1
                only[name] += dropping <= {name}
                candidates.setdefault(name, []).append(pair)
        for name, pairs in candidates.items():
            examples[name] = sorted(examples[name] + pairs, key=_scattered)[:MAX_EXAMPLES]
        num_pairs += len(chunk.pairs)
        for side, texts in zip(sides, texts_of(chunk.pairs), strict=True):
            side.add(texts)
        for shift in chunk.result.shifts:
            _add_shift(shifts, shift, chunk.pairs, corpora)
    that_drop = frozenset().union(*(rules_that_drop(each.filters) for each in expected))
    lack_input = {
        name
        for name in _NEEDS
        if not any(each.identify_languages if name == "wrong_language" else each.held_out for each in expected)
    }
    rules = [
        RuleReport(
            name=name,
            description=description,
            is_on=name in that_drop,
            was_checked=name not in lack_input,
            found=found[name],
            only=only[name],
            examples=[_example_of(pair, corpora) for pair in sorted(examples[name], key=attrgetter("corpus", "line"))],
        )
        for name, description in RULES.items()
    ]
    src, tgt = (LengthReport(side.language, side.length(0.5), side.length(0.99)) for side in sides)
    src_len, tgt_len = (float(side.lengths @ np.arange(len(side.lengths))) for side in sides)
    return CheckReport(
        files=list(map(str, paths_of(corpora))),
        pairs=num_pairs,
        dropped=num_dropped,
        rules=rules,
        shifts=shifts,
        src=src,
        tgt=tgt,
        ratio=round(tgt_len / max(1.0, src_len), 3),
        remarks=list(remarks(sides)),
    )


def _scattered(pair: SentencePair) -> int:
    """Return Knuth's multiplicative hash of the line of a pair, which puts neighboring lines far apart."""
    return pair.line * 2654435761 % (1 << 32)


def _add_shift(
    shifts: list[ShiftReport], shift: Shift, pairs: Sequence[SentencePair], corpora: Sequence[ParallelFiles]
) -> None:
    """Add the lines of a shifted run to `shifts`, or to its last run, which may go on over chunks."""
    first = pairs[shift.start].line
    last = pairs[shift.end - 1].line
    file = str(path_of(corpora, pairs[shift.start]))
    before = shifts[-1] if shifts else None
    if (
        before
        and (before.file, before.offset) == (file, shift.offset)
        and before.last_line + 1 >= first > before.first_line
    ):
        shifts[-1] = replace(before, last_line=last)
    elif len(shifts) < MAX_SHIFTS:
        shifts.append(ShiftReport(file, first, last, shift.offset))


def _example_of(pair: SentencePair, corpora: Sequence[ParallelFiles]) -> Example:
    """Return a pair of `corpora` as an example for reports."""
    src, tgt = pair.src[:_EXAMPLE_CHARACTERS], pair.tgt[:_EXAMPLE_CHARACTERS]
    return Example(str(path_of(corpora, pair)), pair.line, src, tgt)


def render_report(report: CheckReport) -> Iterator[str]:
    """Yield the report as lines: the files, a table of the rules, and examples of each rule."""
    src, tgt = report.src, report.tgt
    yield f"{printable(' + '.join(report.files))}: {counted(report.pairs, 'pair')}"
    for side in (src, tgt):
        yield f"  {side.language}: {side.median} characters in the median, {side.percent_99} at the 99th percentile"
    unlike = ": is one side IDs or names?" if not 1 / MAX_RATIO <= report.ratio <= MAX_RATIO else ""
    yield f"  {report.ratio} {tgt.language} characters per {src.language} character{unlike}"
    yield from (f"  {printable(remark)}" for remark in report.remarks)
    yield ""
    yield from _table(report)
    if clean := [rule.name for rule in report.rules if not rule.found and rule.was_checked]:
        yield f"nothing found: {', '.join(clean)}"
    if unchecked := [f"{rule.name} ({_NEEDS[rule.name]})" for rule in report.rules if not rule.was_checked]:
        yield f"not checked: {', '.join(unchecked)}"
    kept = report.pairs - report.dropped
    share = _share(kept, report.pairs)
    yield f"The filters marked * drop {counted(report.dropped, 'pair')} and keep {kept:,} ({share})."
    for rule in report.rules:
        if rule.is_on:
            yield from _losses(rule.name, rule.found, report.pairs)
    for rule in report.rules:
        if rule.found:
            yield f"\n{rule.name}: {rule.description}"
            is_shifted = rule.name == "shifted"
            yield from map(_shift_line, report.shifts) if is_shifted else map(_example_lines, rule.examples)


def warn_of_losses(dropped: DroppedRows, corpora: Sequence[ParallelFiles]) -> None:
    """Log a warning, with examples, for each filter that drops so many pairs of `corpora` that it may be wrong."""
    for name, count in dropped.counts.items():
        for warning in _losses(name, count, len(dropped.states)):
            examples = [_example_lines(_example_of(pair, corpora)) for pair in dropped.examples[name]]
            log.warning("%s, such as\n%s", warning, "\n".join(examples))


def _losses(rule: str, count: int, num_pairs: int) -> Iterator[str]:
    """Yield a warning if a filter drops more than a third of the pairs."""
    if 3 * count > num_pairs:
        advice = "if they are good, correct the languages, the order of the sides, or the rule"
        yield f"data.filters.{rule} drops {count:,} of {counted(num_pairs, 'pair')}; {advice}"


def _table(report: CheckReport) -> Iterator[str]:
    rows = [("rule", "pairs", "share", "only this")] + [
        (f"{rule.name}{' *' * rule.is_on}", f"{rule.found:,}", _share(rule.found, report.pairs), f"{rule.only:,}")
        for rule in report.rules
        if rule.found
    ]
    return aligned(rows, texts=1)


def _example_lines(example: Example) -> str:
    place = f"{printable(example.file)}:{example.line}"
    return f"  {place}\n    {_shortened(example.src)}\n    {_shortened(example.tgt)}"


def _shift_line(shift: ShiftReport) -> str:
    lines = f"{printable(shift.file)}, lines {shift.first_line:,} to {shift.last_line:,}"
    direction = "below" if shift.offset > 0 else "above"
    return f"  {lines}: the translations are {counted(abs(shift.offset), 'line')} {direction}"


def _share(count: int, total: int) -> str:
    return f"{100 * count / max(1, total):.2f}%"


def _shortened(text: str) -> str:
    """Return `text` made printable and cut to `_MAX_TEXT` columns; East Asian characters take two."""
    width = 0
    shown = ""
    for char in printable(text):
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if width > _MAX_TEXT:
            return shown + "…"
        shown += char
    return shown or "(empty)"
