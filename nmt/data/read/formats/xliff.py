"""Read XLIFF 1.2 and 2.x (OASIS)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from nmt.base.errors import DataError
from nmt.config.corpora import ParallelFiles
from nmt.data.read.formats.records import Record, say_once
from nmt.data.read.formats.xml_stream import Segment, XmlReader, language_rank

log = logging.getLogger(__name__)

_CODES = frozenset({"bpt", "ept", "it", "ph", "bx", "ex", "x", "sc", "ec", "sm", "em", "cp"})  # g, pc, mrk contain text
_SIDES = frozenset({"source", "seg-source", "target"})
_BESIDE = frozenset({"alt-trans", "note", "notes", "matches", "glossary", "originalData", "ignorable", "bin-unit"})
_UNTRANSLATED = frozenset({"new", "needs-translation", "initial"})  # states of 1.2, and the first one of 2.x


def read_xliff(files: ParallelFiles, path: Path) -> Iterator[Record]:
    """Yield the pairs of the units that have a translation; `line` is that of `<trans-unit>` or `<segment>`.

    If the file translates in the other direction, the sides are swapped. Units without a target, in an untranslated
    state, or with `translate="no"` are counted in the log. The segments of a 1.2 unit (`<mrk mtype="seg">`) become
    separate pairs if both sides have the same segments. Raises DataError as `XmlReader.read` does, and if no part of
    the file has both languages.
    """
    return _Units(files, path).read()


class _Side:
    """One side of a unit: its text, and its parts that are marked as segments."""

    def __init__(self, segment: Segment):
        self.segment = segment
        self.text = ""
        self.parts: dict[str, str] = {}
        self._open: list[tuple[str, int] | None] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self.segment.start(name, attributes)
        is_part = name == "mrk" and attributes.get("mtype") == "seg"
        self._open.append((attributes.get("mid", ""), self.segment.num_parts) if is_part else None)

    def end(self) -> None:
        self.segment.end()
        if part := self._open.pop():
            self.parts[part[0]] = self.segment.result(part[1])


class _Units(XmlReader):
    root = "xliff"

    def __init__(self, files: ParallelFiles, path: Path):
        super().__init__(files, path)
        self._languages = ("", "")
        self._swap: bool | None = None  # None: other languages than requested
        self._num_left_out = self._num_in_other_languages = 0
        self._line = self._beside = 0
        self._translate = True
        self._state = ""
        self._sides: dict[str, _Side] = {}
        self._side: _Side | None = None
        self._side_name = ""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._side is not None:
            self._side.start(name, attributes)
        elif self._beside or name in _BESIDE:
            self._beside += 1
        elif name == "xliff":
            self._languages = (attributes.get("srcLang", ""), attributes.get("trgLang", ""))
        elif name == "file":
            src, tgt = self._languages
            self._choose_direction(attributes.get("source-language", src), attributes.get("target-language", tgt))
        elif name in ("trans-unit", "unit"):
            self._translate = attributes.get("translate") != "no"
            self._begin(attributes)
        elif name == "segment":
            self._begin(attributes)
        elif name in _SIDES:
            self._state = attributes.get("state", self._state) if name == "target" else self._state
            self._side = self._sides[name] = _Side(Segment(_CODES, (self.path, self.line)))
            self._side_name = name

    def end(self, name: str) -> None:
        if self._side is not None:
            if name == self._side_name:
                self._side.text = self._side.segment.result()
                self._side = None
            else:
                self._side.end()
        elif self._beside:
            self._beside -= 1
        elif name in ("trans-unit", "segment"):
            self._end_unit()

    def text(self, text: str) -> None:
        if self._side is not None:
            self._side.segment.text(text)

    def _begin(self, attributes: Mapping[str, str]) -> None:
        self._line, self._state, self._sides = self.line, attributes.get("state", ""), {}

    def _choose_direction(self, source: str, target: str) -> None:
        """Decide whether the sides of a file are in the requested languages; a language that is not given matches."""
        self.count_language(f"{source or '?'} to {target or '?'}")
        straight, swapped = (
            all(
                not given or language_rank(wanted, given) is not None
                for wanted, given in zip(self.languages, pair, strict=True)
            )
            for pair in ((source, target), (target, source))
        )
        self._swap = False if straight else True if swapped else None

    def _end_unit(self) -> None:
        self.num_units += 1
        source, target = self._sides.get("source"), self._sides.get("target")
        if self._swap is None:
            self._num_in_other_languages += 1
        elif source is None or target is None or self._state in _UNTRANSLATED or not self._translate:
            self._num_left_out += 1
        else:
            parts = self._sides.get("seg-source", source).parts
            pairs = [(source.text, target.text)]
            if parts and list(parts) == list(target.parts):
                pairs = [(text, target.parts[mid]) for mid, text in parts.items()]
            self.records += [(tgt, src, self._line) if self._swap else (src, tgt, self._line) for src, tgt in pairs]

    def finish(self) -> None:
        if self.num_units == 0:
            raise DataError("no unit (<trans-unit> or <segment>) in this file", path=self.path)
        if self._num_in_other_languages == self.num_units:
            raise self.other_languages(f"no part of this file is from {self.languages[0]} to {self.languages[1]}")
        if left_out := self._num_left_out + self._num_in_other_languages:
            reasons = "without a translation" + (" or in other languages" if self._num_in_other_languages else "")
            counted = f"skipped {left_out:,} of {self.num_units:,} units: {reasons}"
            say_once(log, f"{self.path}: {counted}")
