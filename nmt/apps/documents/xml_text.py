"""Read and write XML fragments, such as the segments of a translation tool: tags are inline, and stay verbatim."""

from __future__ import annotations

import re
from collections.abc import Collection
from html import unescape
from xml.parsers import expat

from nmt.apps.documents.blocks import Block, Item, join_texts
from nmt.apps.documents.html import HtmlText
from nmt.base.errors import DataError

_MARKUP = re.compile(r"""(<!--.*?-->|<\?.*?\?>|<!\[CDATA\[.*?\]\]>|<(?:[^<>"']|"[^"]*"|'[^']*')*>)""", re.DOTALL)
_NAME = re.compile(r"<(/?)([^\s/>!?]+)")
_DECLARATION = re.compile(r"\s*<\?xml\s[^<>]*\?>")


class XmlText(HtmlText):
    """An XML fragment, as a sequence of markup and blocks of text."""

    def __init__(self, source: str, splitting: Collection[str] = (), ignored: Collection[str] = ()):
        """Read a fragment. Elements in `splitting` separate blocks, and those in `ignored` are not translated.

        DataError if it is not well-formed, or contains a document type; there are no entities but those of XML itself.
        """
        declaration = _DECLARATION.match(source)
        start = declaration.end() if declaration else 0
        try:  # within an element is no document type
            expat.ParserCreate("utf-8").Parse(f"<x>{source[start:]}</x>".encode("utf-8", "surrogatepass"), True)
        except expat.ExpatError as error:
            message = f"not well-formed XML: {expat.ErrorString(error.code)}"
            raise DataError(message, line=error.lineno) from None
        self.parts, self._items = [source[:start]], list[Item]()
        kept, depth = list[str](), 0  # the markup so far of an element that is not translated
        for number, piece in enumerate(_MARKUP.split(source[start:])):
            tag = _NAME.match(piece) if number % 2 else None
            slash, name = (tag[1], tag[2]) if tag else ("", "")
            is_empty = piece.endswith("/>")
            if kept or (name in ignored and not is_empty):
                kept.append(piece)
                depth += 0 if tag is None or is_empty else -1 if slash else 1
                if not depth:
                    self._items.append(Item("".join(kept), "!"))
                    kept = []
            elif not number % 2:
                self._items += [Item(unescape(piece))] if piece else []
            elif name in splitting:
                self._end_block()
                self.parts.append(piece)
            elif piece.startswith("<![CDATA["):
                self._items.append(Item(piece[9:-3]))
            else:
                self._items.append(Item(piece, "!" if is_empty or tag is None else slash + name))
        self._end_block()
        self.blocks = [part for part in self.parts if isinstance(part, Block)]

    def _end_block(self) -> None:
        block, self._items = Block(join_texts(self._items)), []
        self.parts.append("".join(block.before) if block.is_blank else block)
