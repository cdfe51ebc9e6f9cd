"""Read and write gettext catalogs with polib: untranslated entries get a translation marked fuzzy."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from nmt.apps.documents.blocks import MAX_CHARACTERS, Block, Item
from nmt.apps.documents.source import decode, encode
from nmt.base.errors import DataError

_MAX_LINES = 10_000  # of a message; polib takes quadratic time for them
_LINE_BREAKS = re.compile(r"(\n+)")
_NO_FILE_NAME = "\n" + " " * 100_000  # polib opens a text that is the name of a file; no system has such long names


class PoFile:
    """A catalog; each line of a message is a block. Entries that are already translated stay unchanged."""

    def __init__(self, content: bytes):
        """Read a file. DataError if it is not a catalog."""
        import polib

        self._content = content
        text = decode(content)
        if "msgid" not in text:
            raise DataError("not a gettext catalog: no msgid")
        _refuse_long(text)
        try:
            self._file = polib.pofile(text + _NO_FILE_NAME)
        except (OSError, ValueError) as error:
            raise DataError(f"not a gettext catalog ({str(error)[:100]})") from None
        self._messages: list[tuple[Any, int | None, list[str]]] = []  # entry, plural form, lines and breaks
        for entry in self._file:
            if entry.obsolete or entry.translated() or not entry.msgid:
                continue
            if entry.msgid_plural:
                forms = {
                    n: entry.msgid if int(n) == 0 else entry.msgid_plural for n in entry.msgstr_plural or {0: "", 1: ""}
                }
                self._messages += [(entry, int(n), _LINE_BREAKS.split(form)) for n, form in forms.items()]
            else:
                self._messages.append((entry, None, _LINE_BREAKS.split(entry.msgid)))

    @property
    def blocks(self) -> list[Block]:
        """The blocks with words in them."""
        return [
            Block([Item(line)], line=entry.linenum or 1, formats=entry.flags)
            for entry, _, lines in self._messages
            for line in lines
            if line.strip()
        ]

    @property
    def target_language(self) -> str | None:
        """The language in the header; None if the header names none. It is set only if there is a header."""
        return self._file.metadata.get("Language", "").strip() or None

    @target_language.setter
    def target_language(self, code: str) -> None:
        if self._file.metadata:
            self._file.metadata["Language"] = code

    def save(self, translations: list[str]) -> bytes:
        """Return the file with `translations` of its blocks."""
        rest = iter(translations)
        for entry, form, lines in self._messages:
            text = "".join(unescape(next(rest)) if line.strip() else line for line in lines)
            if form is None:
                entry.msgstr = text
            else:
                entry.msgstr_plural[form] = text
            if "fuzzy" not in entry.flags:
                entry.flags.append("fuzzy")
        return encode(str(self._file) + "\n", self._content)


def _refuse_long(text: str) -> None:
    """Raise DataError if a message is too long."""
    num_lines = size = 0
    for number, line in enumerate(text.split("\n"), 1):
        num_lines, size = (num_lines + 1, size + len(line)) if line.lstrip().startswith('"') else (0, 0)
        if num_lines > _MAX_LINES or size > MAX_CHARACTERS:
            message = f"a message of more than {_MAX_LINES:,} lines or {MAX_CHARACTERS:,} characters"
            raise DataError(message, line=number)
