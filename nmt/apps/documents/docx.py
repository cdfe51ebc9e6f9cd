"""Read and write Word documents with python-docx: paragraphs become blocks, runs of formatting inline tags."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from copy import deepcopy
from html import unescape
from io import BytesIO
from typing import Any

from nmt.apps.documents.blocks import Block, Item, join_texts
from nmt.base.errors import DataError

MAX_BYTES = 200_000_000  # of all parts, unpacked
_MIN_LIMIT = 400_000  # for documents from strangers; the styles alone may have 50,000 elements and attributes
_MAX_UNPACKED = 10  # times that limit, in bytes
_MIN_BYTES = 2  # of that limit, per element or attribute
_MAX_COPIES = 2  # times that limit: elements and attributes that are created when the runs are split and translated
_TAG = re.compile(r"<(/?[rx])(\d+)>")
_NAMESPACE = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SIMPLE_FIELD = f"{_NAMESPACE}fldSimple"
_NOT_SHOWN = (f"{_NAMESPACE}del", f"{_NAMESPACE}moveFrom", _SIMPLE_FIELD)  # deleted by tracked changes, or in a field
_INSTRUCTION = f"{_NAMESPACE}instrText"
_LINK = "HYPERLINK"
_PROPERTIES = f"{_NAMESPACE}rPr"
_NOTES = tuple(  # parts that python-docx may keep as bytes
    f"application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}+xml"
    for kind in ("footnotes", "endnotes", "comments")
)
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


class DocxFile:
    """A document with its tables, headers, footers, notes and comments."""

    def __init__(self, content: bytes, limit: int = 0):
        """Read a file. DataError if it is not a Word document, or is too large.

        `limit`, in bytes, is for documents from strangers: it keeps the memory that a small file can take within a
        multiple of it.
        """
        import docx
        from docx.oxml.parser import parse_xml

        limit = max(limit, _MIN_LIMIT) if limit else 0
        try:
            _check_size(content, limit)
            self._document = docx.Document(BytesIO(content))
            notes = [part for part in self._document.part.package.iter_parts() if part.content_type in _NOTES]
            # the parts of footnotes, endnotes and comments, each with its root
            self._notes = [(p, p.element if hasattr(p, "element") else parse_xml(p.blob)) for p in notes]
        except DataError:
            raise
        except Exception as error:  # exceptions of zipfile, lxml and python-docx have no common base
            raise DataError(f"not a Word document ({str(error)[:100]})") from None
        parts = [part for part in self._document.part.package.iter_parts() if hasattr(part, "element")]
        margins = [part.element for part in parts if part.partname.startswith(("/word/header", "/word/footer"))]
        roots = [self._document.element, *margins, *(root for _, root in self._notes)]
        elements = [element for root in roots for element in root.iter(f"{_NAMESPACE}p") if len(element)]
        if limit and sum(map(_num_copies, elements)) > _MAX_COPIES * limit:
            raise DataError("not a Word document that can be translated: too much formatting")
        self._paragraphs = [each for each in map(_Paragraph, elements) if not each.block.is_blank]
        self.blocks = [paragraph.block for paragraph in self._paragraphs]

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


def _check_size(content: bytes, limit: int) -> None:
    """Raise DataError if a file is too large when unpacked, or has too many elements and attributes."""
    max_bytes = min(MAX_BYTES, _MAX_UNPACKED * limit or MAX_BYTES)
    with zipfile.ZipFile(BytesIO(content)) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > max_bytes:
            raise DataError(f"larger than {max_bytes:,} bytes when unpacked")
        # About the number of elements and attributes; each takes 100 bytes of memory or more.
        documents = (archive.read(part) for part in parts)
        sizes = (xml.count(b"<") - xml.count(b"</") + xml.count(b"=") for xml in documents)
        if limit and sum(sizes) > limit // _MIN_BYTES:
            raise DataError(f"more than {limit // _MIN_BYTES:,} elements and attributes")


def _num_copies(paragraph: Any) -> int:
    """Return the maximum number of elements and attributes that are copied when its runs are split and translated."""
    formattings = (properties.iter() for properties in paragraph.iter(_PROPERTIES))
    largest = max((sum(1 + len(each.attrib) for each in formatting) for formatting in formattings), default=0)
    return largest * sum(len(run) for run in paragraph.iter(f"{_NAMESPACE}r"))


class _Paragraph:
    """A paragraph: runs of other than the most frequent formatting are elements with tags."""

    def __init__(self, element: Any):
        self._element = element
        runs = [run for run in element.iter(f"{_NAMESPACE}r", _SIMPLE_FIELD) if run.getparent().tag not in _NOT_SHOWN]
        # a text box within a paragraph has its own paragraphs
        runs = [run for run in runs if next(run.iterancestors(f"{_NAMESPACE}p")) is element]
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
        self.block = Block(join_texts(items) or [Item("")])

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
        placeholder = self._element.makeelement(f"{_NAMESPACE}r", {})
        first = self._runs[0]
        while first.getparent() is not self._element:
            first = first.getparent()  # the child of the paragraph that contains the first run
        first.addprevious(placeholder)
        for element in new:
            placeholder.addprevious(element)
        self._element.remove(placeholder)
        for run in self._runs:
            if _is_text(run):
                run.getparent().remove(run)
        for link in self._element.findall(f"{_NAMESPACE}hyperlink"):
            if not len(link):
                self._element.remove(link)


def _parts(run: Any) -> list[Any]:
    """Split a run into runs with only text, or only one other element, such as a tab."""
    children = [child for child in run if child.tag != _PROPERTIES]
    if len(children) < 2 or _is_text(run) or run.tag == _SIMPLE_FIELD:
        return [run]
    parts = []
    for child in children:
        part = _without_content(run)
        part.append(child)
        run.addprevious(part)
        parts.append(part)
    run.getparent().remove(run)
    return parts


def _without_content(run: Any) -> Any:
    """Return a copy of a run with only its properties."""
    copy = run.makeelement(run.tag, dict(run.attrib))
    first = next(iter(run), None)
    if first is not None and first.tag == _PROPERTIES:
        copy.append(deepcopy(first))
    return copy


def _without_fields(runs: list[Any]) -> tuple[list[Any], dict[int, list[Any]]]:
    """Return the runs with only the first one of each field, such as a page number, and the rest of each by its number.

    A link is not such a field: its result is text. A field that does not end in this paragraph stays, too.
    """
    begun: list[tuple[int, str]] = []  # the fields around a run, each with the beginning of its instruction
    ends = {}
    for number, run in enumerate(runs):
        kinds = [mark.get(f"{_NAMESPACE}fldCharType") for mark in run.iter(f"{_NAMESPACE}fldChar")]
        if kinds == ["begin"]:
            begun.append((number, ""))
        elif kinds == ["end"] and begun:
            first, instruction = begun.pop()
            if instruction.upper() != _LINK:
                ends[first] = number
        elif begun:
            first, instruction = begun.pop()
            instruction += "".join(part.text or "" for part in run.iter(_INSTRUCTION))
            begun.append((first, instruction.lstrip()[: len(_LINK)]))
    shown: list[Any] = []
    rest: dict[int, list[Any]] = {}
    number = 0
    while number < len(runs):
        end = ends.get(number, number)
        rest[len(shown)] = runs[number + 1 : end + 1]
        shown.append(runs[number])
        number = end + 1
    return shown, rest


def _formattings(runs: list[Any]) -> list[str]:
    """Return a key for the formatting of each run: its properties, and the link around it.

    Bare punctuation gets that of the run before it, so it needs no tag.
    """
    from lxml import etree

    keys: list[str] = []
    for run in runs:
        text = _text(run)
        if keys and text and not any(character.isalnum() for character in text):
            keys.append(keys[-1])
            continue
        properties = run.find(_PROPERTIES)
        written = "" if properties is None else etree.tostring(properties, encoding="unicode")
        link = run.getparent()
        keys.append(f"{id(link) if link.tag == f'{_NAMESPACE}hyperlink' else ''} {written}")
    return keys


def _is_text(run: Any) -> bool:
    return all(child.tag in (f"{_NAMESPACE}t", _PROPERTIES, f"{_NAMESPACE}lastRenderedPageBreak") for child in run)


def _text(run: Any) -> str:
    return "".join(child.text or "" for child in run.iter(f"{_NAMESPACE}t")) if _is_text(run) else ""


def _with_text(run: Any, text: str) -> Any:
    """Return a copy of a run, in a copy of its link, with a new text."""
    copy = _without_content(run)
    content = copy.makeelement(f"{_NAMESPACE}t", {_SPACE: "preserve"})
    content.text = unescape(text)
    copy.append(content)
    parent = run.getparent()
    if parent is None or parent.tag != f"{_NAMESPACE}hyperlink":
        return copy
    link = parent.makeelement(parent.tag, dict(parent.attrib))
    link.append(copy)
    return link
