"""A block of a document: a paragraph, a cell or a line, as text with inline tags that are translated together.

A document is a template: its text, verbatim, with a hole for each block. Markup may have holes, too: the text of an
attribute, or the paragraphs of a footnote. So all that is not translated stays as it is, to the byte.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from html import escape
from itertools import count, groupby, islice, pairwise
from typing import NamedTuple

from nmt.apps.documents.tag_projection import MAX_TAGS, Tag, mark_of, pair_tags, project
from nmt.base.errors import DataError
from nmt.translation.word_links import Details

MAX_CHARACTERS = 1_000_000  # maximum length of a block; translating more at once takes gigabytes of memory
RUN = "run:"  # the tag of items that change the formatting of the runs of a Word document or a slide
_MARK = re.compile(r"\{h(\d{1,4})\}")
_HOLE = re.compile(r"\0([sn]?)(\d+)\0")
_DECLARED = re.compile(rb"""<\?xml[^>]{0,99}?\sencoding\s*=\s*["']([\w.:-]+)""")
# Encodings of text alone. Others that Python knows, such as zlib or unicode_escape, do more than decode characters.
_ENCODINGS = re.compile(
    r"(?:iso[-_]?8859|windows|cp|ibm|latin|mac|koi8|euc|gb|big5|iso-2022|tis)[-_]?\w*(?:-hkscs|-\d+)?|us-ascii|ascii"
    r"|shift[-_]?jis|sjis|ms_kanji|johab|hz(?:-gb-2312)?|utf-?8",
    re.IGNORECASE,
)
_SPACES = re.compile(r"[ \t\r\n\f]+")
_WORDS = re.compile(r"\S(?:.*\S)?", re.DOTALL)  # a text without the white space around it
_IDEOGRAPHS = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_SPACED = re.compile(rf"[^\W_{_IDEOGRAPHS}]")  # in words that spaces separate from others
_LINE_END = re.compile(rf"(?<=[{_IDEOGRAPHS}])[ \t\r]*\n[ \t]*(?=[{_IDEOGRAPHS}])")  # which stands for no space
CONTROL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f]")  # no XML may hold them
_CONTROLS = re.compile(rf"(\x1b\[[\d;]*[A-Za-z]|{CONTROL.pattern}+)")
_EDGES = re.compile(r"(\A\s+|(?<!\s)\s+\Z)")  # not from each space of a run, so that the time is linear


class Item(NamedTuple):
    """Text or markup within a block."""

    text: str  # unescaped; markup: verbatim
    tag: str = ""  # empty: text. b: an opening tag, /b: a closing tag, !: standalone markup
    is_hidden: bool = False  # standalone markup that shows no text, so that it can be left at the edges of the block
    run: tuple[str, str] | None = None  # of an opening tag RUN: the markup around each text up to its closing tag

    @property
    def shows_nothing(self) -> bool:
        """True for hidden markup and for white space."""
        return self.is_hidden or not (self.tag or self.text.strip())


def escape_text(text: str) -> str:
    """Return `text` as in HTML and XML."""
    return escape(text, quote=False)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, with their ends."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)


def join_texts(items: Iterable[Item]) -> list[Item]:
    """Join neighboring texts; drop empty ones."""
    joined: list[Item] = []
    for is_markup, group in groupby(items, key=lambda item: bool(item.tag)):
        same = list(group)
        text = _LINE_END.sub("", "".join(item.text for item in same))
        joined += same if is_markup else [Item(text)] if text else []
    return joined


class Form(NamedTuple):
    """The way in which a block is written."""

    write: Callable[[str], str] = escape_text  # writes a text
    finish: Callable[[str], str] = str  # writes the block, given its texts and tags as they are written
    run: tuple[str, str] = ("", "")  # the markup around each text outside of tags
    formats: Sequence[str] = ()  # the format flags of a gettext entry


class Block:
    """Text and inline tags that are translated together."""

    def __init__(self, items: Iterable[Item], raw: str | None = None, form: Form | None = None):
        """Separate the tags and white space around the text, which stay in place.

        `raw` is the block as it is in the file.
        """
        self._form = form or Form()
        self.formats = self._form.formats
        self.line: int | None = None  # in the file, if known
        self.note = ""  # what to look at in its translation
        joined = join_texts(items)
        self.raw = self._form.finish(self._written(joined)) if raw is None else raw
        parts = [part for item in joined for part in self._parts(item)]
        self.is_blank = not any(item.text.strip() for item in parts if not item.tag)
        self._before: list[Item] = []
        self._after: list[Item] = []
        self.items = [] if self.is_blank else self._inner(parts)

    def _parts(self, item: Item) -> list[Item]:
        """Return a text in parts: the white space around it, and, as markup, what controls a terminal or a printer."""
        if item.tag:
            return [item]
        parts = [part for each in _CONTROLS.split(item.text) for part in _EDGES.split(each) if part]
        return [Item(self._form.write(part), "!", True) if CONTROL.match(part) else Item(part) for part in parts]

    def _inner(self, items: list[Item]) -> list[Item]:
        """Strip blank text, hidden markup, and elements that enclose all the rest; make one of two that enclose a text.

        Tags without another, such as those of elements that begin or end in another block, become standalone markup
        that can stay at the edges of this one, and so do all tags if some elements cross.
        """
        ends, alone = pair_tags([item.tag for item in items])
        for number in alone:
            items[number] = items[number]._replace(tag="!", is_hidden=True)
        start = 0
        end = len(items)
        while True:
            is_enclosed = ends.get(start) == end - 1
            goes_first = is_enclosed or items[start].shows_nothing
            goes_last = is_enclosed or items[end - 1].shows_nothing
            if not goes_first and not goes_last:
                break
            start += goes_first
            end -= goes_last
        self._before = items[:start]
        self._after = items[end:]
        for outer, closing in sorted(ends.items()):
            if outer >= start and ends.get(outer + 1) == closing - 1 and not items[outer].run:
                opening = items[outer].text + items[outer + 1].text
                items[outer + 1] = items[outer + 1]._replace(text=opening)
                items[closing - 1] = items[closing - 1]._replace(text=items[closing - 1].text + items[closing].text)
                items[outer] = items[closing] = Item("")
        return [item for item in items[start:end] if item != Item("")]

    @property
    def has_tags(self) -> bool:
        """True if there are tags between the words."""
        return bool(self._tags())

    def with_marks(self, texts: Iterable[str] = ()) -> str:
        """Return the text, or `texts` between its tags, with a mark for each tag: {h0}, {h1}, …"""
        numbers = count()
        rest = iter(texts)
        parts = (
            mark_of(next(numbers)) if item.tag else _WORDS.sub(lambda own: next(rest, own[0]), item.text)
            for item in self.items
        )
        return squeezed("".join(parts))

    def from_marks(self, translation: str) -> str | None:
        """Return the block with tags for the marks of `translation`; None if a mark is missing or tags cross."""
        tags = self._tags()
        parts = _MARK.split(translation.strip(" "))
        numbers = [int(number) for number in parts[1::2]]
        are_all = sorted(numbers) == list(range(len(tags)))
        if not are_all or pair_tags([tags[number].tag for number in numbers])[1]:
            return None
        return self._around([tags[int(part)] if i % 2 else Item(part) for i, part in enumerate(parts)])

    def without_marks(self, translation: str) -> str:
        """Return `translation` without its marks."""
        return _MARK.sub(" ", translation) if self.has_tags else translation

    def plain(self) -> str:
        """Return the text without its tags."""
        return squeezed("".join(item.text for item in self.items if not item.tag))

    def from_links(self, aligned: Details) -> str | None:
        """Return the translation with marks for the tags, projected along the links; None if that is impossible."""
        tags: list[Tag] = []
        before = ""  # the plain text so far
        for item in self.items:
            if item.tag:
                tags.append(Tag(len(before), item.tag))
            elif len(tags) <= MAX_TAGS:
                before = _SPACES.sub(" ", before + item.text).lstrip()
        return project(tags, aligned)

    def _tags(self) -> list[Item]:
        return [item for item in self.items if item.tag]

    def texts(self) -> list[str]:
        """Return the texts between the tags, without blank ones."""
        return [squeezed(item.text) for item in self.items if not item.tag and item.text.strip()]

    def from_texts(self, translations: Sequence[str]) -> str:
        """Return the block with the `translations` of its `texts`."""
        rest = iter(translations)

        def translated(text: str) -> str:
            return _WORDS.sub(lambda _: next(rest), _SPACES.sub(" ", text))

        return self._around([item if item.tag else Item(translated(item.text)) for item in self.items])

    def _around(self, items: Sequence[Item]) -> str:
        """Return the block with other `items`; verbatim, if they are its own."""
        items = [item if item.tag else Item(CONTROL.sub("", item.text)) for item in items]
        # The spaces around markup that stands for a word stay.
        before = {id(tag) for text, tag in pairwise(self.items) if tag.tag == "!" and text.text[-1:].isspace()}
        after = {id(tag) for tag, text in pairwise(self.items) if tag.tag == "!" and text.text[:1].isspace()}
        for number, (item, following) in enumerate(pairwise(items), 1):
            if id(item) in after and not following.tag and _SPACED.match(following.text):
                items[number] = Item(f" {following.text}")
            elif id(following) in before and not item.tag and _SPACED.match(item.text[-1:]):
                items[number - 1] = Item(f"{item.text} ")
        if _key(items) == _key(self.items):
            return self.raw
        return self._form.finish(self._written(join_texts([*self._before, *items, *self._after])))

    def _written(self, items: Iterable[Item]) -> str:
        written: list[str] = []
        run = self._form.run
        for item in items:
            if item.tag:
                written.append(item.text)
                run = item.run or (self._form.run if item.tag == "/" + RUN else run)
            else:
                written += [run[0], self._form.write(item.text), run[1]]
        return "".join(written)


def squeezed(text: str) -> str:
    """Return a text with one space for each white space in it, and none around it."""
    return _SPACES.sub(" ", text).strip()


def _key(items: Iterable[Item]) -> str:
    """Return a text that tells the items apart, but for the amount of white space."""
    return squeezed("".join(f"\0{item}\0" if item.tag else item.text for item in items))


class Template:
    """The text of a file with holes; `text` is to be set when all blocks are known.

    `finish` changes the text with its translations.
    """

    def __init__(self) -> None:
        self.text = ""
        self.line: int | None = None  # of the blocks that follow, if known
        self._counted = 0  # characters up to there
        self.blocks: list[Block] = []  # those with words in them
        self.finish: Callable[[str], str] = str
        self._split: list[tuple[str, str]] = []
        self._notes: list[tuple[list[Block], str]] = []

    def go_to(self, text: str, place: int) -> None:
        """Set `line` to that of a place in `text`; no place is before the last one."""
        self.line = (self.line or 1) + text.count("\n", self._counted, place)
        self._counted = place

    def hole(self, block: Block) -> str:
        """Return the hole of a block; its text if it is blank."""
        if block.is_blank:
            return block.raw
        block.line = self.line
        self.blocks.append(block)
        if self._notes:
            self._notes[-1][0].append(block)
        return f"\0{len(self.blocks) - 1}\0"

    def hole_of(self, text: str, form: Form, raw: str | None = None) -> str:
        """Return the hole of a text without tags; `raw` is how it is written."""
        return self.hole(Block([Item(text)], raw, form))

    def split(self, raw: str, parts: str) -> str:
        """Return a hole for a text with holes, its `parts`; it is written as `raw` if they do not change."""
        self._split.append((raw, parts))
        return f"\0s{len(self._split) - 1}\0"

    def note(self, form: str) -> str:
        """Return a hole for the notes of the blocks that follow, up to the next call.

        They are written in the place of `{}` in `form`; nothing is if there are none.
        """
        self._notes.append(([], form))
        return f"\0n{len(self._notes) - 1}\0"

    def join(self, translations: Sequence[str]) -> str:
        """Return the text with the `translations` of its blocks."""
        originals = [block.raw for block in self.blocks]

        def filled(text: str, written: Sequence[str]) -> str:
            return _HOLE.sub(partial(fill, written), text)

        def fill(written: Sequence[str], hole: re.Match[str]) -> str:
            number = int(hole[2])
            if not hole[1]:
                return filled(written[number], written)
            if hole[1] == "n":
                blocks, form = self._notes[number]
                notes = "; ".join(block.note for block in blocks if block.note)
                return form.format(escape_text(notes)) if notes else ""
            raw, parts = self._split[number]
            new = filled(parts, written)
            is_same = written is originals or new == filled(parts, originals)
            return filled(raw, written) if is_same else new

        return self.finish(filled(self.text, translations))


class Document:
    """A document: the templates of its files that have text."""

    def __init__(
        self,
        templates: Sequence[Template],
        write: Callable[[list[str]], bytes],
        name_language: Callable[[Template, str], str | None],
    ):
        """`write` packs the texts of the files, and `name_language` names the language of one, as here."""
        self._templates = templates
        self._write = write
        self._name_language = name_language
        self.blocks = [block for template in templates for block in template.blocks]

    def name_language(self, code: str) -> str | None:
        """Name the language of the translations; if the document asks for one, such as de-DE, return that instead."""
        return next(filter(None, [self._name_language(template, code) for template in self._templates]), None)

    def content_with(self, translations: Iterable[str]) -> bytes:
        """Return the document with `translations` of its blocks."""
        rest = iter(translations)
        return self._write([each.join(list(islice(rest, len(each.blocks)))) for each in self._templates])


def decode(content: bytes, declared: str = "") -> str:
    """Return the text of a file in UTF-8, in UTF-16 with a byte order mark, or as it declares.

    `declared` is what the format declares by other means than XML. All line ends stay in the text. DataError for other
    encodings.
    """
    for encoding in (_encoding_of(content, declared), "utf-8"):
        with suppress(UnicodeDecodeError):
            text = content.decode(encoding).removeprefix("\ufeff")
            break
    else:
        raise DataError(
            "neither UTF-8 nor UTF-16",
            hint="convert it, such as from Windows-1252: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW",
        )
    if "\0" in text:
        raise DataError("not a text: it holds null characters")
    return text


def encode(text: str, like: bytes, declared: str = "") -> bytes:
    """Return `text`, the text of a file, in the encoding of the file content `like`, with its byte order mark."""
    encoding = _encoding_of(like, declared)
    has_mark = like.startswith(codecs.BOM_UTF8) or encoding.startswith("utf-16")
    return ("\ufeff" * has_mark + text).encode(encoding, "xmlcharrefreplace")


def _encoding_of(content: bytes, declared: str) -> str:
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if content.startswith(mark):
            return encoding
    found = _DECLARED.match(content)
    name = found[1].decode() if found else declared
    # A declaration that can be read as ASCII is not in UTF-16.
    if not name or content.startswith(codecs.BOM_UTF8) or name.lower().startswith("utf-16"):
        return "utf-8"
    if _ENCODINGS.fullmatch(name):
        with suppress(LookupError):
            return codecs.lookup(name).name
    raise DataError(
        f"it declares an encoding that is not known: {name[:50]}", hint="convert it to UTF-8, and declare that"
    )
