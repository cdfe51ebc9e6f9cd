"""A translation memory: pairs of segments, in which the same or a similar source is found."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from importlib import import_module
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Self

import numpy as np

from nmt.base.errors import DataError, require
from nmt.base.languages import Direction
from nmt.data.read.formats.tmx import directions_in
from nmt.data.read.pairs import read_parallel
from nmt.data.read.table_names import corpus_named, format_of
from nmt.data.text.characters import AS_READ
from nmt.data.text.words import TERM_WORD
from nmt.translation.segments import MemoryMatch

MIN_SIMILARITY = 0.7  # of a match: 1 minus the Levenshtein distance over the length of the longer source
# Both keep a look-up among a million pairs below 10 ms, and missed no pair of 100 that a search
# through all of them found (docs/log/translation-speed.md, 2026-11-25).
MAX_POSTINGS = 50_000  # occurrences of the words of a text that are looked at, those of the rarest first
_MAX_CANDIDATES = 200  # sources whose similarity is computed


class TranslationMemory:
    """Pairs in memory, with an index of their words: a lookup among a million takes milliseconds."""

    def __init__(self, pairs: Iterable[tuple[str, str]]):
        """Index `pairs`; of several with the same source, the last one counts."""
        self._targets: dict[str, str] = {}  # by source
        self._sources: list[str] = []
        self._postings: dict[str, array[int]] = {}  # the numbers of the sources with each word
        for source, target in pairs:
            self.add(source, target)
        texts = "\n".join([*self._targets, *self._targets.values()])
        self.checksum = sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()
        _rapidfuzz("process")  # an error if it is missing

    @classmethod
    def read(cls, name: str, direction: Direction) -> Self:
        """Read a TMX file, or another corpus file with both languages. DataError if it is invalid."""
        return cls(_pairs(name, direction))

    @classmethod
    def read_all(
        cls, names: Iterable[str], directions: Iterable[Direction], growing: Iterable[str] = ()
    ) -> dict[Direction, Self]:
        """Read TMX files in those `directions` that they have. DataError if one has none, or is another file.

        Those that are `growing` come last, and may have none yet.
        """
        directions = [*directions]
        files: dict[Direction, list[str]] = {}
        for name, needs_units in (*((name, True) for name in names), *((name, False) for name in growing)):
            if format_of(name) != "tmx":
                raise DataError("this is not TMX, in which each text has a language", path=name)
            for direction in directions_in(Path(name), directions, needs_units=needs_units):
                files.setdefault(direction, []).append(name)
        return {
            direction: cls(pair for name in of_direction for pair in _pairs(name, direction))
            for direction, of_direction in files.items()
        }

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, source: str, target: str) -> None:
        """Add a pair, or replace that with the same source; leave out a pair with a blank side."""
        source = AS_READ(source).strip()
        target = target.strip()
        if not (source and target):
            return
        if source not in self._targets:
            for word in {*TERM_WORD.findall(source.casefold())}:
                if word not in self._postings:
                    self._postings[word] = array("i")  # 4 bytes an occurrence, where a list has 8
                self._postings[word].append(len(self._sources))
            self._sources.append(source)
        self._targets[source] = target

    def find_same(self, text: str) -> MemoryMatch | None:
        """Return the pair whose source is `text`, but for white space around it; None if there is none."""
        text = AS_READ(text).strip()
        target = self._targets.get(text)
        return None if target is None else MemoryMatch(text, target, 1.0)

    def find(self, text: str) -> MemoryMatch | None:
        """Return the pair with the most similar source; None if none is similar enough.

        A source that shares no word with `text` is not found, and one may be missed that shares only frequent ones.
        """
        text = AS_READ(text).strip()
        if (same := self.find_same(text)) is not None:
            return same
        scorer = _rapidfuzz("distance.Levenshtein").normalized_similarity
        candidates = self._candidates(text)
        best = _rapidfuzz("process").extractOne(text, candidates, scorer=scorer, score_cutoff=MIN_SIMILARITY)
        return None if best is None else MemoryMatch(best[0], self._targets[best[0]], best[1])

    def _candidates(self, text: str) -> list[str]:
        """Return the sources of a suitable length that share the most words with `text`, up to `_MAX_CANDIDATES`."""
        known = self._postings.keys() & TERM_WORD.findall(text.casefold())
        postings = sorted((self._postings[word] for word in known), key=len)
        total = accumulate(map(len, postings))
        chosen = [each for each, end in zip(postings, total, strict=True) if end <= MAX_POSTINGS]
        chosen = chosen or [each[-MAX_POSTINGS:] for each in postings[:1]]
        copies = [np.array(each, np.int32) for each in chosen]  # a view would keep `add` from growing them
        found, shared = np.unique(np.concatenate([*copies, np.empty(0, np.int32)]), return_counts=True)
        sources = (self._sources[number] for number in found[np.argsort(-shared, kind="stable")].tolist())
        longest = len(text) / MIN_SIMILARITY
        shortest = len(text) * MIN_SIMILARITY
        return [*islice((each for each in sources if shortest <= len(each) <= longest), _MAX_CANDIDATES)]


def _pairs(name: str, direction: Direction) -> Iterator[tuple[str, str]]:
    languages = {"src_lang": direction.src, "tgt_lang": direction.tgt}
    for pair in read_parallel(corpus_named(name).model_copy(update=languages)):
        yield pair.src, pair.tgt


@cache
def _rapidfuzz(name: str) -> Any:
    """Return a module of rapidfuzz; a memory has none of them, so that it can be sent to another process."""
    require("tm", "rapidfuzz", "a translation memory")
    return import_module(f"rapidfuzz.{name}")
