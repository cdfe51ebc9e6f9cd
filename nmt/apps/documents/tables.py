"""Add a column of translations to a table: csv, tsv, xlsx. All other cells, formats and sheets stay as they are."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from nmt.apps.documents.archives import repack, unpack
from nmt.apps.documents.blocks import Document, Form, Template, decode, encode, escape_text, split_lines
from nmt.base.errors import DataError
from nmt.data.read.cells import cell_error, looks_like_column_name
from nmt.data.read.formats.delimited import find_delimiter, is_quoted
from nmt.data.read.formats.xlsx import MAX_ROWS, open_sheet, unescape_cell

_HEADER = "\0h"
_BREAKS = re.compile(r"([\r\n\t]+)")  # in a cell
_MAX_COLUMNS = 16_384  # of Excel
_PREFIX = r"<((?:\w+:)?)"
_ROW = re.compile(rf"{_PREFIX}row\b([^>]*)(?<!/)>(.*?)(?=</\1row>)", re.DOTALL)
_NUMBER = re.compile(r'\sr="(\d{1,7})"')
_DIMENSION = re.compile(r'(<(?:\w+:)?dimension ref="[A-Z]+\d+:)[A-Z]+')


def read_table(content: bytes, name: str, column: str) -> Document:
    """Read a file; each cell of one column is a block. DataError if it is not such a table, or has no such column.

    `column` is its number, from 1, or its name in the first row; in xlsx with or without a sheet (`Sheet1:2`). The
    table gets a column of translations, with the name of their language if the first row has names.
    """
    template = Template()
    path = Path(name)
    if path.suffix.lower() == ".xlsx":
        return _read_sheet(content, path, *column.rpartition(":")[::2], template)
    template.text = "".join(_read_rows(content, path, column, template))
    return Document([template], lambda texts: encode(texts[0], content), _name_column)


def _name_column(template: Template, code: str) -> None:
    template.text = template.text.replace(_HEADER, code, 1)


def _holes(template: Template, text: str, line: int, write: Callable[[str], str]) -> str:
    """Return a hole for each line of a cell; nothing for a formula or an error value."""
    template.line = line
    return "" if cell_error(text) else "".join(template.hole_of(part, Form(write)) for part in _BREAKS.split(text))


def _read_rows(content: bytes, path: Path, column: str, template: Template) -> list[str]:
    text = decode(content)
    lines = split_lines(text)
    head = [(number, line.rstrip("\r\n")) for number, line in enumerate(lines[:1000], 1)]
    is_csv = path.suffix.lower() == ".csv"
    given = re.match(r"sep=([,;|\t])\r?$", text, re.MULTILINE) if is_csv else None
    delimiter = given[1] if given else "," if is_csv else "\t"
    if is_csv and head and not given:
        with suppress(DataError):  # of a table of one column
            delimiter = find_delimiter(head, path)
    is_plain = not is_csv and not is_quoted(head)
    num_given: int = bool(given)
    rows: list[tuple[list[str], str, int]] = []  # cells, as they are written, first line
    at = num_given
    reader = csv.reader(
        lines[at:], delimiter=delimiter, quoting=csv.QUOTE_NONE if is_plain else csv.QUOTE_MINIMAL, strict=True
    )
    try:
        for cells in reader:
            end = reader.line_num + num_given
            rows.append((cells, "".join(lines[at:end]), at + 1))
            at = end
    except csv.Error as error:
        raise DataError(f"not readable as a table: {error}", line=at + 1) from None
    width, index, names = _find_column([cells for cells, _, _ in rows], column)

    def write(text: str) -> str:
        return re.sub(r"[\t\r\n]+", " ", text) if is_plain else text.replace('"', '""')

    quote = "" if is_plain else '"'
    parts = lines[:num_given]
    for cells, raw, line in rows:
        filled = raw.rstrip("\r\n")
        new = _HEADER if cells is names else _holes(template, "".join(cells[index : index + 1]), line, write)
        added = [delimiter * (width - len(cells) + 1), quote, new, quote] if filled.strip() else []
        parts += [filled, *added, raw[len(filled) :]]
    return parts


def _read_sheet(content: bytes, path: Path, sheet: str, column: str, template: Template) -> Document:
    wanted = int(sheet) if sheet.isdecimal() else sheet or None
    with open_sheet(BytesIO(content), wanted, path) as opened:
        rows = [tuple(row) for row in opened.iter_rows(values_only=True, max_row=MAX_ROWS)]
        file = opened._worksheet_path
    from openpyxl.utils import get_column_letter  # `open_sheet` says if it is missing

    width, index, names = _find_column(rows, column)
    if width >= _MAX_COLUMNS:
        raise DataError("its last possible column is in use: there is no place for another")
    letters = get_column_letter(width + 1)
    with unpack(content, ".xlsx") as archive:
        packed = archive.read(file)
    parts: list[str] = []
    xml = decode(packed)
    at = 0
    number = 0
    for row in _ROW.finditer(xml):
        given = _NUMBER.search(row[2])
        number = int(given[1]) if given else number + 1
        cells = rows[number - 1] if number <= len(rows) else ()
        text = "".join(unescape_cell(cell) for cell in cells[index : index + 1] if isinstance(cell, str))
        if text.strip():
            start = re.sub(r'\sspans="[^"]*"', "", xml[row.start() : row.start(3)])
            prefix = row[1]
            cell = f'<{prefix}c r="{letters}{number}" t="inlineStr"><{prefix}is><{prefix}t>'
            new = _HEADER if cells is names else _holes(template, text, number, escape_text)
            end = f"</{prefix}t></{prefix}is></{prefix}c>"
            parts += [xml[at : row.start()], start, row[3], cell, new, end]
            at = row.end()
    parts.append(xml[at:])
    parts[0] = _DIMENSION.sub(rf"\g<1>{letters}", parts[0], count=1)
    template.text = "".join(parts)
    return Document([template], lambda texts: repack(content, {file: encode(texts[0], packed)}), _name_column)


def _find_column(rows: Sequence[Sequence[object]], column: str) -> tuple[int, int, Sequence[object] | None]:
    """Return the number of columns, the index of the chosen one, and the row of their names, if there is one."""
    first = next(filter(any, rows), ())
    names = ["" if cell is None else str(cell).strip() for cell in first]
    width = max(map(len, rows), default=0)
    is_number = column.isdecimal() and 1 <= int(column[:6]) <= width
    if is_number:
        index = int(column) - 1
        has_names = index < len(names) and looks_like_column_name(names[index])
    elif column in names:
        index = names.index(column)
        has_names = True
    else:
        raise DataError(
            f"no column {column!r}",
            hint=f"the columns are 1 to {width}, or by name: {', '.join(map(repr, names[:20]))}",
        )
    return width, index, first if has_names else None
