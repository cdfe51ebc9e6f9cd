"""Read and write XML fragments, such as the segments of a translation tool: tags are inline, and stay verbatim."""

from __future__ import annotations

import re
from collections.abc import Collection
from html import unescape

from nmt.apps.documents.blocks import Block, Item, Template
from nmt.apps.documents.markup import check_xml

_MARKUP = re.compile(r"""(<!--.*?-->|<\?.*?\?>|<!\[CDATA\[.*?\]\]>|<(?:[^<>"']|"[^"]*"|'[^']*')*>)""", re.DOTALL)
_NAME = re.compile(r"<(/?)([^\s/>!?]+)")
_DECLARATION = re.compile(r"\s*<\?xml\s[^<>]*\?>")


class XmlText(Template):
    """An XML fragment, as a sequence of markup and blocks of text."""

    def __init__(self, source: str, splitting: Collection[str] = (), ignored: Collection[str] = ()):
        """Read a fragment. Elements in `splitting` separate blocks, and those in `ignored` are not translated.

        DataError if it is not well-formed, or contains a document type; there are no entities but those of XML itself.
        """
        declaration = _DECLARATION.match(source)
        start = declaration.end() if declaration else 0
        check_xml(f"<x>{source[start:]}</x>".encode("utf-8", "surrogatepass"))  # within an element is no document type
        super().__init__()
        self._parts, self._raw, self._items = [source[:start]], list[str](), list[Item]()
        kept, depth = list[str](), 0  # the markup so far of an element that is not translated
        for number, piece in enumerate(_MARKUP.split(source[start:])):
            tag = _NAME.match(piece) if number % 2 else None
            slash, name = (tag[1], tag[2]) if tag else ("", "")
            is_empty = piece.endswith("/>")
            is_kept = bool(kept) or (name in ignored and not is_empty)
            self._raw += [] if name in splitting and not is_kept else [piece]
            if is_kept:
                kept.append(piece)
                depth += 0 if tag is None or is_empty else -1 if slash else 1
                if not depth:
                    self._items.append(Item("".join(kept), "!"))
                    kept = []
            elif not number % 2:
                self._items += [Item(unescape(piece))] if piece else []
            elif name in splitting:
                self._end_block()
                self._parts.append(piece)
            elif piece.startswith("<![CDATA["):
                self._items.append(Item(piece[9:-3]))
            else:
                self._items.append(Item(piece, "!" if is_empty or tag is None else slash + name))
        self._end_block()
        self.text = "".join(self._parts)

    def _end_block(self) -> None:
        self._parts.append(self.hole(Block(self._items, "".join(self._raw))))
        self._items, self._raw = [], []
