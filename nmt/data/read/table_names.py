"""Parse names of files with both languages as a command line gives them: `pairs.tsv#2,3`, `book.xlsx#Sheet1:2,3`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nmt.base.errors import ConfigError
from nmt.config.corpora import FORMAT_OF_ENDING, FORMATS
from nmt.data.read.lines import COMPRESSIONS

_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_SUCH_AS = "such as a.tsv#2,3, a.csv#German,English, a.xlsx#Sheet1:2,3 or a.jsonl#src,tgt"


def format_of(name: str) -> str | None:
    """Return the format that the ending of a file's name stands for, such as csv; None if it is unknown."""
    path = Path(name)
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return FORMAT_OF_ENDING.get(path.suffix.lower().removeprefix("."))


def parse_table_name(name: str, form: str | None = None) -> tuple[str, dict[str, object]]:
    """Return the path in `name`, and the keys of the corpus that follow it after a `#`: columns, sheet or fields.

    - `a.tsv#2,3` and `a.csv#German,English`: the source and target columns;
    - `a.xlsx#Sheet1`, `a.xlsx#2,3` and `a.xlsx#Sheet1:2,3`: the sheet by name or number, the columns, or both
      (`a.xlsx#:German,English`: columns by name in the first sheet);
    - `a.jsonl#src,translation.de`: the source and target fields.

    The format is `form`, or else the one that the ending stands for. If a file has the whole `name`, that file is
    meant. ConfigError if what follows the `#` does not fit the format.
    """
    path, choice = ("", "") if os.path.exists(name) else _split(name)
    form = form or format_of(path)
    if not path or form is None:
        return name, {}
    keys = FORMATS[form].keys
    if "fields" in keys:
        return path, {"fields": _two(name, choice, "fields")}
    if "sheet" in keys:
        sheet, mark, columns = choice.rpartition(":")  # which no sheet may have in its name; a shell would expand "!"
        if not (mark and columns):
            by_number = [part.strip() for part in choice.split(",")]
            is_sheet = len(by_number) != 2 or not all(map(_NUMBER.fullmatch, by_number))
            sheet, columns = (choice, "") if is_sheet else ("", choice)
        chosen: dict[str, object] = {"columns": _two(name, columns, "columns")} if columns else {}
        if sheet:
            chosen["sheet"] = int(sheet) if _NUMBER.fullmatch(sheet) else sheet
        if chosen:
            return path, chosen
    if "columns" in keys:
        return path, {"columns": _two(name, choice, "columns")}
    raise ConfigError(f"{name}: a {form} file has no columns or fields to choose", hint=_SUCH_AS)


def _split(name: str) -> tuple[str, str]:
    """Return the path before a `#` and the text after it; two empty strings if `name` has no such `#`."""
    places = [place for place, char in enumerate(name) if char == "#"]
    for is_path in (os.path.isfile, format_of):
        for place in places:
            if is_path(name[:place]):
                return name[:place], name[place + 1 :].strip()
    return "", ""


def _two(name: str, choice: str, what: str) -> tuple[str, str] | tuple[int, int]:
    """Return two column numbers, or two names of columns or fields. ConfigError if there are not two different ones."""
    first, _, second = (part.strip() for part in choice.partition(","))
    are_numbers = what == "columns" and bool(_NUMBER.fullmatch(first) and _NUMBER.fullmatch(second))
    looks_numeric = what == "columns" and (first.isdecimal() or second.isdecimal())
    if not first or not second or first == second or (looks_numeric and not are_numbers):
        numbered = ", numbered from 1 or by name" if what == "columns" else ""
        raise ConfigError(f"{name}: two different {what} are needed after #{numbered}", hint=_SUCH_AS)
    return (int(first), int(second)) if are_numbers else (first, second)
