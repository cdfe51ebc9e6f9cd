"""Read TMX (Translation Memory eXchange 1.1 to 1.4b, OSCAR/LISA) and TBX as a stream: no entities, bounded memory.

A document type that names an external DTD is ignored, because many tools write `<!DOCTYPE tmx SYSTEM "tmx14.dtd">`.
nmt never reads that DTD. Declarations in the document itself, and references to entities of any kind, are rejected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from itertools import count
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from nmt.base.errors import ConfigError, DataError, counted
from nmt.base.languages import Direction
from nmt.config.corpora import ParallelFiles
from nmt.data.read.formats.records import MAX_RECORD_CHARS, Record, on_one_line, say_once, too_long
from nmt.data.read.lines import check_beginning, open_text, read_fault
from nmt.data.text.spans import find_spans

MAX_TAG_BYTES = 4_000_000  # longer tags and comments are rejected, because expat keeps them in memory until they end
MAX_DEPTH = 200
MAX_PAIRS = 10_000  # pairs from one unit, in which each source variant is paired with each target variant
_CHUNK_BYTES = 1 << 16
_SHOWN_LANGUAGES = 20
_MAX_KINDS = 1000  # of units, by their languages
_REPAIR = "export the file again, or repair it: xmllint --noout FILE shows the error"
_NO_ENTITIES = "write plain text instead; nmt reads neither DTDs nor entities"
_BLANK = "\n"  # `on_one_line` makes one space of it and of those around it
_MAX_CODE = 1000  # characters of a code that are looked at
_BLANK_TYPE = re.compile(
    r"(?:x-)?(?:html-)?(?:lb|br|p|tab|nbsp|(?:line|page|soft|hard)-?break|(?:\w+-)?space)", re.IGNORECASE
)
_BLANK_CODE = re.compile(
    r"\s*<\s*/?\s*(?:\w+:)?(?:br|p|div|li|tr|td|th|h\d|tab)\b|(?:\\[nrt]|\s)+$|\\(?:tab|line|par|cell|~)\b",
    re.IGNORECASE,
)

# Native codes and any sub-flow in them (`sub`) are not part of the sentence, unless they stand for a part of it
# (`_text_of_code`). The text of `hi` is.
_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
_PAIRED = frozenset({"bpt", "ept"})  # around text, as bold is; the others stand alone
_PAIRED_MARK, _ALONE_MARK = "\1", "\2"  # in place of codes that stand for nothing known; XML has no such characters
# Two letters, digits or sentences: a code that stands alone between them separates them, formatting does not.
_SOME_MARKS = f"[{_PAIRED_MARK}{_ALONE_MARK}]+"
_MARKS = re.compile(rf"(?<=\s){_SOME_MARKS}\s+|{_SOME_MARKS}")  # with one of two spaces around them
_IN_TEXT = re.compile(rf"(?<=[^\s\W]|[.,;:!?…)\]]){_SOME_MARKS}(?=[^\W_])")

_ROOTS = frozenset({"tmx", "martif", "tbx"})
_NAMES_OF_TBX = {"termEntry": "tu", "conceptEntry": "tu", "langSet": "tuv", "langSec": "tuv", "term": "seg"}
"""The elements that stand for the units, variants and segments of a TMX in TBX (ISO 30042), version 2 or 3."""


def read_tmx(files: ParallelFiles, path: Path) -> Iterator[Record]:
    """Yield the pairs of the units that have both languages; `line` is that of `<tu>`.

    The file may be compressed, and in any encoding that it declares. The best matching languages of a unit are used
    (`_best_fits`); if several variants match, each source variant is paired with each target variant. Units that
    lack one of the languages are counted in the log. Raises DataError, with the line, for XML that is not well-formed,
    a DTD, an entity, a tag over `MAX_TAG_BYTES` and elements nested deeper than `MAX_DEPTH`, and if no unit has both
    languages; ConfigError if the languages to read are not set.
    """
    if files.src_lang is None or files.tgt_lang is None:
        raise ConfigError("the languages to read are not set", path=path, hint="set src_lang and tgt_lang")
    yield from _parse(units := _Units(path, (files.src_lang, files.tgt_lang)), path)
    units.finish()


def directions_in(path: Path, directions: Iterable[Direction], *, needs_units: bool = True) -> list[Direction]:
    """Return those `directions` in which a TMX file has units. DataError as `read_tmx`.

    If it `needs_units`, also if there are none.
    """
    directions = [*directions]
    units = _Units(path, directions[0])
    for _ in _parse(units, path):
        pass
    kinds = [[*kind] for kind in units.kinds]
    found = [each for each in directions if any(all(_best_fits(code, kind) for code in each) for kind in kinds)]
    if needs_units and not found:
        units.finish()
    return found


def _parse(units: _Units, path: Path) -> Iterator[Record]:
    with open_text(path) as file:
        for number in count():
            try:
                chunk = file.read(_CHUNK_BYTES)
            except Exception as error:
                raise read_fault(error, path, units.line) from None
            if number == 0:
                check_beginning(chunk, path, xml=True)
            units.feed(chunk)
            yield from units.records
            units.records.clear()
            if not chunk:
                break


class _Units:
    """An expat parser that makes records from translation units. Prefixes of names are ignored, except `xml:lang`."""

    def __init__(self, path: Path, languages: tuple[str, str]):
        self.records: list[Record] = []
        self.kinds: Counter[tuple[str, ...]] = Counter()  # the languages of each unit, the first thousand kinds
        self._path, self._languages = path, languages
        self._num_units = self._num_without = self._num_codes = 0
        self._depth = self._num_bytes = 0
        self._unit: TreeBuilder | None = None  # None outside of units, which are not nested
        self._unit_line = self._unit_chars = 0
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = parser.ExternalEntityRefHandler = parser.SkippedEntityHandler = self._entity

    @property
    def line(self) -> int:
        """The current line."""
        return self._parser.CurrentLineNumber

    def feed(self, chunk: bytes) -> None:
        """Parse a part of the file; b"" marks its end."""
        self._num_bytes += len(chunk)
        try:
            self._parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            raise DataError(
                f"not well-formed XML: {expat.ErrorString(error.code)}",
                path=self._path,
                line=error.lineno,
                hint=_REPAIR,
            ) from None
        except (LookupError, ValueError) as error:  # an encoding that Python does not know, or a multi-byte one
            raise self._fault(f"not readable as XML: {error}", _REPAIR) from None
        if self._num_bytes - self._parser.CurrentByteIndex > MAX_TAG_BYTES:
            raise self._fault(f"a tag or comment longer than {MAX_TAG_BYTES:,} bytes", _REPAIR)

    def finish(self) -> None:
        """Log the units that were skipped. Raises DataError if no unit had both languages."""
        src, tgt = self._languages
        if self._num_units == 0:
            raise DataError("no translation unit (<tu>, in a TBX <termEntry> or <conceptEntry>)", path=self._path)
        if self._num_without == self._num_units:
            found: Counter[str] = Counter()
            for kind, count in self.kinds.items():
                found.update(dict.fromkeys(kind, count))
            shown = ", ".join(
                f"{code[:60] or 'none given'} ({count:,})" for code, count in found.most_common(_SHOWN_LANGUAGES)
            )
            how = "set src_lang and tgt_lang of this corpus (--src-lang and --tgt-lang, or --from and --to)"
            raise DataError(
                f"no unit has both {src} and {tgt}", path=self._path, hint=f"languages in the file: {shown}; {how}"
            )
        if self._num_codes:
            say_once(
                f"{self._path}: {counted(self._num_codes, 'inline code')} left out, for which nmt knows no text: "
                "images, fields, notes"
            )
        if self._num_without:
            lacking = f"{self._num_without:,} of {self._num_units:,} units lack {src} or {tgt} and are skipped"
            say_once(f"{self._path}: {lacking}")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        local = _local(name)
        if self._depth == 1 and local not in _ROOTS:
            raise self._fault(f"this is neither TMX nor TBX: the file starts with <{name[:60]}>")
        if self._depth > MAX_DEPTH:
            raise self._fault(f"elements nested more than {MAX_DEPTH} deep")
        if local == "tu":
            self._unit = TreeBuilder()
            self._unit_line = self.line
            self._unit_chars = 0
        if self._unit is not None:
            self._unit.start(local, dict(attributes))

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._unit is not None:
            element = self._unit.end(_local(name))
            if element.tag == "tu":
                self._unit = None
                self._add_records(element)

    def _text(self, text: str) -> None:
        if self._unit is not None:
            self._unit.data(text)
            self._unit_chars += len(text)
            if self._unit_chars > MAX_RECORD_CHARS:
                raise too_long(self._path, self._unit_line)

    def _add_records(self, unit: Element) -> None:
        self._num_units += 1
        languages = []
        texts = []
        for variant in unit.iter("tuv"):
            language = variant.get("xml:lang") or variant.get("lang") or ""
            for segment in variant.iter("seg"):
                text = _IN_TEXT.sub(lambda marks: _BLANK * (_ALONE_MARK in marks[0]), _text_in(segment))
                self._num_codes += text.count(_ALONE_MARK)
                languages.append(language)
                texts.append(on_one_line(_MARKS.sub("", text), self._path, self._unit_line))
        kind = tuple(dict.fromkeys(languages))
        if kind in self.kinds or len(self.kinds) < _MAX_KINDS:
            self.kinds[kind] += 1
        sources, targets = (_best_fits(language, languages) for language in self._languages)
        if len(sources) * len(targets) > MAX_PAIRS:
            raise DataError(
                f"a unit with more than {MAX_PAIRS:,} pairs of variants", path=self._path, line=self._unit_line
            )
        pairs = [(i, j) for i in sources for j in targets if i != j]
        self.records += [(texts[i], texts[j], self._unit_line) for i, j in pairs]
        self._num_without += not pairs

    def _doctype(self, name: str, system: str | None, public: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            raise self._fault("the file contains a DTD", _NO_ENTITIES)

    def _entity(self, name: str, *_: object) -> int:
        raise self._fault(f"the file refers to an entity{f' ({name[:60]})' if name else ''}", _NO_ENTITIES)

    def _fault(self, message: str, hint: str = "") -> DataError:
        return DataError(message, path=self._path, line=self.line, hint=hint)


def _local(name: str) -> str:
    """Return the name of an element without its prefix; that of its counterpart in a TMX if it is one of TBX."""
    local = name.rpartition(":")[2]
    return _NAMES_OF_TBX.get(local, local)


def _text_in(element: Element) -> str:
    """Return the text of a segment or of an element in it, with a mark for each code that stands for nothing known."""
    parts = [element.text or ""]
    for child in element:
        parts.append(_text_of_code(child) if child.tag in _CODES else _text_in(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _text_of_code(element: Element) -> str:
    """Return what an inline code stands for in the text: itself if a translation keeps it, a blank, or its mark."""
    mark = _PAIRED_MARK if element.tag in _PAIRED else _ALONE_MARK
    code = "".join([element.text or "", *(sub_flow.tail or "" for sub_flow in element)])[:_MAX_CODE]
    text = code.strip()
    if _BLANK_TYPE.fullmatch(element.get("type", "")) or _BLANK_CODE.match(code) or unescape(code).isspace():
        return _BLANK
    is_kept = mark == _ALONE_MARK and text[:1] not in ("<", "\\") and find_spans(text)[:1] == [(0, len(text))]
    return text if is_kept else mark


def _best_fits(requested: str, languages: Sequence[str]) -> list[int]:
    """Return the indices of the languages that match best, in order; empty if none matches.

    The same tag is best, ignoring case, with `-` or `_`; then more specific ones (en-US for en), then more general ones
    (pt for pt-BR). en-US does not match en-GB.
    """
    wanted, *tags = (code.strip().casefold().replace("_", "-") for code in (requested, *languages))
    same = [i for i, tag in enumerate(tags) if tag == wanted]
    specific = [i for i, tag in enumerate(tags) if tag.startswith(f"{wanted}-")]
    return same or specific or [i for i, tag in enumerate(tags) if wanted.startswith(f"{tag}-")]
