"""Read tab- and comma-separated text as rows of cells.

In a tsv, quotation marks are text, unless the configuration says otherwise or the file is clearly quoted. It is if
every cell with a quotation mark is written as spreadsheets do (in quotation marks, with those inside doubled), and at
least one of them contains a doubled mark, a tab or a line break. In a csv, cells may always be quoted (RFC 4180).
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path

from nmt.base.errors import DataError
from nmt.config.corpora import ParallelFiles
from nmt.data.read.formats.records import MAX_RECORD_CHARS, Record, on_one_line, say_once, too_long
from nmt.data.read.formats.tables import Row, read_table
from nmt.data.read.lines import read_lines

Line = tuple[int, str]

_HEAD_LINES = 1000
_HEAD_CHARS = 1_000_000
_NAMES = {"\t": "tabs", ",": "','", ";": "';'", "|": "'|'"}
_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^"\t\n]*))([\t\n])')
_OPEN_CELL = re.compile(r'"(?:[^"]|"")*')
_SEPARATOR_LINE = re.compile(r"sep=([,;|\t])")  # Excel writes and reads it as the first line
_DOUBLE = "inside a quoted cell, double each quotation mark; for a tsv whose marks are text, set quoting: false"
_QUOTING_FAULTS = {  # by words in the message of csv.Error
    "unexpected end": "this quoted cell is never closed",
    "field larger": f"a cell of over {csv.field_size_limit():,} characters; a quotation mark may not be closed",
    "expected after": "there is text after the closing quotation mark of a cell",
}


def read_tsv(files: ParallelFiles, path: Path) -> Iterator[Record]:
    """Yield the records of a tab-separated file. Raises DataError as `read_lines` and `read_table` do."""
    with closing(read_lines(path)) as texts:
        lines = enumerate(texts, start=1)
        head = _head(lines)
        quoted = files.quoting
        if quoted == "auto":
            quoted = is_quoted(head)
            if quoted:
                say_once(f"{path}: reading cells as quoted by a spreadsheet; set quoting: false if the marks are text")
        rows: Iterator[Row]
        if quoted:
            rows = _quoted_rows(chain(head, lines), path, "\t")
        else:
            rows = ((number, line.split("\t")) for number, line in chain(head, lines))
        yield from read_table(rows, files, path)


def read_csv(files: ParallelFiles, path: Path) -> Iterator[Record]:
    """Yield the records of a csv. Raises DataError as `read_lines` and `read_table` do, and for unbalanced quotes.

    With `delimiter: auto` the delimiter is the one of `, ; | tab` that divides the first rows most evenly.
    """
    with closing(read_lines(path)) as texts:
        lines = enumerate(texts, start=1)
        head = _head(lines)
        given = _SEPARATOR_LINE.fullmatch(head[0][1])
        if given:
            head = head[1:]
        delimiter: str
        if files.delimiter != "auto":
            delimiter = "\t" if files.delimiter == "tab" else files.delimiter
        elif given:
            delimiter = given[1]
        else:
            delimiter = find_delimiter(head, path)
            say_once(f"{path}: the cells are separated by {_NAMES[delimiter]}")
        yield from read_table(_quoted_rows(chain(head, lines), path, delimiter), files, path)


def _head(lines: Iterator[Line]) -> list[Line]:
    """Return the first lines, which decide how the file is read."""
    head: list[Line] = []
    num_chars = 0
    for line in lines:
        head.append(line)
        num_chars += len(line[1])
        if len(head) == _HEAD_LINES or num_chars > _HEAD_CHARS:
            break
    return head


def is_quoted(head: Sequence[Line]) -> bool:
    """Return whether the first lines are rows with the same number of cells, quoted as spreadsheets do."""
    text = "".join(f"{line}\n" for _, line in head)
    at = 0
    width = 0
    evidence = False
    widths = set()
    while match := _CELL.match(text, at):
        at = match.end()
        width += 1
        quoted, plain, end = match.groups()
        evidence = evidence or (quoted is not None and any(mark in quoted for mark in ('""', "\t", "\n")))
        if end == "\n":
            if width > 1 or plain is None or plain.strip():
                widths.add(width)
            width = 0
    goes_on = (len(head) == _HEAD_LINES or len(text) > _HEAD_CHARS) and _OPEN_CELL.fullmatch(text, at)
    return evidence and len(widths) == 1 and max(widths) > 1 and (at == len(text) or bool(goes_on))


def _quoted_rows(lines: Iterable[Line], path: Path, delimiter: str) -> Iterator[Row]:
    """Yield rows of possibly quoted cells, each with its first line number; line breaks become spaces."""
    begin = num_chars = 0  # no line of the record has been read yet

    def counted() -> Iterator[str]:
        nonlocal begin, num_chars
        for number, line in lines:
            begin = begin or number
            num_chars += len(line)
            if num_chars > MAX_RECORD_CHARS:
                raise too_long(path, begin)
            yield line + "\n"

    try:
        for cells in csv.reader(counted(), delimiter=delimiter, strict=True):
            yield begin, [on_one_line(cell, path, begin) if "\n" in cell or "\r" in cell else cell for cell in cells]
            begin = num_chars = 0
    except csv.Error as error:
        message = next((text for words, text in _QUOTING_FAULTS.items() if words in str(error)), "")
        raise DataError(
            message or f"not readable as csv: {error}",
            path=path,
            line=begin,
            hint=_DOUBLE if message else "save the file as csv again",
        ) from None


def find_delimiter(head: Sequence[Line], path: Path) -> str:
    """Return the delimiter that splits the most rows into the same number of cells, at least two."""
    evenly = {"": 0}  # the number of rows of one width
    for delimiter in ("\t", ";", ",", "|"):
        with suppress(csv.Error):
            widths = Counter(map(len, csv.reader((f"{line}\n" for _, line in head), delimiter=delimiter)))
            evenly[delimiter] = max((count for width, count in widths.items() if width > 1), default=0)
    best = max(evenly, key=evenly.__getitem__)
    if not best:
        raise DataError(
            "no delimiter found: no row has two cells separated by , ; | or tab",
            path=path,
            line=head[0][0],
            hint="set delimiter, or use the key of another format",
        )
    return best
