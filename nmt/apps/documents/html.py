"""Read and write HTML: text is translated block by block; markup and attributes stay unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape, unescape
from html.parser import HTMLParser

from nmt.apps.documents.blocks import Block, Item, decode, encode, join_texts

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
_HUGE_NUMBER = re.compile(r"&#\d{1000,};?")  # a character reference that int() refuses; it stands for no character
_ATTRIBUTE = re.compile(r"""(?<![^\s"'/])([^\s=<>"'/]+)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)""")


class HtmlText:
    """An HTML page or fragment, as a sequence of markup and blocks of text."""

    def __init__(self, source: str):
        """Read HTML leniently, as a browser does, without errors."""
        source = _HUGE_NUMBER.sub("\ufffd", source)
        end = source.rfind(">") + 1  # behind it nothing but text: html.parser searches it again for each "<"
        reader = _Reader()
        reader.feed(source[:end])
        reader.close()
        rest = reader.rawdata + source[end:]  # rawdata: of a script that is not closed
        if rest:
            reader.handle_data(rest if reader.cdata_elem else unescape(rest))
        reader.end_block()
        self.parts = reader.parts
        self.blocks = [part for part in self.parts if isinstance(part, Block)]  # those with words in them

    def join(self, translations: Sequence[str]) -> str:
        """Return the page with the `translations` of its blocks, as HTML."""
        rest = iter(translations)
        return "".join(part if isinstance(part, str) else next(rest) for part in self.parts)


class _Reader(HTMLParser):
    """Collects markup and blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str | Block] = []
        self._items: list[Item] = []
        self._opaque: list[str] = []  # the markup so far of an element that is not translated
        self._opaque_tag = ""
        self._depth = 0
        self._unclosed = set[str]()  # kinds of markup that do not end in the rest of the page

    def end_block(self) -> None:
        """End the current block."""
        if self._opaque:  # not closed
            self._items.append(Item("".join(self._opaque), "!"))
            self._opaque, self._depth = [], 0
        if self._items:
            block = Block(join_texts(self._items))
            self.parts.append("".join(block.before) if block.is_blank else block)
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
        elif not is_closed and (tag in _OPAQUE or _is_untranslated(attrs)):
            self._opaque, self._opaque_tag, self._depth = [written], tag, 1
        elif tag in _INLINE:
            self._items.append(Item(written, "!" if is_closed else tag))
        else:
            self._markup(written)

    def handle_endtag(self, tag: str) -> None:
        written = f"</{tag}>"
        if self._opaque:
            self._opaque.append(written)
            self._depth -= tag == self._opaque_tag
            if not self._depth:
                self._items.append(Item("".join(self._opaque), "!"))
                self._opaque = []
        elif tag in _INLINE:
            self._items.append(Item(written, "/" + tag))
        else:
            self._markup(written)

    def handle_data(self, data: str) -> None:
        if self._opaque:
            self._opaque.append(data if self._opaque_tag in _RAW_TEXT else escape(data, quote=False))
        else:
            self._items.append(Item(data))

    def handle_comment(self, data: str) -> None:
        self._aside(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._aside(f"<!{decl}>")

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Read `<![CDATA[...]]>`; without a name, html.parser fails, but browsers read it as a comment."""
        try:
            return self._end(self.rawdata[i : i + 5].lower(), super().parse_marked_section, i, report)
        except AssertionError:
            return self.parse_bogus_comment(i)

    def parse_comment(self, i: int, report: bool = True) -> int:
        """Read `<!-- ... -->`."""
        return self._end("<!--", super().parse_comment, i, report)

    def _end(self, kind: str, parse: Callable[[int, bool], int], i: int, report: bool) -> int:
        """Return the end of markup; -1 if it has none. Search once for each kind: a page may open it 100,000 times."""
        end = -1 if kind in self._unclosed else parse(i, report)
        if end < 0:
            self._unclosed.add(kind)
        return end

    def handle_pi(self, data: str) -> None:
        self._aside(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self._aside(f"<![{data}]>")

    def _aside(self, written: str) -> None:
        if self._opaque:
            self._opaque.append(written)
        else:
            self._items.append(Item(written, "!"))

    def _markup(self, written: str) -> None:
        self.end_block()
        self.parts.append(written)


def _is_untranslated(attrs: list[tuple[str, str | None]]) -> bool:
    """Return whether the attributes exclude an element from translation."""
    values = {name: value or "" for name, value in attrs}
    return values.get("translate", "").lower() == "no" or "notranslate" in values.get("class", "").split()


class HtmlFile:
    """An HTML file."""

    def __init__(self, content: bytes):
        """Read a file. DataError if it is neither UTF-8 nor UTF-16."""
        self._content = content
        self._page = HtmlText(decode(content))
        self.blocks = self._page.blocks

    def name_language(self, code: str) -> None:
        """Change the language in the tag `<html lang="de">` to that of the translations; do not add one."""

        def renamed(attribute: re.Match[str]) -> str:
            is_language = attribute[1].lower() in ("lang", "xml:lang")
            return f'{attribute[1]}{attribute[2]}"{escape(code)}"' if is_language else attribute[0]

        parts = self._page.parts
        for number, part in enumerate(parts):
            if isinstance(part, str) and part[:5].lower() == "<html":
                parts[number] = _ATTRIBUTE.sub(renamed, part)
                break

    def save(self, translations: list[str]) -> bytes:
        """Return the file with `translations` of its blocks."""
        return encode(self._page.join(translations), self._content)
