"""Read plain text: each line is a block, but for prose that an editor broke into lines of one width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Literal

from nmt.apps.documents.blocks import Form, Template, split_lines

Lines = Literal["keep", "join"]
"""The role of lines: a text each, or parts of the text of their paragraph."""

_MIN_WIDTH, _MAX_WIDTH = 40, 120  # of lines that an editor broke, in columns
_MOST = 2 / 3
# What opens a line: quotes, list marks, tasks, headings, notes; not the first mark of a list on one line.
_OPENING = re.compile(
    r"(?:[ \t]{0,12}(?:>|(?!•.*\s•\s)[-*+•–](?=[ \t])(?:[ \t]+\[[ xX]\](?=[ \t]))?"
    r"|(?!1([.)]).*\s2\1\s)\d{1,9}[.)](?=[ \t])|\[[ xX]\](?=[ \t])"
    r"|\[\^[^\]\s]+\]:|#{1,6}(?=[ \t])))*[ \t]*"
)
_IDEOGRAPHS = r"\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_WIDE = re.compile(f"[{_IDEOGRAPHS}]")
_END = re.compile(r"(?:\w[\w)\]]{2,}|\W)[.!?:…]+[\"'”’»)\]]*$|[。！？：…][”’」』）]*$")  # of a sentence
_PAUSE = re.compile(r"[.,;:!?…。，、；：！？—–][\"'”’»)\]」』）]*$")
# Rows of tables, records, and what is said or logged at a time.
_RECORD = re.compile(r"\W?\d[\d:./T-]*\W?\s|[\w.@ -]{1,25}[:>]\s|.*(?:\t|\s{3,}|[|│┃║]|\.{4}|(?:\. ){3}|;.*;)")
# Limited before a mark, so that the time for alternating spaces and tabs is. Bars in brackets, {{ x | y }}, separate
# nothing.
_COLUMNS = re.compile(
    r"\{{1,3}[^{}\t]*\}{1,3}|\[[^\[\]\t]*\]|\([^()\t]*\)|<\w[^<>\t]*>"
    r"|(\t+| {3,}|[ \t]{0,16}(?:[|│┃║]|\.{4,}|(?:\. ){3,}\.?)[ \t]*)"
)
_CODE = re.compile(r"(?: {4}|\t)\S")
# A word divided at the end of a line, but not what stands for a part of two compounds (`Vor- und Nachteile`).
_DIVIDED = re.compile(r"(?<=[^\W\d_])([-\u00ad\u2010])$", re.MULTILINE)
_AND = r"(?:und|oder|bzw|sowie|and|or|to|et|ou|y|o|e|en|of|och|og|i|a|und/oder)\b"
_DIVIDED_WORD = re.compile(rf"{_DIVIDED.pattern}\n(?!{_AND})(.)", re.MULTILINE)


def read_text(text: str, template: Template, *, is_page: bool = False, lines: Lines | None = None) -> None:
    """Read plain text; lines of prose that were broken are joined, and broken at the same width when written.

    `is_page`: the text comes from a page whose letters differ in width, so the lengths of its lines say less. `lines`
    says what the lines are; None: their lengths, ends and beginnings tell.
    """
    written: list[str] = []
    paragraph: list[str] = []
    mark = ""
    for line in [*split_lines(text), ""]:
        opening = opening_of(line)
        last = mark
        is_blank = opening.rstrip() == line.rstrip()
        mark = opening.strip()
        is_quoted = mark == last and not mark.strip("> ")
        if not is_blank and (is_quoted or not (paragraph and mark)):
            paragraph.append(line)
            continue
        if lines is None:
            parts = _parts(paragraph, is_page=is_page)
        else:
            parts = [[each] for each in paragraph] if lines == "keep" else [paragraph] * bool(paragraph)
        for part in parts:
            written += _paragraph(part, template)
        paragraph = [] if is_blank else [line]
        written += [line] if is_blank else []
    template.text = "".join(written)


def opening_of(line: str, pattern: re.Pattern[str] = _OPENING) -> str:
    """Return the marks and the white space that open a line."""
    found = pattern.match(line)
    return found[0] if found else ""


def _parts(lines: list[str], *, is_page: bool) -> list[list[str]]:
    """Return the lines in groups that were one line each before an editor broke them."""
    texts = [line[len(opening_of(line)) :].strip() for line in lines]
    sizes = [len(line.rstrip()) + len(_WIDE.findall(line)) for line in lines]
    width = max(sizes, default=0)
    is_list = sum(map(bool, map(_RECORD.match, texts))) >= len(texts) * _MOST or not any(
        text[:1].islower() or re.search(r"[.,;:!?。，；：！？]", text) for text in texts
    )
    pauses = [bool(_PAUSE.search(text)) for text in texts[:-1]]
    is_verse = len(pauses) > 1 and sum(pauses) > len(pauses) * _MOST
    is_code = all(map(_CODE.match, lines))
    if not _MIN_WIDTH <= width <= _MAX_WIDTH * (1 + is_page) or is_list or is_verse or is_code:
        return [[line] for line in lines]
    parts = [lines[:1]]
    for (text, following), size, line in zip(pairwise(texts), sizes, lines[1:], strict=False):
        first = following.split(maxsplit=1)[0]
        is_full = size + (4 if _WIDE.match(first) else len(first) + 1) > width
        is_lower = following[:1].islower()
        goes_on = is_lower and not _PAUSE.search(text)
        is_end = _END.search(text) and not is_lower
        is_broken = _DIVIDED.search(text) or (
            size > width * (0.5 if is_page else 0.7) and (is_full or goes_on or is_page) and not is_end
        )
        if is_broken:
            parts[-1].append(line)
        else:
            parts.append([line])
    return parts


def join_lines(texts: Sequence[str]) -> str:
    """Return lines as one text, in which a word that was divided is whole; a block has a space for a line end."""

    def whole(found: re.Match[str]) -> str:
        hyphen, letter = found.groups()
        return letter if letter.islower() else hyphen + letter

    return _DIVIDED_WORD.sub(whole, "\n".join(texts))


def _paragraph(lines: list[str], template: Template) -> list[str]:
    """Return the opening of the first line, holes for the lines or the columns of one, and the end of the last one."""
    openings = [opening_of(line) for line in lines]
    written = "".join(lines)[len(openings[0]) :]
    raw = written.rstrip()
    if len(lines) > 1:
        text = join_lines([line[len(opening) :].strip() for opening, line in zip(openings, lines, strict=True)])
        holes = [template.hole_of(text, Form(str, wrapping(lines, openings, _OPENS_ITEM)), raw)]
    else:
        columns = [each.span() for each in _COLUMNS.finditer(raw) if each[1]]
        bounds = [0, *chain.from_iterable(columns), len(raw)]
        cells = enumerate(raw[start:end] for start, end in pairwise(bounds))
        holes = [cell if n % 2 else template.hole_of(cell, Form(str), cell) for n, cell in cells]
    return [openings[0], *holes, written[len(raw) :]]


_OPENS_ITEM = re.compile(r"(?:[-+*#>=]|\d+[.)])(?:\s|$)")


def wrapping(lines: Sequence[str], openings: Sequence[str], mark: re.Pattern[str]) -> Callable[[str], str]:
    """Return a function that breaks a text as `lines` were, without the first of their `openings`.

    No line but the first begins with a `mark`. Line breaks in the text stay; they have an opening after them.
    """
    if len(lines) < 2:
        return str
    first, other = openings[:2]
    width = max(len(line.rstrip()) for line in lines)
    line_end = lines[0].removeprefix(lines[0].rstrip("\r\n"))

    def wrap(written: str) -> str:
        wrapper = textwrap.TextWrapper(width, subsequent_indent=other, break_long_words=False, break_on_hyphens=False)
        pieces = map(wrapper.wrap, (first + written).split("\n"))
        broken = "\n".join(map("\n".join, pieces))[len(first) :]
        return re.sub(rf"(?<!\\)\n{re.escape(other)}(?={mark.pattern})", " ", broken).replace("\n", line_end)

    return wrap
