"""Parts shared by the readers of all formats: the record, its limits, messages that are logged once."""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path

from nmt.base.errors import DataError

Record = tuple[str, str, int]  # source, target, and the first line of the record (from 1); in a workbook, the row
MAX_RECORD_CHARS = 1_000_000  # a longer text in one record is rejected before it fills the memory
_LINE_ENDS = re.compile(r"[\r\n]+")
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # text lines have no NUL, and UTF-8 has no surrogates

log = logging.getLogger(__name__)


def on_one_line(text: str, path: Path, line: int) -> str:
    """Return `text` stripped, with line breaks and the white space around them replaced by one space.

    DataError if it is longer than `MAX_RECORD_CHARS`, or contains a character that a text file cannot contain.
    """
    if len(text) > MAX_RECORD_CHARS:
        raise too_long(path, line)
    if found := _UNWRITABLE.search(text):
        name = "a NUL character" if found[0] == "\0" else f"half of a surrogate pair (U+{ord(found[0]):04X})"
        raise DataError(
            f"the text contains {name}", path=path, line=line, hint="remove it; text files cannot contain it"
        )
    if "\n" in text or "\r" in text:
        text = " ".join(part.strip() for part in _LINE_ENDS.split(text))
    return text.strip()


def too_long(path: Path, line: int) -> DataError:
    """Return the error for a record with too much text."""
    return DataError(f"a text longer than {MAX_RECORD_CHARS:,} characters", path=path, line=line, hint="split it")


@cache
def say_once(message: str, level: int = logging.INFO) -> None:
    """Log a message unless this process has logged it already, because a corpus is read several times."""
    log.log(level, "%s", message)
