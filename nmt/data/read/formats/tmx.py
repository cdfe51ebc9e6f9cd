"""Read TMX (Translation Memory eXchange 1.1 to 1.4b, OSCAR/LISA)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nmt.base.errors import DataError
from nmt.config.corpora import ParallelFiles
from nmt.data.read.formats.records import MAX_RECORD_CHARS, Record, say_once, too_long
from nmt.data.read.formats.xml_stream import Segment, XmlReader, language_rank

log = logging.getLogger(__name__)

MAX_PAIRS = 10_000
"""Maximum number of pairs from one unit, in which each source variant is paired with each target variant."""

# Native codes and any sub-flow in them (`sub`) are not part of the sentence. The text of `hi` is.
_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})


def read_tmx(files: ParallelFiles, path: Path) -> Iterator[Record]:
    """Yield the pairs of the units that have both languages; `line` is that of `<tu>`.

    The best matching languages of a unit are used (`language_rank`); if several variants match, each source variant is
    paired with each target variant. Units that lack one of the languages are counted in the log. Raises DataError as
    `XmlReader.read` does, and if no unit has both languages.
    """
    return _Units(files, path).read()


class _Units(XmlReader):
    root = "tmx"

    def __init__(self, files: ParallelFiles, path: Path):
        super().__init__(files, path)
        self._num_without = 0
        self._line = self._num_chars = 0
        self._language = ""
        self._variants: list[tuple[str, str]] = []
        self._segment: Segment | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._segment is not None:
            self._segment.start(name, attributes)
        elif name == "tu":
            self._line, self._num_chars, self._variants = self.line, 0, []
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
            self.count_language(self._language)
        elif name == "seg":
            self._segment = Segment(_CODES, (self.path, self.line))

    def end(self, name: str) -> None:
        if self._segment is None:
            if name == "tu":
                self._end_unit()
        elif name == "seg":  # segments are not nested
            text = self._segment.result()
            self._num_chars += len(text) + 1
            if self._num_chars > MAX_RECORD_CHARS:
                raise too_long(self.path, self._line)
            self._variants.append((self._language, text))
            self._segment = None
        else:
            self._segment.end()

    def text(self, text: str) -> None:
        if self._segment is not None:
            self._segment.text(text)

    def _end_unit(self) -> None:
        self.num_units += 1
        languages = [language for language, _ in self._variants]
        sources, targets = (_best_fits(language, languages) for language in self.languages)
        if len(sources) * len(targets) > MAX_PAIRS:
            raise DataError(f"a unit with more than {MAX_PAIRS:,} pairs of variants", path=self.path, line=self._line)
        pairs = [(i, j) for i in sources for j in targets if i != j]
        self.records += [(self._variants[i][1], self._variants[j][1], self._line) for i, j in pairs]
        self._num_without += not pairs

    def finish(self) -> None:
        if self.num_units == 0:
            raise DataError("no translation unit (<tu>) in this file", path=self.path)
        if self._num_without == self.num_units:
            raise self.other_languages(f"no unit has both {self.languages[0]} and {self.languages[1]}")
        if self._num_without:
            counted = (
                f"{self._num_without:,} of {self.num_units:,} units lack {self.languages[0]} or {self.languages[1]}"
            )
            say_once(log, f"{self.path}: {counted} and are skipped")


def _best_fits(requested: str, languages: Sequence[str]) -> list[int]:
    """Return the indices of the languages that match best, in order; empty if none matches."""
    ranks = [language_rank(requested, language) for language in languages]
    best = min((rank for rank in ranks if rank is not None), default=None)
    return [] if best is None else [i for i, rank in enumerate(ranks) if rank == best]
