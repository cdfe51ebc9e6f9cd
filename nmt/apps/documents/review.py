"""List the translations of a document for a person to review, and read the corrected list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from nmt.apps.documents.archives import MAX_BYTES, unpack
from nmt.apps.documents.blocks import CONTROL, Block, decode, squeezed
from nmt.apps.documents.markup import check_xml
from nmt.apps.documents.translation import TranslatedBlock
from nmt.base.errors import DataError, require
from nmt.base.files import write_atomically
from nmt.base.languages import Direction
from nmt.data.read.formats.xlsx import MAX_ROWS, open_sheet

SUFFIXES = (".xlsx", ".html", ".tmx", ".xlf")
_COLUMNS = ("number", "place", "source", "translation", "review", "expected chrF", "origin", "marks")
_READ_COLUMNS = ("number", "source", "translation")
_MAX_COLUMNS = 50  # a person may have added some
_TEXTS = ("seg", "source", "target")  # elements
_WIDTHS = {"C": 60, "D": 60, "E": 40, "H": 30}
# Of a file: its head, a row, its tail.
_TEMPLATES = {
    ".html": """
<!doctype html>
<meta charset="utf-8"><title>{src}-{tgt}</title>
<style>
table {{ border-collapse: collapse }} td {{ border: 1px solid; padding: .4em; white-space: pre-line }}
</style>
<table>
<tr><th>number<th>place<th>source<th>translation<th>review<th>expected chrF<th>origin<th>marks

<tr><td>{number}<td>{place}<td lang="{src}">{source}<td lang="{tgt}">{translation}
<td>{review}<td>{expected_chrf}<td>{origin}<td>{marks}

</table>
""",
    ".tmx": """
<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header creationtool="nmt" creationtoolversion="1" segtype="paragraph" o-tmf="nmt" adminlang="en"
 srclang="{src}" datatype="plaintext"/><body>

<tu tuid="{number}"><note>{review}</note><note>{place}; {origin}; expected chrF {expected_chrf}</note>
<tuv xml:lang="{src}"><seg>{source}</seg></tuv><tuv xml:lang="{tgt}"><seg>{translation}</seg></tuv></tu>

</body></tmx>
""",
    ".xlf": """
<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="document" datatype="plaintext" source-language="{src}" target-language="{tgt}"><body>

<trans-unit id="{number}"><source>{source}</source><target state="needs-review-translation">{translation}</target>
<note>{review}</note><note>{place}; {origin}; expected chrF {expected_chrf}</note></trans-unit>

</body></file></xliff>
""",
}


class Entry(NamedTuple):
    """A block of a document with its translation; tags are marks: {h0}, {h1}, …"""

    number: int  # of the block, from 1
    place: str
    source: str
    translation: str
    review: str  # what to look at, in words
    expected_chrf: float | None
    origin: str
    marks: str  # what those that stand for a word stand for

    def need(self) -> tuple[int, float, int]:
        """Return a key that sorts what most needs a review first."""
        quality = 100.0 if self.expected_chrf is None else self.expected_chrf
        return -len(self.review.splitlines()), quality, self.number


def entry_of(number: int, block: Block, translated: TranslatedBlock) -> Entry:
    """Return the entry of a block."""
    place = f"paragraph {number}" if block.line is None else f"line {block.line}"
    origin = "machine"
    if translated.similarity:
        origin = "memory, exact" if translated.similarity == 1 else f"machine; memory {translated.similarity:.0%}"
    quality = translated.expected_chrf and round(translated.expected_chrf, 1)
    review = CONTROL.sub("", "\n".join(translated.faults))
    words = [re.sub("<[^>]*>|\0\\w+\0", "", item.text).strip() * (item.tag == "!") for item in block.items if item.tag]
    marks = CONTROL.sub("", "\n".join(f"{{h{number}}} = {word}" for number, word in enumerate(words) if word))
    source = CONTROL.sub("", block.with_marks())
    return Entry(number, place, source, translated.marked, review, quality, origin, marks)


def write_review(path: Path, entries: Sequence[Entry], direction: Direction) -> None:
    """Write a list as `review_list` returns it, in the format given by the extension of `path`."""
    with write_atomically(path) as partial:
        partial.write_bytes(review_list(path.suffix.lower(), entries, direction))


def review_list(suffix: str, entries: Iterable[Entry], direction: Direction) -> bytes:
    """Return a list of what to review, sorted by need, in the format with the extension `suffix`."""
    entries = sorted(entries, key=Entry.need)
    if suffix == ".xlsx":
        return _sheet(entries)
    head, row, tail = (part.strip() for part in _TEMPLATES[suffix].split("\n\n"))
    languages = {"src": direction.src, "tgt": direction.tgt}
    lines = [head.format(**languages)]
    for entry in entries:
        fields = {name: "" if value is None else escape(str(value)) for name, value in entry._asdict().items()}
        lines.append(row.format(**fields, **languages))
    return "\n".join([*lines, tail, ""]).encode()


def _sheet(entries: Sequence[Entry]) -> bytes:
    openpyxl = require("xlsx", "openpyxl", "writing .xlsx files")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.freeze_panes = "A2"
    for entry in [_COLUMNS, *entries]:
        sheet.append(entry)
    for cell in chain.from_iterable(sheet):
        cell.alignment = openpyxl.styles.Alignment(wrap_text=True, vertical="top")
        cell.data_type = "n" if isinstance(cell.value, int | float) else "s"  # a text that begins with = is one
    for letter, width in _WIDTHS.items():
        sheet.column_dimensions[letter].width = width
    content = BytesIO()
    book.save(content)
    return content.getvalue()


def read_reviewed(content: bytes, path: Path, blocks: Sequence[Block], limit: int = MAX_BYTES) -> list[str]:
    """Return the blocks of a document as the corrected list `content` has them; `path` names its format.

    DataError if the list is one of another document, lacks some of the blocks, or takes more than `limit` bytes when
    unpacked, or if a translation lacks a mark.
    """
    rows = {number: texts for number, *texts in _rows(content, path, limit)}
    hint = "give the list of this document, with its columns number and source as they were"
    written = []
    for number, block in enumerate(blocks, 1):
        source, translation = rows.pop(str(number), ("", ""))
        wanted = CONTROL.sub("", block.with_marks())
        if source.split() != wanted.split():
            found = f"has {source[:60]!r}" if source else "is missing"
            message = f"not the list of this document: number {number} {found}; the document has {wanted[:60]!r}"
            raise DataError(message, path=path, hint=hint)
        text = block.from_marks(squeezed(translation))
        if text is None:
            marks = " ".join(re.findall(r"\{h\d+\}", source))
            raise DataError(
                f"number {number}: the translation needs the marks {marks}, each once",
                path=path,
                hint="each stands for a tag, such as the beginning or the end of bold letters",
            )
        written.append(text)
    for other in filter(str.isdecimal, rows):
        raise DataError(f"not the list of this document: it has no number {other[:60]}", path=path, hint=hint)
    return written


def _rows(content: bytes, path: Path, limit: int) -> Iterator[tuple[str, ...]]:
    """Yield numbers, sources and translations."""
    suffix = path.suffix.lower()
    if suffix == ".xlsx":
        with unpack(content, suffix, limit), open_sheet(BytesIO(content), None, path) as sheet:
            rows = sheet.iter_rows(max_row=MAX_ROWS, max_col=_MAX_COLUMNS, values_only=True)
            names = next(rows, ())
            for row in rows:
                cells = {name: str(cell) for name, cell in zip(names, row, strict=True) if cell is not None}
                yield tuple(cells.get(name, "") for name in _READ_COLUMNS)
        return
    if suffix not in (".tmx", ".xlf"):
        raise DataError("not a list to be corrected: give one in .xlsx, .tmx or .xlf", path=path)
    if check_xml(text := decode(content)) not in ("tmx", "xliff"):
        raise DataError("not a list of translations: its root element is neither <tmx> nor <xliff>", path=path)
    for unit in ElementTree.fromstring(text).iter():
        number = unit.get("tuid") or unit.get("id")
        texts = ["".join(each.itertext()) for each in unit.iter() if each.tag.rpartition("}")[2] in _TEXTS]
        if number and len(texts) == 2:
            yield number, *texts
