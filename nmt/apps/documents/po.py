"""Read and write gettext catalogs with polib: untranslated entries get a translation marked fuzzy.

The format flags of an entry (`c-format`, …) define the placeholders of its message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from html import unescape
from typing import Any

from nmt.apps.documents.blocks import MAX_CHARACTERS, Block, Item, decode, encode
from nmt.base.errors import DataError

_MAX_LINES = 10_000  # of a message; polib takes quadratic time for them
_LINE_BREAKS = re.compile(r"(\n+)")
_NO_FILE_NAME = "\n" + " " * 100_000  # polib opens a text that is the name of a file; no system has such long names
# `%%` and doubled braces stand for a character; a bare % or brace is an error at run time, so it counts.
_PRINTF = (
    r"%%|%(?:\d{1,3}\$|\([^()\n]{0,200}\))?[-+ #0',]{0,6}(?:\d{1,9}|\*(?:\d{1,3}\$)?)?(?:\.(?:\d{1,9}|\*)?)?"
    r"(?:hh?|ll?|[qjztL])?(?:[A-Za-z@]|<PRI\w{1,12}>)|%"
)
_BRACES = r"\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|[{}]"
_FORMATS = {
    "c objc python java-printf ruby awk lua perl php tcl object-pascal javascript": _PRINTF,
    "python-brace java csharp perl-brace rust": _BRACES,
    "qt qt-plural kde": r"%L?\d{1,2}|%n",
    "sh": r"\$\{\w+\}|\$\w+",
}
_PATTERNS = {name: re.compile(pattern) for names, pattern in _FORMATS.items() for name in names.split()}
_NEXT = re.compile(r"%[^($]*[A-Za-z@>]|\{(?:[:!].*)?\}")  # takes the next value, without its number or name
_ESCAPES = ("%%", "{{", "}}")


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
        self.blocks = [
            Block([Item(line)], line=entry.linenum or 1, formats=entry.flags)
            for entry, _, lines in self._messages
            for line in lines
            if line.strip()
        ]

    def name_language(self, code: str) -> str | None:
        """Name the language of the translations in the header, if there is one; if it names a language, return that."""
        if language := self._file.metadata.get("Language", "").strip():
            return str(language)
        if self._file.metadata:
            self._file.metadata["Language"] = code
        return None

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


def changed_placeholders(source: str, output: str, flags: Collection[str]) -> list[str]:
    """Return the placeholders that `output` lost or invented, in the formats that `flags` name.

    Also those without a number or a name whose order is another: `%s` and `%d` take their values in this order.
    """
    changed = []
    for name, pattern in _PATTERNS.items():
        if f"{name}-format" in flags:
            placeholders = [
                [each for each in pattern.findall(text) if each not in _ESCAPES] for text in (source, output)
            ]
            in_source, in_output = map(Counter, placeholders)
            wrong = [*(in_source - in_output), *(in_output - in_source)]
            in_order = [[each for each in of_text if _NEXT.fullmatch(each)] for of_text in placeholders]
            changed += wrong or [each for each, other in zip(*in_order, strict=True) if each != other]
    return list(dict.fromkeys(changed))


def is_excluded(span: str, flags: Collection[str]) -> bool:
    """Return whether `flags`, such as `no-c-format`, say that `span` is not a placeholder."""
    return any(f"no-{name}-format" in flags and pattern.fullmatch(span) for name, pattern in _PATTERNS.items())
