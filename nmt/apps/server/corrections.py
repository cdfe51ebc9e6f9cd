"""Collect corrections of translations in a TMX file, which `nmt adapt` can learn from."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from os import SEEK_END
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from nmt.apps.server.requests import RequestError
from nmt.base.errors import NmtError
from nmt.base.files import try_lock

MAX_BYTES = 50_000_000  # maximum size of the file; beyond it, corrections are refused

_HEAD = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header creationtool="nmt" creationtoolversion="1" '
    b'segtype="paragraph" o-tmf="none" adminlang="en" srclang="*all*" datatype="plaintext"/>\n<body>\n'
)
_TAIL = b"</body>\n</tmx>\n"
_END_OF_UNIT = b"</tu>\n"
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Corrections:
    """A TMX file that is complete after each correction."""

    def __init__(self, path: Path):
        """Create the file if there is none. NmtError if it is not one of these files, or cannot be written."""
        self._path = path
        try:
            self._append(b"")
        except OSError as error:
            raise NmtError(f"cannot be written ({error.strerror or error})", path=path) from None

    def add(self, languages: tuple[str, str], texts: tuple[str, str]) -> None:
        """Add a text and its correct translation. RequestError (403) if the file is full."""
        unit = f'<tu creationdate="{datetime.now(UTC):%Y%m%dT%H%M%SZ}">'.encode()
        for code, text in zip(languages, texts, strict=True):
            unit += f"<tuv xml:lang={quoteattr(code)}><seg>{escape(_NOT_IN_XML.sub('', text))}</seg></tuv>".encode()
        self._append(unit + _END_OF_UNIT)

    def _append(self, unit: bytes) -> None:
        """Replace the end of the file in one call, so that a server that is killed leaves all units or one more.

        If it was killed within that call, the next one removes the incomplete rest.
        """
        self._path.touch()
        with self._path.open("r+b", buffering=0) as file:
            if not try_lock(file.fileno()):
                raise RequestError(503, "another server writes the file of corrections", retry_after=1)
            end = max(0, file.seek(0, SEEK_END) - len(_TAIL))
            file.seek(end)
            if file.read() != _TAIL:
                file.seek(0)
                content = file.read()
                if not (content.startswith(_HEAD) or _HEAD.startswith(content)):
                    raise NmtError("another program made this file", path=self._path, hint="name a new one")
                file.seek(0)
                file.write(_HEAD)
                end = max(content.rfind(_END_OF_UNIT) + len(_END_OF_UNIT), len(_HEAD))
            if end + len(unit) > MAX_BYTES:
                raise RequestError(403, "this server's file of corrections is full")
            file.seek(end)
            file.write(unit + _TAIL)
            file.truncate()
