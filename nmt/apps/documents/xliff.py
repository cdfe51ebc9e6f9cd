"""Read and write XLIFF 1.2 and 2.0 with lxml: units without a target get one, with their inline codes in place."""

from __future__ import annotations

from html import escape
from io import BytesIO
from itertools import accumulate
from typing import Any
from xml.sax.saxutils import quoteattr

from nmt.apps.documents.blocks import Block, Item
from nmt.base.errors import DataError

_PAIRED = ("g", "mrk", "pc")
_MAX_NAMESPACES = 50  # in the scope of a source, on average; the target of each declares them
_XML = "http://www.w3.org/XML/1998/namespace"


class XliffFile:
    """An XLIFF file; each source without a target is a block, but for those with `translate="no"`."""

    def __init__(self, content: bytes):
        """Read a file. DataError if it is not XLIFF."""
        from lxml import etree

        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        try:
            self._tree: Any = etree.parse(BytesIO(content), parser)
        except etree.XMLSyntaxError as error:
            raise DataError(f"not well-formed XML ({error.msg})", line=error.lineno) from None
        root = self._tree.getroot()
        if etree.QName(root).localname != "xliff":
            raise DataError(f"not an XLIFF file: it starts with <{etree.QName(root).localname}>")
        self._namespace = etree.QName(root).namespace
        first: dict[Any, Any] = {}  # of each unit
        for source in root.iter(self._name("source")):
            first.setdefault(source.getparent(), source)
        self._sources = [source for source in first.values() if self._is_wanted(source)]
        namespaces = accumulate(len(source.nsmap) for source in self._sources)
        if any(total > _MAX_NAMESPACES * number for number, total in enumerate(namespaces, start=10)):
            raise DataError("too many namespaces")
        self._all = [Block(_items(source)) for source in self._sources]
        self.blocks = [block for block in self._all if not block.is_blank]

    def _is_wanted(self, source: Any) -> bool:
        """Return whether a source lacks a target, and the file does not exclude it from translation."""
        unit = source.getparent()
        if unit.tag == self._name("alt-trans"):
            return False
        marks = (element.get("translate") for element in (unit, *unit.iterancestors()))
        if next(filter(None, marks), "yes") == "no":  # the innermost one decides
            return False
        target = unit.find(self._name("target"))
        return target is None or not "".join(target.itertext()).strip()

    def name_language(self, code: str) -> str | None:
        """Name the target language of the file; if it names one, such as de-DE, return that instead."""
        root = self._tree.getroot()
        for element in root.iter(self._name("xliff"), self._name("file")):
            if language := element.get("target-language") or element.get("trgLang"):
                return str(language)
        if root.get("version", "").startswith("2"):
            root.set("trgLang", code)
        else:
            for element in root.iter(self._name("file")):
                element.set("target-language", code)
        return None

    def save(self, translations: list[str]) -> bytes:
        """Return the file with `translations` of its blocks."""
        from lxml import etree

        rest = iter(translations)
        for source, block in zip(self._sources, self._all, strict=True):
            written = "".join([*block.before, *block.after]) if block.is_blank else next(rest)
            declared = "".join(
                f" xmlns{':' + prefix if prefix else ''}={quoteattr(uri)}" for prefix, uri in source.nsmap.items()
            )
            target = etree.fromstring(f"<target{declared}>{written}</target>")
            if (old := source.getparent().find(self._name("target"))) is not None:
                target.attrib.update(old.attrib)
                source.getparent().remove(old)
            segmented = source.getparent().find(self._name("seg-source"))  # the target belongs after it
            before = source if segmented is None else segmented
            target.tail = before.tail
            before.addnext(target)
        etree.cleanup_namespaces(self._tree)
        return etree.tostring(self._tree, xml_declaration=True, encoding="UTF-8")

    def _name(self, name: str) -> str:
        return f"{{{self._namespace}}}{name}" if self._namespace else name


def _items(element: Any) -> list[Item]:
    """Return the text and the inline codes of an element."""
    from lxml import etree

    items = [Item(element.text)] if element.text else []
    for child in element:
        is_element = isinstance(child.tag, str)
        name = etree.QName(child).localname if is_element else ""
        if name in _PAIRED:
            prefix = f"{child.prefix}:" if child.prefix else ""
            items += [
                Item(f"<{prefix}{name}{_attributes(child)}>", name),
                *_items(child),
                Item(f"</{prefix}{name}>", f"/{name}"),
            ]
        elif is_element:
            items.append(Item(etree.tostring(child, with_tail=False, encoding="unicode"), "!"))
        if child.tail:
            items.append(Item(child.tail))
    return items or [Item("")]


def _attributes(element: Any) -> str:
    """Return the attributes of an element as written in its tag, with their prefixes."""
    from lxml import etree

    written = []
    prefixes = {uri: prefix for prefix, uri in element.nsmap.items() if prefix} if element.attrib else {}
    prefixes[_XML] = "xml"
    for key, value in element.attrib.items():
        name = etree.QName(key)
        prefix = f"{prefixes[name.namespace]}:" if name.namespace else ""
        written.append(f" {prefix}{escape(name.localname)}={quoteattr(value)}")
    return "".join(written)
