"""Divide the paragraphs of Word documents and slides into texts, with runs of other formatting as inline tags."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from html import unescape

from nmt.apps.documents.blocks import RUN, Block, Form, Item, Template, escape_text
from nmt.apps.documents.markup import Dialect, Frame, Reader
from nmt.base.errors import DataError

_TABS = re.compile(r"(\t)")
_NO_TEXT = re.compile(r"<(\w+:)?rt>.*?</(\w+:)?rt>|<[^>]*>", re.DOTALL)  # the reading of ideographs, and tags
_FIELD = re.compile(r'<w:fldChar\b[^>]*fldCharType="(begin|separate|end)"')
_INSTRUCTION = re.compile(r"<w:instrText\b[^>]*>\s*([^<\s]+)")
# Fields whose words are those of the document.
_WITH_TEXTS = (
    "BIBLIOGRAPHY", "COMMENTS", "DOCPROPERTY", "FORMTEXT", "HYPERLINK", "IF", "INDEX", "KEYWORDS", "QUOTE", "REF",
    "STYLEREF", "SUBJECT", "TITLE", "TOC",
)  # fmt: skip
_WORDS_FIELD = re.compile(rf'\sw:instr="\s*(?:{"|".join(_WITH_TEXTS)})\b')
_LINK = ":hlinkClick"  # of slides
# What editing leaves in the properties of a run: it does not show, and divides words.
_INVISIBLE = re.compile(
    r'\s(?:w:rsid\w*|lang|altLang|dirty|err|smtClean|noProof)="[^"]*"|<w:(?:lang|noProof|rFonts w:hint)\b[^>]*>'
    r"|<w:rPr>\s*</w:rPr>|<\w+:rPr\s*/>"
)


class RunReader(Reader):
    """Reads XML whose texts are in runs. The most frequent formatting of a paragraph needs no tags."""

    def __init__(self, text: str, dialect: Dialect, template: Template, limit: int):
        """Read `text`. DataError if writing a translation could take more than `limit` characters for formatting."""
        self._limit = limit
        super().__init__(text, dialect, template)

    def text(self, data: str) -> None:
        """Read text; it is text to translate only in the element for it, and in a category of a chart."""
        frame = self.frame
        frame.raw.append(data)
        if frame.is_block and frame.name == "v":
            frame.items.append(Item(unescape(data)))

    def start(self, name: str, written: str) -> None:
        """Read an opening tag; each element in a run is read by itself."""
        is_field = name == "fldSimple" and not _WORDS_FIELD.search(written)
        if is_field or _is_run(self.frame):
            self.open(Frame(name, written, is_kept=is_field or name == "r" or name in self.dialect.kept))
        else:
            super().start(name, written)

    def standalone(self, name: str, whole: str, start: str) -> None:
        """Read an element as a whole; in a run, add it to the paragraph as if it were all of the run."""
        run = self.frame
        dialect = self.dialect
        if not _is_run(run):
            if run.is_block and name in ("r", *dialect.breaks):
                run.raw.append(whole)
            if name != "r" or not run.is_block:
                super().standalone(name, whole, start)
            return
        paragraph = self.frames[-2]
        prefix = run.start[1 : run.start.index("r")]
        before = run.start + "".join(run.parts)
        after = f"</{prefix}r>"
        around = f"{before}<{prefix}{dialect.run_text}>", f"</{prefix}{dialect.run_text.split()[0]}>{after}"
        run.raw.append(whole)
        if name == "rPr":
            run.parts.append(whole)
        elif name in ("t", "ruby") or name in dialect.characters:
            text = dialect.characters.get(name, unescape(_NO_TEXT.sub("", whole)))
            for part in _TABS.split(text):
                if part == "\t":
                    self.divide(part.join(around), paragraph)
                elif part:
                    paragraph.items.append(Item(part, run=around))
        elif name in dialect.breaks:
            self.divide(before + whole + after, paragraph)
        else:
            paragraph.items.append(Item(before + whole + after, "!", name in dialect.hidden))

    def divide(self, markup: str, frame: Frame | None = None) -> None:
        """End a block at markup that is not part of it."""
        frame = frame or self.frame
        self._limit -= len(markup)
        frame.parts += [self.template.hole(self._block(frame.items)), markup]
        frame.items = []

    def content(self, frame: Frame) -> str:
        """Return what is in an element, with holes."""
        raw = "".join(frame.raw)
        if not frame.is_block:
            return raw
        self.divide("", frame)
        return self.template.split(raw, "".join(frame.parts))

    def _block(self, items: list[Item]) -> Block:
        items = _with_fields([item for item in items if item.text])
        keyed = list(zip(items, _formattings(items), strict=True))
        sizes: Counter[str] = Counter()
        for item, key in keyed:
            sizes[key] += 0 if item.tag or _LINK in key else len(item.text)
        plain = sizes.most_common(1)[0][0] if sizes else ""
        tagged: list[Item] = []
        last = ""  # the formatting of the text before
        for item, key in keyed:
            if item.tag or key == plain:
                tagged.append(item._replace(run=None))
            elif last == key:
                tagged[-1:] = [Item(item.text), tagged[-1]]
            else:
                tagged += [Item("", RUN, run=item.run), Item(item.text), Item("", "/" + RUN)]
            last = "" if item.tag else key
        runs = [(item.run, key) for item, key in keyed if item.run]
        self._limit -= len(items) * max((len(run[0]) for run, _ in runs), default=0)
        self._limit -= sum(len(item.text) for item in items if item.tag)
        if self._limit < 0:
            raise DataError("too much formatting to be translated")
        return Block(tagged, form=Form(run=next((run for run, key in runs if key == plain), ("", ""))))


@dataclass
class _Field:
    """A field that is being read, such as a page number."""

    begin: int  # the number of its first item
    separator: int = 0  # that of the item between its instruction and its text
    kind: str = ""  # the first word of its instruction


def _is_run(frame: Frame) -> bool:
    return frame.name == "r" and not frame.is_kept


def _formattings(items: list[Item]) -> list[str]:
    """Return a key for the formatting of each text; bare punctuation gets that of the text before it."""
    keys: list[str] = []
    for number, item in enumerate(items):
        is_bare = number and not items[number - 1].tag and not any(map(str.isalnum, item.text))
        visible = _INVISIBLE.sub("", _INVISIBLE.sub("", item.run[0])) if item.run else ""  # the first leaves empty ones
        keys.append(keys[-1] if is_bare else visible)
    return keys


def _with_fields(items: list[Item]) -> list[Item]:
    """Join each field, such as a page number, to one standalone item, and make a link that is a field an element.

    A field that does not end in this paragraph stays as it is.
    """
    joined: list[Item] = []
    opened: list[_Field] = []
    for item in items:
        mark = _FIELD.search(item.text) if item.tag else None
        kind = mark and mark[1]
        joined.append(item)
        if kind == "begin":
            opened.append(_Field(len(joined) - 1))
        elif not opened:
            continue
        elif kind == "separate":
            opened[-1].separator = opened[-1].separator or len(joined) - 1
        elif kind:
            field = opened.pop()
            inner = "".join(each.text for each in joined[field.separator :] if not each.tag)
            if field.kind in _WITH_TEXTS and field.separator and any(map(str.isalpha, inner)):
                joined[-1] = Item(item.text, "/field")
                start = slice(field.begin, field.separator + 1)
                joined[start] = [Item(_written(joined[start]), "field")]
            else:
                joined[field.begin :] = [Item(_written(joined[field.begin :]), "!", field.kind == "PAGEREF")]
        elif item.tag and (instruction := _INSTRUCTION.search(item.text)):
            opened[-1].kind = opened[-1].kind or instruction[1].upper()
    return joined


def _written(items: list[Item]) -> str:
    return "".join(escape_text(item.text).join(item.run) if item.run else item.text for item in items)
