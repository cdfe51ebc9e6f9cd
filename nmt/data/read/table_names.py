"""Parse names of files with both languages as a command line gives them: `pairs.tsv#2,3`, `book.xlsx#Sheet1:2,3`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.errors import ConfigError
from nmt.data.read.lines import read_lines, without_compression

if TYPE_CHECKING:  # most texts are translated, and scored, without a file of pairs
    from nmt.config.corpora import ParallelFiles

_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_TWO_NUMBERS = re.compile(rf"{_NUMBER.pattern}\s*,\s*{_NUMBER.pattern}")
_SUCH_AS = "such as a.tsv#2,3, a.csv#German,English, a.xlsx#Sheet1:2,3 or a.jsonl#src,tgt"


def format_of(name: str) -> str | None:
    """Return the format that the ending of a file's name stands for, such as csv; None if it is unknown."""
    from nmt.config.corpora import FORMAT_OF_ENDING

    return FORMAT_OF_ENDING.get(without_compression(Path(name)).suffix.lower().removeprefix("."))


def corpus_named(name: str, usual: str | None = None) -> ParallelFiles:
    """Return the corpus in a file with both languages, in the format of its extension; a `#` says what to read in it.

    - `a.tsv#2,3` and `a.csv#German,English`: the source and target columns;
    - `a.xlsx#Sheet1`, `a.xlsx#2,3` and `a.xlsx#Sheet1:2,3`: the sheet by name or number, the columns, or both
      (`a.xlsx#:German,English`: columns by name in the first sheet);
    - `a.jsonl#src,translation.de`: the source and target fields.

    If a file has the whole `name`, that file is meant. `usual`: the format of unknown extensions. ConfigError if the
    extension is unknown, or what follows the `#` does not fit the format; DataError if the extension is unknown because
    the file is no text.
    """
    from nmt.config.corpora import FORMAT_OF_ENDING, ParallelFiles

    path, choice = split_choice(name)
    form = format_of(path) or usual
    if form is None:
        if os.path.exists(path):
            next(read_lines(Path(path)), None)
        raise ConfigError(
            f"--corpus {name}: unknown file extension",
            hint=f"the name must end in .{', .'.join(FORMAT_OF_ENDING)}; "
            "convert others (.po: translate-toolkit's po2tmx)",
        )
    keys = {} if choice is None else _keys(name, form, choice)
    return ParallelFiles.model_validate({form: path, **keys})


def split_choice(name: str) -> tuple[str, str | None]:
    """Return the path before a `#` and the text after it; `name` and None if it has no such `#`."""
    places = [] if os.path.exists(name) else [place for place, char in enumerate(name) if char == "#"]
    for is_path in (os.path.isfile, format_of):
        for place in places:
            if is_path(name[:place]):
                return name[:place], name[place + 1 :].strip()
    return name, None


def _keys(name: str, form: str, choice: str) -> dict[str, object]:
    """Return the keys of a corpus that `choice` sets: columns, sheet or fields."""
    from nmt.config.corpora import FORMATS

    applicable = FORMATS[form].keys
    if "fields" in applicable:
        return {"fields": _two(name, choice, "fields")}
    if "columns" not in applicable:
        raise ConfigError(f"{name}: a {form} file has no columns or fields to choose", hint=_SUCH_AS)
    sheet = ""
    columns = choice
    if "sheet" in applicable and not _TWO_NUMBERS.fullmatch(choice):
        sheet, _, columns = choice.partition(":")  # which no sheet may have in its name; a shell would expand "!"
    keys: dict[str, object] = {}
    if sheet:
        keys["sheet"] = int(sheet) if _NUMBER.fullmatch(sheet) else sheet
    if columns or not sheet:
        keys["columns"] = _two(name, columns, "columns")
    return keys


def _two(name: str, choice: str, what: str) -> tuple[str, str] | tuple[int, int]:
    """Return two column numbers, or two names of columns or fields. ConfigError if there are not two different ones."""
    first, _, second = (part.strip() for part in choice.partition(","))
    are_numbers = what == "columns" and _TWO_NUMBERS.fullmatch(f"{first},{second}")
    looks_numeric = what == "columns" and (first.isdecimal() or second.isdecimal())
    if not first or not second or first == second or (looks_numeric and not are_numbers):
        numbered = ", numbered from 1 or by name" if what == "columns" else ""
        raise ConfigError(f"{name}: two different {what} are needed after #{numbered}", hint=_SUCH_AS)
    return (int(first), int(second)) if are_numbers else (first, second)
