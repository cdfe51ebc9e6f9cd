"""Read texts to translate, line by line, from standard input or a file."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nmt.apps.commands.streams import STANDARD_INPUT
from nmt.base.errors import DataError
from nmt.data.read.lines import decode_lines, read_text_file
from nmt.data.read.table_names import format_of, split_choice

log = logging.getLogger(__name__)


def read_standard_input() -> Iterator[str]:
    """Yield the lines of standard input, with a prompt on a terminal.

    DataError if it is closed or broken, or if its first line is a JSON object, of which the keys would be translated.
    """
    if sys.stdin.isatty():
        log.info("type a line to translate, Ctrl-D to end")
    with _open_standard_input() as stream:
        for number, line in enumerate(decode_lines(stream, "standard input")):
            if number == 0 and _is_json_object(line):
                raise DataError(
                    "this is JSON, not text",
                    path="standard input",
                    line=1,
                    hint="write it to a file whose name ends in .jsonl: --input FILE.jsonl translates its field src",
                )
            yield line


def _is_json_object(line: str) -> bool:
    try:
        return line.startswith("{") and bool(json.loads(line))
    except (ValueError, RecursionError):
        return False


def is_json(path: Path) -> bool:
    """Return whether a file has JSON lines, by its name, in which a field may be chosen (`a.jsonl#text`)."""
    return format_of(split_choice(str(path))[0]) == "jsonl"


def writes_json(form: str | None, path: Path | None) -> bool:
    """Return whether the output is JSON lines: as --format says, else as the input `path` is."""
    return form == "jsonl" if form is not None or path is None else is_json(path)


def read_json_lines(name: Path, records: deque[dict[str, object]]) -> Iterator[str]:
    """Yield the field `src` of each JSON object in a file, or that after `#` in its name; append it to `records`.

    DataError, with its line, if a line is no object with such a text.
    """
    path, field = split_choice(str(name))
    field = field or "src"
    for number, line in enumerate(read_text_file(Path(path)), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            whole = "all strings of a JSON document: nmt translate FILE.json --output NAME.json"
            hint = f"each line is to be an object with a text in the field {field!r}; {whole}"
            raise DataError("this line is not JSON", path=path, line=number, hint=hint) from None
        if not isinstance(record, dict) or not isinstance(record.get(field), str):
            has = f"it has {', '.join(map(repr, record))}; " if isinstance(record, dict) else ""
            raise DataError(
                f"no text in the field {field!r}",
                path=path,
                line=number,
                hint=f"{has}name the field with the text: --input '{path}#FIELD'",
            )
        records.append(record)
        yield record[field]


def decode_argument(text: str) -> str:
    """Return `text`, an argument of the command. Bytes that the locale could not decode are decoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:  # Python represents such bytes as lone surrogates (PEP 383)
        return os.fsencode(text).decode("utf-8", errors="replace")
    return text


def _open_standard_input() -> BinaryIO:
    try:
        os.read(STANDARD_INPUT, 0)
        # A separate buffer: a thread that waits for a line must not hold the one that Python closes at exit.
        return open(STANDARD_INPUT, "rb", closefd=False)
    except OSError as error:
        if error.errno == errno.EBADF:
            raise DataError(
                "standard input is closed", hint="give texts as arguments, or a file with --input"
            ) from None
        raise DataError(f"cannot be read: {error.strerror or error}", path="standard input") from None
