"""A block of a document: a paragraph, a cell or a line, as text with inline tags that are translated together.

A translated block is HTML: its tags are verbatim, and its text is escaped (`&lt;`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import count, groupby
from typing import NamedTuple

from nmt.apps.documents.details import Details
from nmt.apps.documents.tag_projection import Tag, project
from nmt.base.errors import DataError

MAX_CHARACTERS = 1_000_000
"""Maximum length of a block; translating more at once takes gigabytes of memory."""

_MAX_AROUND = 16
_MARK = re.compile(r"\{h(\d{1,4})\}")
_SPACES = re.compile(r"[ \t\r\n\f]+")


class Item(NamedTuple):
    """Text or markup within a block."""

    text: str  # unescaped; markup: verbatim
    tag: str = ""  # empty: text. b: an opening tag, /b: a closing tag, !: standalone markup


def join_texts(items: Iterable[Item]) -> list[Item]:
    """Join neighboring texts."""
    joined: list[Item] = []
    for is_markup, group in groupby(items, key=lambda item: bool(item.tag)):
        same = list(group)
        joined += same if is_markup else [Item("".join(item.text for item in same))]
    return joined


class Block:
    """Text and inline tags that are translated together."""

    def __init__(self, items: list[Item], *, line: int | None = None, formats: Sequence[str] = ()):
        """Separate the tags and white space around the text, which stay in place.

        `line` is the number of its line in the file, if known, and `formats` the format flags of a gettext entry.
        """
        self.line, self.formats = line, formats
        self.before: list[str] = []
        self.after: list[str] = []
        self.is_blank = not any(item.text.strip() for item in items if not item.tag)
        self.items = [] if self.is_blank else self._inner(items)
        if self.is_blank:
            self.before += [item.text for item in items]

    def _inner(self, items: list[Item]) -> list[Item]:
        """Strip blank text, and up to `_MAX_AROUND` elements that enclose all the rest."""
        for _ in range(_MAX_AROUND):
            if not items[0].tag and not items[0].text.strip():
                self.before.append(items[0].text)
                items = items[1:]
            elif not items[-1].tag and not items[-1].text.strip():
                self.after.insert(0, items[-1].text)
                items = items[:-1]
            elif _is_element(items):
                self.before.append(items[0].text)
                self.after.insert(0, items[-1].text)
                items = items[1:-1]
            else:
                break
        first, last = items[0], items[-1]
        if not first.tag:
            self.before.append(first.text[: len(first.text) - len(first.text.lstrip())])
        if not last.tag:
            self.after.insert(0, last.text[len(last.text.rstrip()) :])
        return items

    @property
    def has_tags(self) -> bool:
        """True if there are tags between the words."""
        return any(item.tag for item in self.items)

    def with_marks(self) -> str:
        """Return the text with a mark for each tag: {h0}, {h1}, …"""
        numbers = count()
        parts = [f"{{h{next(numbers)}}}" if item.tag else item.text for item in self.items]
        return _SPACES.sub(" ", "".join(parts)).strip()

    def from_marks(self, translation: str) -> str | None:
        """Return `translation` as HTML, with tags for its marks; None if a mark is missing or tags cross."""
        tags = [item for item in self.items if item.tag]
        parts = _MARK.split(translation)
        numbers = [int(number) for number in parts[1::2]]
        if sorted(numbers) != list(range(len(tags))) or not _is_nested([tags[number].tag for number in numbers]):
            return None
        written = [tags[int(part)].text if i % 2 else escape(part, quote=False) for i, part in enumerate(parts)]
        return self._around("".join(written))

    def without_marks(self, translation: str) -> str:
        """Return `translation` without its marks."""
        return _MARK.sub(" ", translation) if self.has_tags else translation

    def plain(self) -> str:
        """Return the text without its tags."""
        return _SPACES.sub(" ", "".join(item.text for item in self.items if not item.tag)).strip()

    def from_links(self, aligned: Details) -> str | None:
        """Return the translation as HTML, with tags projected along the links; None if that is impossible."""
        tags, length, end = [], 0, ""  # the length of the plain text so far, and its last character
        for item in self.items:
            if item.tag:
                tags.append(Tag(length, item.text, item.tag))
                continue
            text = _SPACES.sub(" ", end + item.text)[1:] if end else _SPACES.sub(" ", item.text).lstrip()
            length, end = length + len(text), text[-1:] or end
        written = project(tags, aligned)
        return None if written is None else self._around(written)

    def texts(self) -> list[str]:
        """Return the texts between the tags, without blank ones."""
        return [_SPACES.sub(" ", item.text).strip() for item in self.items if not item.tag and item.text.strip()]

    def from_texts(self, translations: Sequence[str]) -> str:
        """Return the block as HTML, from the `translations` of its `texts`."""
        rest = iter(translations)
        written = []
        for item in self.items:
            if item.tag or not item.text.strip():
                written.append(item.text if item.tag else " ")
                continue
            lead, tail = (" " if end.isspace() else "" for end in (item.text[0], item.text[-1]))
            written.append(lead + escape(next(rest), quote=False) + tail)
        return self._around("".join(written).strip(" "))

    def _around(self, written: str) -> str:
        return "".join([*self.before, written, *self.after])


def _is_element(items: Sequence[Item]) -> bool:
    """Return whether `items` are one element: an opening tag, its content, and its closing tag."""
    tag = items[0].tag
    if not tag or tag == "!" or tag.startswith("/"):
        return False
    depth = 0
    for number, item in enumerate(items):
        depth += (item.tag == tag) - (item.tag == "/" + tag)
        if not depth:
            return number == len(items) - 1
    return False


def _is_nested(tags: Sequence[str]) -> bool:
    """Return whether each element closes before the one around it does."""
    opened: list[str] = []
    for tag in tags:
        if tag.startswith("/"):
            if not opened or opened.pop() != tag[1:]:
                return False
        elif tag != "!":
            opened.append(tag)
    return not opened


def decode(content: bytes) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a byte order mark. DataError for other encodings."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise DataError("neither UTF-8 nor UTF-16", hint="convert it: iconv -f ENCODING -t UTF-8") from None


def encode(text: str, like: bytes) -> bytes:
    """Return `text` in UTF-8, with the byte order mark and the line ends of the file content `like`.

    The line ends are those of its first line. UTF-16 becomes UTF-8 without a mark.
    """
    first_line = like.split(b"\n", 1)[0].rstrip(b"\0")  # in UTF-16 a zero byte is beside the CR
    mark = codecs.BOM_UTF8 if like.startswith(codecs.BOM_UTF8) else b""
    return mark + (text.replace("\n", "\r\n") if first_line.endswith(b"\r") else text).encode()
