"""HTML in, HTML out: the text is translated, the markup stays.

Text is translated block by block (paragraphs, cells, list items), as a sentence may hold inline tags. A model that was
trained with data.protect gets one mark, such as {h0}, for each inline tag, and puts the tags where they belong. Else,
and where a mark is lost, the attention says which words of the translation an element stands around. Where that is not
known either, the stretches between the tags are translated apart. Attributes are not translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from html.parser import HTMLParser
from string import ascii_lowercase
from typing import NamedTuple

from nmt.server.tag_projection import Aligned, Tag, project

# fmt: off
_INLINE = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "img", "ins",
    "label", "mark", "output", "q", "ruby", "rb", "rp", "rt", "s", "small", "span", "strike", "strong", "sub", "sup",
    "time", "tt", "u", "wbr",
))
_OPAQUE = frozenset(("code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "textarea", "var"))
_VOID = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
))
# fmt: on
_RAW_TEXT = frozenset(["script", "style"])
_MAX_AROUND = 16
_SPACES = re.compile(r"[ \t\r\n\f]+")


class _Item(NamedTuple):
    """Text or markup within a block."""

    text: str  # as a reader sees it; markup: as it is written
    tag: str = ""  # empty: text. b: an opening tag, /b a closing one, ! what stands alone


class Block:
    """A stretch of text and inline tags, translated as one."""

    def __init__(self, items: list[_Item]):
        """Set tags and white space around the text apart: they stay where they are."""
        self.before: list[str] = []
        self.after: list[str] = []
        self.is_blank = not any(item.text.strip() for item in items if not item.tag)
        self.items = [] if self.is_blank else self._inner(items)
        if self.is_blank:
            self.before += [_written(item) for item in items]

    def _inner(self, items: list[_Item]) -> list[_Item]:
        """Take off blank text, and the elements around all the rest, up to `_MAX_AROUND` of them."""
        for _ in range(_MAX_AROUND):
            if not items[0].tag and not items[0].text.strip():
                self.before.append(" ")
                items = items[1:]
            elif not items[-1].tag and not items[-1].text.strip():
                self.after.insert(0, " ")
                items = items[:-1]
            elif _is_element(items):
                self.before.append(items[0].text)
                self.after.insert(0, items[-1].text)
                items = items[1:-1]
            else:
                break
        first, last = items[0], items[-1]
        self.before += [" "] * (not first.tag and first.text[0].isspace())
        self.after[:0] = [" "] * (not last.tag and last.text[-1].isspace())
        return items

    @property
    def has_tags(self) -> bool:
        """True if tags stand between the words."""
        return any(item.tag for item in self.items)

    def with_marks(self, letter: str) -> str:
        """Return the text with a mark for each tag: {h0}, {h1} and so on for the letter h."""
        numbers = iter(range(len(self.items)))
        parts = [f"{{{letter}{next(numbers)}}}" if item.tag else item.text for item in self.items]
        return _SPACES.sub(" ", "".join(parts)).strip()

    def from_marks(self, letter: str, translation: str) -> str | None:
        """Return `translation` as HTML, with tags for its marks; None if a mark is missing, or tags cross."""
        tags = [item for item in self.items if item.tag]
        parts = re.split(rf"\{{{letter}(\d{{1,4}})\}}", translation)
        numbers = [int(number) for number in parts[1::2]]
        if sorted(numbers) != list(range(len(tags))) or not _is_nested([tags[number].tag for number in numbers]):
            return None
        written = [tags[int(part)].text if i % 2 else escape(part, quote=False) for i, part in enumerate(parts)]
        return self._around("".join(written))

    def plain(self) -> str:
        """Return the text without its tags."""
        return _SPACES.sub(" ", "".join(item.text for item in self.items if not item.tag)).strip()

    def from_links(self, aligned: Aligned) -> str | None:
        """Return the translation as HTML, with tags around the words linked with theirs; None if that is not known."""
        tags, text = [], ""
        for item in self.items:
            if item.tag:
                length = len(_SPACES.sub(" ", text).lstrip())
                tags.append(Tag(length, item.text, item.tag))
            else:
                text += item.text
        written = project(tags, aligned)
        return None if written is None else self._around(written)

    def stretches(self) -> list[str]:
        """Return the texts between the tags; those without a word are not among them."""
        return [_SPACES.sub(" ", item.text).strip() for item in self.items if not item.tag and item.text.strip()]

    def from_stretches(self, translations: Sequence[str]) -> str:
        """Return the block as HTML; `translations` are those of its stretches."""
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


def _written(item: _Item) -> str:
    return item.text if item.tag else escape(_SPACES.sub(" ", item.text), quote=False)


def _is_element(items: Sequence[_Item]) -> bool:
    """Return whether `items` are one element: an opening tag, what is in it, and its closing tag."""
    tag = items[0].tag
    if not tag or tag == "!" or tag.startswith("/"):
        return False
    depth = 0
    for place, item in enumerate(items):
        depth += (item.tag == tag) - (item.tag == "/" + tag)
        if not depth:
            return place == len(items) - 1
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


class HtmlText:
    """A page or a fragment of HTML, as markup and blocks of text, in order."""

    def __init__(self, source: str):
        """Read HTML as a browser would: nothing in it is an error."""
        reader = _Reader()
        reader.feed(source)
        reader.close()
        reader.end_block()
        self.parts = reader.parts
        self.letter = next((letter for letter in "h" + ascii_lowercase if f"{{{letter}" not in source), "hh")

    @property
    def blocks(self) -> list[Block]:
        """The blocks with words in them."""
        return [part for part in self.parts if isinstance(part, Block) and not part.is_blank]

    def join(self, translations: Sequence[str]) -> str:
        """Return the page; `translations` are those of its blocks, as HTML."""
        rest = iter(translations)
        return "".join(self._written(rest))

    def _written(self, rest: Iterator[str]) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, str):
                yield part
            else:
                yield "".join([*part.before, *part.after]) if part.is_blank else next(rest)


class _Reader(HTMLParser):
    """Collects markup and blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str | Block] = []
        self._items: list[_Item] = []
        self._opaque: list[str] = []  # the markup of an element that is not translated, so far
        self._opaque_tag = ""
        self._depth = 0

    def end_block(self) -> None:
        """Begin a new block."""
        if self._opaque:  # not closed
            self._items.append(_Item("".join(self._opaque), "!"))
            self._opaque, self._depth = [], 0
        if self._items:
            self.parts.append(Block(self._items))
            self._items = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, attrs, is_closed=tag in _VOID)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, attrs, is_closed=True)

    def _start(self, tag: str, attrs: list[tuple[str, str | None]], *, is_closed: bool) -> None:
        written = self.get_starttag_text() or f"<{tag}>"
        if self._opaque:
            self._opaque.append(written)
            self._depth += tag == self._opaque_tag and not is_closed
        elif not is_closed and (tag in _OPAQUE or _is_kept(attrs)):
            self._opaque, self._opaque_tag, self._depth = [written], tag, 1
        elif tag in _INLINE:
            self._items.append(_Item(written, "!" if is_closed else tag))
        else:
            self._markup(written)

    def handle_endtag(self, tag: str) -> None:
        written = f"</{tag}>"
        if self._opaque:
            self._opaque.append(written)
            self._depth -= tag == self._opaque_tag
            if not self._depth:
                self._items.append(_Item("".join(self._opaque), "!"))
                self._opaque = []
        elif tag in _INLINE:
            self._items.append(_Item(written, "/" + tag))
        else:
            self._markup(written)

    def handle_data(self, data: str) -> None:
        if self._opaque:
            self._opaque.append(data if self._opaque_tag in _RAW_TEXT else escape(data, quote=False))
        elif self._items and not self._items[-1].tag:
            self._items[-1] = _Item(self._items[-1].text + data)
        else:
            self._items.append(_Item(data))

    def handle_comment(self, data: str) -> None:
        self._aside(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._aside(f"<!{decl}>")

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Read `<![CDATA[...]]>`; where no name follows, html.parser fails, and browsers see a comment."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.parse_bogus_comment(i)

    def handle_pi(self, data: str) -> None:
        self._aside(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self._aside(f"<![{data}]>")

    def _aside(self, written: str) -> None:
        if self._opaque:
            self._opaque.append(written)
        else:
            self._items.append(_Item(written, "!"))

    def _markup(self, written: str) -> None:
        self.end_block()
        self.parts.append(written)


def _is_kept(attrs: list[tuple[str, str | None]]) -> bool:
    """Return whether the page asks not to translate an element."""
    values = {name: value or "" for name, value in attrs}
    return values.get("translate", "").lower() == "no" or "notranslate" in values.get("class", "").split()
