"""Convert rows of cells to records, for tsv, csv and xlsx: columns, header rows, faulty cells, ID columns."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from statistics import median

from nmt.base.errors import DataError, counted, in_words
from nmt.config.corpora import ParallelFiles
from nmt.data.read.cells import cell_error, looks_like_column_name
from nmt.data.read.formats.records import Record, say_once

HEAD_ROWS = 1000  # rows that are examined before the first record is yielded
Row = tuple[int, list[str]]  # the first line (from 1) of a row, and its cells

_MIN_ROWS = 20  # fewer do not characterize a column
_MAX_ID_CHARS = 40
_ID = re.compile(  # a word with a digit, a number, a verse (1 Samuel 3:4)
    r"[A-Za-z0-9_.:/#()+-]*\d[A-Za-z0-9_.:/#()+-]*|[\d\W_]*\d[\d\W_]*"
    r"|(?:[^\s,;!?]+ ){1,3}\d+[a-z]?(?:[:.,/–-] ?\d+[a-z]?)+"
)
_SHORT = 4  # times the length of a name, at least, is the usual length of a sentence
_SAME = 10  # times as many different texts as a column of chapters or of speakers has one of sentences, at least
_NUMBER = re.compile(r"[\d\W]+")
_MAX_COLUMNS = 1000  # that are looked at
_SHOWN_COLUMNS = 20
_BY_NUMBER_OR_NAME = "`columns` gives the source and target columns, by number from 1 or by name"
_BY_NUMBER = "columns are separated by one tab; `columns` gives the source and target columns, counted from 1"
_TOO_MANY_CELLS = {
    "tsv": "sentences must not contain tabs; replace them with spaces",
    "csv": "a cell that contains the delimiter must be enclosed in quotation marks",
}


def read_table(rows: Iterator[Row], files: ParallelFiles, path: Path) -> Iterator[Record]:
    """Yield a record per row: the cells of the chosen columns, stripped; a blank row gives two empty sides.

    The header, if there is one, is the first row with two filled cells: a title above the table fills only one.
    A header row is skipped. Rows with a spreadsheet's error value (`#REF!`) or a formula in a chosen column are
    skipped, and counted in a warning at the end. Raises DataError for a missing column,
    for a row with more cells than the first, and for a chosen column of numbers or IDs while another one contains text.
    """
    blank_lines: list[int] = []  # above the table
    for row in rows:
        if _num_filled(row):
            head = [row, *islice(rows, HEAD_ROWS - 1)]
            break
        blank_lines.append(row[0])
    else:
        return _blank_records(blank_lines)
    first = next((i for i, row in enumerate(head) if _num_filled(row) > 1), 0)
    line, cells = head[first]
    if len(cells) > len(files.columns) and "columns" not in files.model_fields_set:
        say_once(f"{path}: reading columns 1 and 2 of {len(cells)}; columns, or #1,3 behind the file, chooses others")
    src, tgt, has_header = _find_columns(files, line, cells, path)
    body = [row for i, row in enumerate(head) if not (has_header and i == first)]
    names = cells if has_header else []
    _refuse_other_columns(body, (src, tgt), names, files, path)
    records = _records(chain(body, rows), files.form, (src, tgt), len(cells), path)
    return chain(_blank_records(blank_lines), records)


def _blank_records(lines: Sequence[int]) -> Iterator[Record]:
    return (("", "", line) for line in lines)


def _records(rows: Iterator[Row], form: str, columns: tuple[int, int], width: int, path: Path) -> Iterator[Record]:
    src_column, tgt_column = columns
    needed = max(columns) + 1
    noun = "tab-separated column" if form == "tsv" else "column"
    faults: Counter[str] = Counter()
    first_fault = 0
    usual = width if width >= needed else -1
    widest = width
    for line, cells in rows:
        if len(cells) != usual:
            if not any(cell.strip() for cell in cells):
                yield "", "", line
                continue
            if form == "xlsx":  # in text, every row must have as many cells as the first
                widest = max(widest, len(cells))
                cells += [""] * (needed - len(cells))
            elif len(cells) < needed:
                raise DataError(
                    f"{counted(len(cells), noun)}, but column {needed} is requested",
                    path=path,
                    line=line,
                    hint=_BY_NUMBER if form == "tsv" else _BY_NUMBER_OR_NAME,
                )
            elif len(cells) > max(width, needed):
                raise DataError(
                    f"{len(cells)} {noun}s, but the first row has {width}",
                    path=path,
                    line=line,
                    hint=_TOO_MANY_CELLS[form],
                )
        src, tgt = cells[src_column].strip(), cells[tgt_column].strip()
        if (src and src[0] in "#=") or (tgt and tgt[0] in "#="):
            fault = cell_error(src) or cell_error(tgt)
            if fault:
                faults[fault] += 1
                first_fault = first_fault or line
                continue
        yield src, tgt, line
    if widest < needed and form == "xlsx":
        raise DataError(
            f"column {needed} is requested, but the widest row has {counted(widest, 'cell')}",
            path=path,
            hint=_BY_NUMBER_OR_NAME,
        )
    if faults:
        kinds = ", ".join(f"{count:,} with {fault}" for fault, count in faults.most_common())
        say_once(
            f"{path}: skipped {counted(faults.total(), 'row')}: {kinds}; the first is on line {first_fault}",
            logging.WARNING,
        )


def _num_filled(row: Row) -> int:
    """Return the number of cells of a row that are not blank."""
    return sum(map(bool, map(str.strip, row[1])))


def _find_columns(files: ParallelFiles, line: int, cells: list[str], path: Path) -> tuple[int, int, bool]:
    """Return the indices of source and target column (from 0), and whether the first row is a header."""
    by_name = any(isinstance(column, str) for column in files.columns)
    src, tgt = (_index(column, cells, path, line) for column in files.columns)
    if src == tgt:
        raise DataError(f"both columns are column {src + 1}", path=path, line=line, hint="choose two different columns")
    if by_name or files.header != "auto":
        return src, tgt, by_name or files.header is True
    chosen = [cells[i] for i in (src, tgt) if i < len(cells)]
    are_names = list(map(looks_like_column_name, cells))
    has_name = len(chosen) == 2 and (are_names[src] or are_names[tgt])
    has_header = has_name and sum(are_names) > 1
    if has_name:
        names = ", ".join(map(str.strip, chosen))
        reason = f"the first row ({names}) is read as a pair; header: true, or columns by name, skips it"
        if has_header:
            reason = f"skipped the first row, which looks like a header ({names}); header: false keeps it"
        say_once(f"{path}:{line}: {reason}")
    return src, tgt, has_header


def _index(column: int | str, names: Sequence[str], path: Path, line: int) -> int:
    """Return the index of a column given by its number (from 1) or by its name in the header."""
    if isinstance(column, int):
        return column - 1
    for same in (str.strip, lambda text: text.strip().casefold()):
        found = [i for i, name in enumerate(names) if same(name) == same(column)]
        if len(found) == 1:
            return found[0]
        if found:
            raise DataError(
                f"{len(found)} columns are called '{column}'",
                path=path,
                line=line,
                hint="give columns by number, counted from 1",
            )
    shown = ", ".join(repr(name.strip()[:60]) for name in names[:_SHOWN_COLUMNS])
    raise DataError(
        f"no column is called '{column}'",
        path=path,
        line=line,
        hint=f"the columns in the first row are {shown}{', …' * (len(names) > _SHOWN_COLUMNS)}",
    )


def _refuse_other_columns(
    rows: Sequence[Row], columns: tuple[int, int], names: Sequence[str], files: ParallelFiles, path: Path
) -> None:
    """Raise DataError if a chosen column has no sentences while a column that was not chosen has text.

    It has numbers or IDs; or, unless the user chose other columns than the first two, texts much shorter than those of
    the other chosen column, such as names, or ones that differ in little but numbers, such as chapters.
    """
    if len(rows) < _MIN_ROWS:
        return
    width = max(max(columns) + 1, min(_MAX_COLUMNS, max(len(cells) for _, cells in rows)))
    texts = [[cells[i].strip() for _, cells in rows if len(cells) > i and cells[i].strip()] for i in range(width)]
    least = len(rows) // 2  # of cells that are not empty
    with_text = [i for i in range(width) if sum(map(_is_text, texts[i])) > max(len(texts[i]), least) / 2]
    unread = set(with_text).difference(columns)
    if not unread:
        return
    longest = max(_length(texts[i]) for i in columns)
    is_default = files.columns == type(files).model_fields["columns"].default
    kinds = [len({_NUMBER.sub("", text) for text in column}) for column in texts]
    has_other = is_default and any(3 * _length(texts[i]) > longest for i in unread)
    for side, column in zip(("source", "target"), columns, strict=True):
        ids = list(filter(_is_id, texts[column]))
        share = len(ids) / max(len(texts[column]), least)
        if share > 0.9:
            fault = f"numbers or IDs such as {ids[0]} in {share:.0%} of the first {len(rows):,} rows"
            or_else = ""
        elif has_other and (0 < _SHORT * _length(texts[column]) < longest or _SAME * kinds[column] < max(kinds)):
            fault = f"texts such as '{texts[column][0]}', much shorter or less varied than those of other columns"
            or_else = "; if it is the right one, choose the columns by name, or leave the others out"
        else:
            continue
        name = f" ('{names[column].strip()[:60]}')" if column < len(names) else ""
        numbers = [str(i + 1) for i in with_text if i != column][:_SHOWN_COLUMNS]
        several = len(numbers) > 1
        such_as = f", such as [{numbers[0]}, {numbers[1]}]" if several else ", counted from 1"
        which = f"column {column + 1}{name}, chosen as the {side}"
        raise DataError(
            f"{which}, has {fault}; text is in column{'s' * several} {in_words(numbers)}",
            path=path,
            line=rows[0][0],
            hint=f"set columns to the source and target columns{such_as} (behind the file, after #){or_else}",
        )


def _length(texts: Sequence[str]) -> float:
    """Return the median length of texts in bytes, which differs less between scripts than that in characters."""
    return median([len(text.encode("utf-8", "surrogatepass")) for text in texts] or [0])


def _is_id(cell: str) -> bool:
    return len(cell) <= _MAX_ID_CHARS and _ID.fullmatch(cell) is not None


def _is_text(cell: str) -> bool:
    return not _is_id(cell) and sum(char.isalpha() for char in cell[:200]) >= 2
