"""Read and write Word documents with python-docx: paragraphs become blocks, runs of formatting inline tags."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from copy import deepcopy
from html import unescape
from io import BytesIO
from typing import Any

from nmt.documents.blocks import Block, Item
from nmt.errors import DataError

MAX_BYTES = 200_000_000  # of all parts, unpacked
_TAG = re.compile(r"<(/?[rx])(\d+)>")
_NAMESPACE = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DELETED = (f"{_NAMESPACE}del", f"{_NAMESPACE}moveFrom")  # by tracked changes
_SIMPLE_FIELD = f"{_NAMESPACE}fldSimple"
_INSTRUCTION = f"{_NAMESPACE}instrText"
_NOTES = tuple(  # parts that python-docx may keep as bytes
    f"application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}+xml"
    for kind in ("footnotes", "endnotes", "comments")
)
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


class DocxFile:
    """A document with its tables, headers, footers, notes and comments."""

    def __init__(self, content: bytes):
        """Read a file. DataError if it is not a Word document, or is too large."""
        import docx

        try:
            with zipfile.ZipFile(BytesIO(content)) as archive:
                if sum(part.file_size for part in archive.infolist()) > MAX_BYTES:
                    raise DataError(f"larger than {MAX_BYTES:,} bytes when unpacked")
            self._document = docx.Document(BytesIO(content))
            self._notes = self._read_notes()
        except DataError:
            raise
        except Exception as error:  # exceptions of zipfile, lxml and python-docx have no common base
            raise DataError(f"not a Word document ({str(error)[:100]})") from None
        roots = [self._document.element, *self._headers(), *(root for _, root in self._notes)]
        paragraphs = [_Paragraph(paragraph) for root in roots for paragraph in root.iter(f"{_NAMESPACE}p")]
        self._paragraphs = [paragraph for paragraph in paragraphs if not paragraph.block.is_blank]

    def _headers(self) -> list[Any]:
        """Return the headers and footers."""
        kinds = ("/word/header", "/word/footer")
        parts = self._document.part.package.iter_parts()
        return [part.element for part in parts if hasattr(part, "element") and part.partname.startswith(kinds)]

    def _read_notes(self) -> list[tuple[Any, Any]]:
        """Return the parts of footnotes, endnotes and comments, each with its root."""
        from docx.oxml.parser import parse_xml

        parts = [part for part in self._document.part.package.iter_parts() if part.content_type in _NOTES]
        return [(part, part.element if hasattr(part, "element") else parse_xml(part.blob)) for part in parts]

    @property
    def blocks(self) -> list[Block]:
        """The blocks with words in them."""
        return [paragraph.block for paragraph in self._paragraphs]

    def save(self, translations: list[str]) -> bytes:
        """Return the file with `translations` of its blocks."""
        from docx.opc.oxml import serialize_part_xml

        for paragraph, translation in zip(self._paragraphs, translations, strict=True):
            paragraph.write(translation)
        for part, root in self._notes:
            if not hasattr(part, "element"):
                part._blob = serialize_part_xml(root)
        content = BytesIO()
        self._document.save(content)
        return content.getvalue()


class _Paragraph:
    """A paragraph: runs with the same formatting form a stretch; those with the most frequent one need no tags."""

    def __init__(self, element: Any):
        self._element = element
        runs = [run for run in element.iter(f"{_NAMESPACE}r", _SIMPLE_FIELD) if _owner(run) is element]
        runs = [run for run in runs if run.getparent().tag not in (*_DELETED, _SIMPLE_FIELD)]
        self._runs, self._rest_of_fields = _without_fields([part for run in runs for part in _parts(run)])
        keys = _formattings(self._runs)
        sizes: Counter[str] = Counter()
        for run, key in zip(self._runs, keys, strict=True):
            sizes[key] += len(_text(run))
        plain = sizes.most_common(1)[0][0] if sizes else ""
        self._plain = next((run for run, key in zip(self._runs, keys, strict=True) if key == plain), None)
        items: list[Item] = []
        for number, (run, key) in enumerate(zip(self._runs, keys, strict=True)):
            if not _is_text(run):
                items.append(Item(f"<x{number}>", "!"))
            elif key == plain:
                items.append(Item(_text(run)))
            elif items and number and keys[number - 1] == key and _is_text(self._runs[number - 1]):
                items[-2:] = [Item(items[-2].text + _text(run)), items[-1]]
            else:
                items += [Item(f"<r{number}>", "r"), Item(_text(run)), Item(f"</r{number}>", "/r")]
        self.block = Block(_joined(items) or [Item("")])

    def write(self, translation: str) -> None:
        """Replace the runs with those of a translation."""
        parts = _TAG.split(translation)
        current = self._plain
        new: list[Any] = [_with_text(current, parts[0])] if parts[0] else []
        for kind, number, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            run = self._runs[int(number)]
            current = run if kind == "r" else self._plain if kind == "/r" else current
            if kind == "x":  # the run itself, because a text box in it has its own paragraphs
                new += [run, *self._rest_of_fields[int(number)]]
            new += [_with_text(current, text)] if text else []
        place = self._element.makeelement(f"{_NAMESPACE}r", {})
        self._top(self._runs[0]).addprevious(place)
        for element in new:
            place.addprevious(element)
        self._element.remove(place)
        for run in self._runs:
            if _is_text(run):
                run.getparent().remove(run)
        for link in self._element.findall(f"{_NAMESPACE}hyperlink"):
            if not len(link):
                self._element.remove(link)

    def _top(self, run: Any) -> Any:
        """Return the child of the paragraph that is or contains `run`."""
        while run.getparent() is not self._element:
            run = run.getparent()
        return run


def _joined(items: list[Item]) -> list[Item]:
    """Join neighboring texts."""
    joined: list[Item] = []
    for item in items:
        if joined and not item.tag and not joined[-1].tag:
            joined[-1] = Item(joined[-1].text + item.text)
        else:
            joined.append(item)
    return joined


def _owner(run: Any) -> Any:
    """Return the paragraph that a run belongs to; a text box within a paragraph has its own paragraphs."""
    element = run.getparent()
    while element is not None and element.tag != f"{_NAMESPACE}p":
        element = element.getparent()
    return element


def _parts(run: Any) -> list[Any]:
    """Split a run into runs with only text, or only one other element, such as a tab."""
    children = [child for child in run if child.tag != f"{_NAMESPACE}rPr"]
    if len(children) < 2 or _is_text(run) or run.tag == _SIMPLE_FIELD:
        return [run]
    parts = []
    for child in children:
        part = deepcopy(run)
        for other in [each for each in part if each.tag != f"{_NAMESPACE}rPr"]:
            part.remove(other)
        part.append(child)
        run.addprevious(part)
        parts.append(part)
    run.getparent().remove(run)
    return parts


def _without_fields(runs: list[Any]) -> tuple[list[Any], dict[int, list[Any]]]:
    """Return the runs with only the first one of each field, such as a page number, and the rest of each by its number.

    A link is not such a field: its result is text. A field that does not end in this paragraph stays, too.
    """
    begun, ends = [], {}
    for number, run in enumerate(runs):
        kinds = [mark.get(f"{_NAMESPACE}fldCharType") for mark in run.iter(f"{_NAMESPACE}fldChar")]
        if kinds == ["begin"]:
            begun.append(number)
        elif kinds == ["end"] and begun:
            first = begun.pop()
            instruction = "".join(code.text or "" for part in runs[first:number] for code in part.iter(_INSTRUCTION))
            if not instruction.strip().upper().startswith("HYPERLINK"):
                ends[first] = number
    kept: list[Any] = []
    rest: dict[int, list[Any]] = {}
    place = 0
    while place < len(runs):
        end = ends.get(place, place)
        rest[len(kept)] = runs[place + 1 : end + 1]
        kept.append(runs[place])
        place = end + 1
    return kept, rest


def _formattings(runs: list[Any]) -> list[str]:
    """Return the formatting of each run; bare punctuation gets that of the run before it, so it needs no tag."""
    keys: list[str] = []
    for run in runs:
        text = _text(run)
        is_punctuation = keys and text and not any(character.isalnum() for character in text)
        keys.append(keys[-1] if is_punctuation else _formatting(run))
    return keys


def _formatting(run: Any) -> str:
    """Return a key for the formatting of a run: its properties, and the link around it."""
    from lxml import etree

    properties = run.find(f"{_NAMESPACE}rPr")
    link = run.getparent() if run.getparent().tag == f"{_NAMESPACE}hyperlink" else None
    written = "" if properties is None else etree.tostring(properties, encoding="unicode")
    return f"{id(link) if link is not None else ''} {written}"


def _is_text(run: Any) -> bool:
    return all(
        child.tag in (f"{_NAMESPACE}t", f"{_NAMESPACE}rPr", f"{_NAMESPACE}lastRenderedPageBreak") for child in run
    )


def _text(run: Any) -> str:
    return "".join(child.text or "" for child in run.iter(f"{_NAMESPACE}t")) if _is_text(run) else ""


def _with_text(run: Any, text: str) -> Any:
    """Return a copy of a run, in a copy of its link, with a new text."""
    copy = deepcopy(run)
    for child in list(copy):
        if child.tag != f"{_NAMESPACE}rPr":
            copy.remove(child)
    content = copy.makeelement(f"{_NAMESPACE}t", {_SPACE: "preserve"})
    content.text = unescape(text)
    copy.append(content)
    parent = run.getparent()
    if parent is None or parent.tag != f"{_NAMESPACE}hyperlink":
        return copy
    link = parent.makeelement(parent.tag, dict(parent.attrib))
    link.append(copy)
    return link
