"""Read a sheet of an Excel workbook with openpyxl (extra `xlsx`)."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from nmt.base.errors import DataError, NmtError, require
from nmt.config.corpora import ParallelFiles
from nmt.data.read.formats.number_formats import as_shown
from nmt.data.read.formats.records import Record, on_one_line, say_once
from nmt.data.read.formats.tables import HEAD_ROWS, Row, read_table
from nmt.data.read.lines import open_text

MAX_ROWS = 1_048_576  # Excel's maximum; a forged row number could otherwise mean billions of empty rows
MAX_UNPACKED_BYTES = 1_000_000_000  # openpyxl keeps the texts in memory
_MAX_COLUMNS = 1000  # unless one beyond is chosen by number; one stray cell in the last column makes a row of 16,384
_MAX_FILES = 10_000
_MANY_ROWS = 20  # from here on, no other sheet is more of a table
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_SAVE_AGAIN = "save it as .xlsx again, or export the sheet as csv"


def read_xlsx(files: ParallelFiles, path: Path) -> Iterator[Record]:
    """Yield the records of one sheet; `line` is the row number. A formula is read as the value saved with it.

    Raises DataError as `read_table` does, if openpyxl is not installed, or if the file is not a workbook, is encrypted,
    unpacks to more than the limits, declares a DTD, or lacks the sheet.
    """
    return read_table(_rows(files, path), files, path)


def _rows(files: ParallelFiles, path: Path) -> Iterator[Row]:
    with open_text(path) as file, open_sheet(file, files.sheet, path, is_table=True) as sheet:
        width = max([_MAX_COLUMNS, *(column for column in files.columns if isinstance(column, int))])
        for number, cells in enumerate(sheet.iter_rows(), start=1):
            if number > MAX_ROWS:
                raise DataError(f"a sheet with more than {MAX_ROWS:,} rows", path=path, line=number, hint=_SAVE_AGAIN)
            yield number, [_text(cell, path, number) for cell in cells[:width]]


@contextmanager
def open_sheet(file: BinaryIO, wanted: int | str | None, path: Path, *, is_table: bool = False) -> Iterator[Any]:
    """Open the sheet `wanted` of a workbook for reading. DataError as `read_xlsx`.

    Default: the first; if it `is_table`, the first with two columns, because a sheet of explanations may precede it.
    """
    _check_archive(file, path)
    openpyxl = require("xlsx", "openpyxl", "reading .xlsx", otherwise="export the sheet as csv", path=path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions, which are irrelevant for text
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        with closing(book):
            sheet = _sheet(book, wanted, path, is_table=is_table)
            sheet.reset_dimensions()  # the size given in the file may be wrong
            yield sheet
    except (GeneratorExit, NmtError):
        raise
    except Exception as error:  # openpyxl raises many types of exceptions
        reason = str(error) or type(error).__name__
        raise DataError(f"not readable as a workbook: {reason}", path=path, hint=_SAVE_AGAIN) from None


def unescape_cell(text: str) -> str:
    """Return the text of a cell, with the characters that its escapes stand for, such as the CR of a pasted text."""
    return _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text)


def _text(cell: Any, path: Path, line: int) -> str:
    """Return the text of a cell as Excel shows it."""
    value = cell.value
    if isinstance(value, str):
        return on_one_line(unescape_cell(value), path, line)
    if "1900-02-28" in str(value):
        say_once(f"{path}:{line}: 28 February 1900 may be the 29th that Excel has, which openpyxl reads alike")
    return "" if value is None else as_shown(value, cell.number_format)


def _sheet(book: Any, wanted: int | str | None, path: Path, *, is_table: bool) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    sheets: dict[int | str, Any] = {key: sheet for i, sheet in enumerate(book.worksheets) for key in (i + 1, names[i])}
    if (wanted or 1) not in sheets:
        raise DataError(
            f"no sheet {wanted!r}" if wanted else "no sheet",
            path=path,
            hint=f"the sheets are {', '.join(map(repr, names))}; columns by name follow a colon: #SHEET:German,English"
            if names
            else "the workbook has no sheet",
        )
    if wanted is None and len(names) > 1:
        number = _first_table(book.worksheets) if is_table else 1
        which = "the first" if number == 1 else f"{names[number - 1]!r}, the first with two columns,"
        say_once(
            f"{path}: reading {which} of the sheets {', '.join(map(repr, names))}; "
            "sheet, or #SHEET behind the file, chooses another"
        )
        return sheets[number]
    return sheets[wanted or 1]


def _first_table(sheets: Sequence[Any]) -> int:
    """Return the number of the first sheet in which many rows have two filled cells, compared to the other sheets."""
    full = []
    for sheet in sheets:
        sheet.reset_dimensions()
        rows = islice(sheet.iter_rows(values_only=True), HEAD_ROWS)
        are_full = (len(row) - row.count(None) > 1 for row in rows)
        full.append(sum(islice(filter(None, are_full), _MANY_ROWS)))
    return 1 + next(i for i, count in enumerate(full) if 2 * count >= max(full))


def _check_archive(file: BinaryIO, path: Path) -> None:
    """Raise DataError unless the file is a zip archive of moderate size without a DTD in any part."""
    begin = b""
    try:
        begin = file.read(8)
        if begin.startswith(b"\xd0\xcf\x11\xe0"):
            raise DataError(
                "an old workbook (.xls), or one with a password", path=path, hint="save it as .xlsx, without a password"
            )
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
            if len(parts) > _MAX_FILES or sum(part.file_size for part in parts) > MAX_UNPACKED_BYTES:
                raise DataError(
                    f"unpacked, this workbook has over {MAX_UNPACKED_BYTES >> 20:,} MB or {_MAX_FILES:,} files",
                    path=path,
                    hint="export the sheet as csv",
                )
            for part in parts:
                if part.filename.endswith((".xml", ".rels")):
                    with archive.open(part) as xml:
                        if b"<!DOCTYPE" in xml.read(4096):
                            raise DataError(f"its part {part.filename} declares a DTD", path=path, hint=_SAVE_AGAIN)
    except NmtError:
        raise
    except Exception as error:  # zipfile and the compressions raise many types, such as RuntimeError if encrypted
        raise DataError(
            "this is not a workbook" if begin[:2] != b"PK" else f"not readable as a workbook: {error}",
            path=path,
            hint=_SAVE_AGAIN,
        ) from None
    file.seek(0)
