"""Bytes to lines: the only module that opens text files and reads their lines, with limits and error messages.

A line ends at LF (or CR LF) and nowhere else: U+2028, U+0085 and form feeds are text. A file is plain, or gzip if its
name ends in `.gz`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from nmt.errors import DataError

MAX_LINE_BYTES = 1_000_000
"""Longer lines are refused before they fill the memory: the file is of another kind, or lost its line ends."""

UTF8_MARK = b"\xef\xbb\xbf"
ONE_SENTENCE_PER_LINE = "write one sentence per line, each line ending in LF"
_COPY_AGAIN = "copy or download the file again"
_CHUNK_BYTES = 1 << 16


def open_text(path: Path) -> BinaryIO:
    """Open the bytes of a text file, decompressed if it is a `.gz`. Raises DataError if it cannot be opened."""
    try:
        if path.is_dir():
            raise DataError("this is a folder; a text file is needed", path=path)
        return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else open(path, "rb")
    except FileNotFoundError:
        raise DataError("no such file", path=path, hint=f"paths are taken from {Path.cwd()}") from None
    except PermissionError:
        raise DataError("no permission to read this file", path=path) from None
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror or error}", path=path) from None


def read_raw_lines(file: BinaryIO, path: Path | str) -> Iterator[bytes]:
    """Yield the lines of an open file, each with its line end. `path` is the name for error messages.

    Raises DataError with the path and the line: a line over `MAX_LINE_BYTES`; gzip data that is damaged or cut short;
    a disk or a pipe that cannot be read.
    """
    number = 1
    while raw := _read_raw_line(file, path, number):
        yield raw
        number += 1


def _read_raw_line(file: BinaryIO, path: Path | str, number: int) -> bytes:
    """Return the next line with its line end, b"" at the end of the file."""
    try:
        raw = file.readline(MAX_LINE_BYTES + 1)
    except gzip.BadGzipFile as error:
        is_plain = number == 1 and "Not a gzipped file" in str(error)
        hint = "a name in .gz must be gzip data; rename a plain text file" if is_plain else _COPY_AGAIN
        raise DataError(f"not readable as gzip ({error})", path=path, line=number, hint=hint) from None
    except EOFError:
        raise DataError("the gzip data ends too early", path=path, line=number, hint=_COPY_AGAIN) from None
    except (OSError, zlib.error) as error:
        raise DataError(f"cannot be read: {error}", path=path, line=number, hint=_COPY_AGAIN) from None
    if len(raw) > MAX_LINE_BYTES:
        raise DataError("this line is longer than 1 MB", path=path, line=number, hint=ONE_SENTENCE_PER_LINE)
    return raw


def without_line_end(raw: bytes) -> bytes:
    """Return the line `raw` without its LF or CR LF."""
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def count_lines(path: Path) -> int:
    """Count the lines of a file, up to the first damage, which `read_raw_lines` reports."""
    count, last = 0, b"\n"
    with open_text(path) as file:
        try:
            while chunk := file.read(_CHUNK_BYTES):
                count, last = count + chunk.count(b"\n"), chunk[-1:]
        except (OSError, EOFError, zlib.error):
            pass
    return count + (last != b"\n")
