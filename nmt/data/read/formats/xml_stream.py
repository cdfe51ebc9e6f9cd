"""Read XML from untrusted files as a stream of events: no entities, no external files, bounded memory.

A document type that names an external DTD is ignored, because many tools write `<!DOCTYPE tmx SYSTEM "tmx14.dtd">`.
nmt never reads that DTD. Declarations in the document itself, and references to entities of any kind, are rejected.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from xml.parsers import expat

from nmt.base.errors import ConfigError, DataError
from nmt.config.corpora import ParallelFiles
from nmt.data.read.formats.records import MAX_RECORD_CHARS, Record, on_one_line, too_long
from nmt.data.read.lines import check_beginning, open_text, read_errors, read_fault

MAX_TAG_BYTES = 4_000_000
"""Longer tags and comments are rejected, because expat keeps them in memory until they end."""

MAX_DEPTH = 200

_CHUNK_BYTES = 1 << 16
_SHOWN_LANGUAGES = 20
_MAX_LANGUAGES = 1000  # counted
_REPAIR = "export the file again, or repair it: xmllint --noout FILE shows the error"
_NO_ENTITIES = "write plain text instead; nmt reads neither DTDs nor entities"
_LINE_BREAK = re.compile(r"<\s*br\b|\\n|^[\r\n]+$", re.IGNORECASE)


class XmlReader(ABC):
    """An expat parser that makes records from the events of one kind of XML file; subclasses handle the events.

    Names have no prefix, except `xml:lang`.
    """

    root: str  # the name of the outermost element

    def __init__(self, files: ParallelFiles, path: Path):
        """Prepare for a file. ConfigError if the languages to read are not set."""
        if files.src_lang is None or files.tgt_lang is None:
            raise ConfigError("the languages to read are not set", path=path, hint="set src_lang and tgt_lang")
        self.path, self.languages = path, (files.src_lang, files.tgt_lang)
        self.records: list[Record] = []
        self.languages_found: Counter[str] = Counter()  # the first thousand
        self.num_units = 0
        self._depth = self._bytes_since_event = 0
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.CommentHandler = parser.ProcessingInstructionHandler = self._progress
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = parser.ExternalEntityRefHandler = parser.SkippedEntityHandler = self._entity

    @abstractmethod
    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""

    @abstractmethod
    def end(self, name: str) -> None:
        """Handle the end of an element."""

    @abstractmethod
    def text(self, text: str) -> None:
        """Handle a part of the text between tags."""

    @abstractmethod
    def finish(self) -> None:
        """Handle the end of the file. Raises DataError if it had nothing in the requested languages."""

    def read(self) -> Iterator[Record]:
        """Yield the records of the file, plain or compressed, in the encoding that it declares.

        Raises DataError, with the line, for XML that is not well-formed, a DTD, an entity, a tag over `MAX_TAG_BYTES`,
        and elements nested deeper than `MAX_DEPTH`.
        """
        with open_text(self.path) as file:
            errors = read_errors()
            begin = True
            while True:
                try:
                    chunk = file.read(_CHUNK_BYTES)
                except errors as error:
                    raise read_fault(error, self.path, self.line) from None
                if begin:
                    check_beginning(chunk, self.path, xml=True)
                    begin = False
                self._feed(chunk)
                yield from self.records
                self.records.clear()
                if not chunk:
                    break
        self.finish()

    @property
    def line(self) -> int:
        """Return the current line."""
        return self._parser.CurrentLineNumber

    def fault(self, message: str, hint: str = "") -> DataError:
        """Return an error on the current line."""
        return DataError(message, path=self.path, line=self.line, hint=hint)

    def count_language(self, language: str) -> None:
        """Count one occurrence of a language, for `other_languages`."""
        if language in self.languages_found or len(self.languages_found) < _MAX_LANGUAGES:
            self.languages_found[language or "none given"] += 1

    def other_languages(self, message: str) -> DataError:
        """Return the error that the requested languages are not in the file."""
        found = self.languages_found.most_common(_SHOWN_LANGUAGES)
        listed = ", ".join(f"{name[:60]} ({count:,})" for name, count in found)
        more = ", …" if len(self.languages_found) > _SHOWN_LANGUAGES else ""
        hint = f"languages in the file: {listed}{more}; set src_lang and tgt_lang of this corpus"
        return DataError(message, path=self.path, hint=hint)

    def _feed(self, chunk: bytes) -> None:
        """Parse a part of the file; b"" marks its end."""
        self._bytes_since_event += len(chunk)
        try:
            self._parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            message = f"not well-formed XML: {expat.ErrorString(error.code)}"
            raise DataError(message, path=self.path, line=error.lineno, hint=_REPAIR) from None
        except (LookupError, ValueError) as error:  # an encoding that Python does not know, or a multi-byte one
            raise self.fault(f"not readable as XML: {error}", _REPAIR) from None
        if self._bytes_since_event > MAX_TAG_BYTES:
            raise self.fault(f"a tag or comment longer than {MAX_TAG_BYTES:,} bytes", _REPAIR)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._bytes_since_event = 0
        self._depth += 1
        local = name.rpartition(":")[2]
        if self._depth == 1 and local != self.root:
            raise self.fault(f"this is not {self.root.upper()}: the file starts with <{name[:60]}>")
        if self._depth > MAX_DEPTH:
            raise self.fault(f"elements nested more than {MAX_DEPTH} deep")
        self.start(local, attributes)

    def _end(self, name: str) -> None:
        self._bytes_since_event = 0
        self._depth -= 1
        self.end(name.rpartition(":")[2])

    def _text(self, text: str) -> None:
        self._bytes_since_event = 0
        self.text(text)

    def _progress(self, *_: str) -> None:
        self._bytes_since_event = 0

    def _doctype(self, name: str, system: str | None, public: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            raise self.fault("the file contains a DTD", _NO_ENTITIES)

    def _entity(self, name: str, *_: object) -> int:
        raise self.fault(f"the file refers to an entity{f' ({name[:60]})' if name else ''}", _NO_ENTITIES)


class Segment:
    """The text of one segment. The text in inline markup is kept; codes and everything in them are dropped."""

    def __init__(self, codes: Collection[str], place: tuple[Path, int]):
        self._codes, self._place = codes, place
        self._parts: list[str] = []
        self._num_chars = self._depth_in_code = 0

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element inside the segment."""
        if self._depth_in_code or name in self._codes:
            self._depth_in_code += 1
        if any(attributes.get(key) in ("lb", "fmt:lb") for key in ("ctype", "subType", "type")):
            self._add(" ")  # a line break separates two words

    def end(self) -> None:
        """Handle the end of an element inside the segment."""
        self._depth_in_code = max(0, self._depth_in_code - 1)

    def text(self, text: str) -> None:
        """Handle a part of the text."""
        if not self._depth_in_code:
            self._add(text)
        elif len(text) < 100 and _LINE_BREAK.search(text):
            self._add(" ")

    @property
    def num_parts(self) -> int:
        """Return the number of parts so far, as a position for `result`."""
        return len(self._parts)

    def result(self, start: int = 0) -> str:
        """Return the text from the position `start` on, as one line."""
        return on_one_line("".join(self._parts[start:]), *self._place)

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self._num_chars += len(text)
        if self._num_chars > MAX_RECORD_CHARS:
            raise too_long(*self._place)


def language_rank(requested: str, tag: str) -> int | None:
    """Return how well a language tag matches the requested one: 0 is best, None if it does not match.

    0: the same, ignoring case, with `-` or `_`. 1: more specific, such as en-US for en. 2: more general, such as pt for
    pt-BR. en-US does not match en-GB.
    """
    left, right = (code.strip().casefold().replace("_", "-") for code in (requested, tag))
    if left == right:
        return 0
    if right.startswith(f"{left}-"):
        return 1
    return 2 if right and left.startswith(f"{right}-") else None
