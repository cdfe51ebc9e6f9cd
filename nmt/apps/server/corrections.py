"""Collect corrections of translations in a TMX file, which `nmt adapt` can learn from."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import BinaryIO
from xml.sax.saxutils import escape, quoteattr

from nmt.apps.server.requests import RequestError
from nmt.base.errors import NmtError
from nmt.base.files import flush, resolve_output, try_lock, write_all
from nmt.base.languages import Direction
from nmt.data.text.spans import find_spans
from nmt.translation.split import TextSplitter

MAX_BYTES = 50_000_000  # maximum size of the file; beyond it, corrections are refused

Pair = tuple[str, str]

_HEAD = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header creationtool="nmt" creationtoolversion="1" '
    b'segtype="paragraph" o-tmf="none" adminlang="en" srclang="*all*" datatype="plaintext"/>\n<body>\n'
)
_OWN = b'creationtool="nmt"'
_TAIL = b"</body>\n</tmx>\n"
_EDITED_TAIL = re.compile(rb"</body>\s*</tmx>\s*\Z")  # as an editor may save it
_END_OF_UNIT = b"</tu>\n"
_MAX_HEAD = 1000  # bytes, as an editor may save it
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NUM_TRIES, _PAUSE_SECONDS = 20, 0.01  # to lock the file, while other servers write theirs


def pairs_in(direction: Direction, text: str, correct: str) -> list[Pair]:
    """Return the lines of a text with those of its correct translation, and the sentences of lines that have several.

    What differs in number stays together.
    """
    lines = _both(_lines(text), _lines(correct)) or [(" ".join(_lines(text)), " ".join(_lines(correct)))]
    pairs = []
    for source, target in lines:
        sentences = _both(_sentences(source, direction.src), _sentences(target, direction.tgt))
        pairs += [*(sentences if len(sentences) > 1 else []), (source, target)]
    return pairs


def _both(sources: Sequence[str], targets: Sequence[str]) -> list[Pair]:
    return [*zip(sources, targets, strict=True)] if len(sources) == len(targets) else []


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _sentences(line: str, language: str) -> list[str]:
    """Return the sentences of a line as a translation of it has them: tags and placeholders end none, nor hide one."""
    return [line[start:end] for start, end in TextSplitter(line, find_spans(line), language, 1).units]


class Corrections:
    """A TMX file that is complete after each correction."""

    def __init__(self, path: Path):
        """Create the file if there is none. NmtError if it is not one of these files, or cannot be written."""
        if path.suffix.lower() != ".tmx":
            raise NmtError("corrections are kept as TMX", path=path, hint="name the file something.tmx")
        self._path = resolve_output(path)
        self._lock = Lock()  # of the threads of this server
        try:
            self._append(b"")
            flush(self._path.parent)
        except OSError as error:
            raise NmtError(f"cannot be written ({error.strerror or error})", path=path) from None

    @cached_property
    def own(self) -> Corrections:
        """The file beside this one for clients who have a translation memory of their own."""
        return Corrections(self._path.with_suffix(".own.tmx"))

    async def add(self, direction: Direction, pairs: Sequence[Pair]) -> None:
        """Add texts with their correct translations; on return, they are on the disk.

        RequestError (403) if the file is full, and (507) if the disk is, or does not take them.
        """
        date = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        units = b"".join(_unit(date, direction, pair) for pair in pairs)
        try:
            await asyncio.to_thread(self._append, units)
        except (OSError, NmtError) as error:  # since the start, the disk is full, or the file was replaced
            reason = error.message if isinstance(error, NmtError) else error.strerror
            raise RequestError(507, f"the correction could not be kept ({reason})") from None

    def _append(self, units: bytes) -> None:
        """Replace the end of the file, so that a server that is killed leaves all units, and a part of the new ones.

        The next call removes a part. If the disk does not take them, the file stays as it is.
        """
        with self._lock:
            self._path.touch()
            with self._path.open("r+b", buffering=0) as file:
                self._lock_file(file)
                self._write(file, units)

    def _lock_file(self, file: BinaryIO) -> None:
        for _ in range(_NUM_TRIES):
            if try_lock(file.fileno()):
                return
            time.sleep(_PAUSE_SECONDS)
        raise RequestError(503, "another server writes the file of corrections", retry_after=1)

    def _write(self, file: BinaryIO, units: bytes) -> None:
        end = self._end_of_units(file)
        if end + len(units) > MAX_BYTES:
            raise RequestError(403, "this server's file of corrections is full")
        try:
            _write_end(file, end, units + _TAIL)
        except BaseException:
            with suppress(OSError):
                _write_end(file, end, _TAIL)  # into the place where it was
            raise

    def _end_of_units(self, file: BinaryIO) -> int:
        """Return where the tail begins, or belongs. NmtError if another program made the file."""
        end = max(0, file.seek(0, os.SEEK_END) - len(_TAIL))
        file.seek(end)
        if file.read() == _TAIL:
            return end
        file.seek(0)
        content = file.read()
        edited = _EDITED_TAIL.search(content)
        if edited and _OWN in content[:_MAX_HEAD]:
            return edited.start()
        head = content[: len(_HEAD)]
        if edited or not _HEAD.startswith(head) or content.rstrip().endswith(b"</tmx>"):
            raise NmtError("another program made this file", path=self._path, hint="name a new one")
        file.seek(len(head))
        write_all(file, _HEAD[len(head) :])
        return max(content.rfind(_END_OF_UNIT) + len(_END_OF_UNIT), len(_HEAD))


def _unit(date: str, direction: Direction, pair: Pair) -> bytes:
    variants = "".join(
        f"<tuv xml:lang={quoteattr(code)}><seg>{escape(_NOT_IN_XML.sub('', text))}</seg></tuv>"
        for code, text in zip(direction, pair, strict=True)
    )
    return f'<tu creationdate="{date}">{variants}</tu>\n'.encode()


def _write_end(file: BinaryIO, at: int, content: bytes) -> None:
    file.seek(at)
    write_all(file, content)
    file.truncate()
    os.fsync(file.fileno())
