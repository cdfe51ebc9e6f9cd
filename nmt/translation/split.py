"""Split text where it does the least harm: at lines, tabs, sentences; over a model's limit at clauses, words, letters.

Splitting loses nothing: concatenating `lead` and each part with the white space after it gives the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from nmt.base.patterns import lazy_pattern
from nmt.data.text.spans import Span, replace_spans, within
from nmt.translation.sentences import sentence_starts

_LINE_END = re.compile(r"\r?\n|\t")  # a tab separates the cells of a table
_SPACES = re.compile(r"\s+")
# A clause ends after these marks: Western marks before white space, CJK marks anywhere.
_CLAUSE_END = lazy_pattern(
    r"[,;:.!?،؛)\]}»”’\"—–-](?=\s)|[，；：、。！？）】」』》〉…](?![，；：、。！？）】」』》〉…])"
)
_JOINER = "\u200d"  # zero-width joiner, as between the people of a family's emoji
# In the longest tokens: a part of more characters than these for each token of the limit is not tried. Chosen by hand.
_TOKEN_CHARACTERS = 32


class TextSpan(NamedTuple):
    """A part [start, end) of a text, without white space at its ends, and the white space after it."""

    start: int
    end: int
    space: str
    cut: bool = False  # begins or ends inside a sentence that is too long by itself


class Split(NamedTuple):
    """A text in parts. `lead` is the white space before the first part; a blank text is entirely lead."""

    lead: str
    parts: list[TextSpan]


Range = tuple[int, int]


def lines_of(text: str, spans: Sequence[Span] = ()) -> Iterator[Range]:
    """Yield the ranges of the lines, and of their cells, that are not blank, without the white space around them.

    A line break or tab inside one of `spans`, such as a placeholder of several lines, ends no line.
    """
    has_breaks = "\n" in text or "\t" in text  # most texts have none
    breaks = [match.span() for match in _LINE_END.finditer(text)] if has_breaks else []
    free = [each for each in breaks if _span_around(spans, each[0]) is None]
    for (_, begin), (end, _) in pairwise([(0, 0), *free, (len(text), len(text))]):
        start, stop = _stripped(text, begin, end)
        if start < stop:
            yield start, stop


class TextSplitter:
    """The lines of a text, and the sentences of those lines that have too many.

    Who knows how many tokens these units have gets the parts of the text: units that fit the limit, and smaller parts
    of the others.
    """

    def __init__(self, text: str, spans: Sequence[Span], language: str, max_sentences: int | None):
        """Find the units of `text`; a line of more than `max_sentences` sentences (None: any number) is no unit.

        None of `spans`, which ascend, is split.
        """
        self.text = text
        self.spans = spans
        self.language = language
        self.units: list[Range] = []  # lines and sentences
        for line in lines_of(text, spans):
            sentences = self._sentences(line) if max_sentences is not None else []
            self.units += [line] if len(sentences) <= (max_sentences or 0) else sentences

    def split(self, limit: int, size: Callable[[int, int], int]) -> Split:
        """Return the parts of the text, of up to `limit` tokens, but for a span or character that has more.

        `size(start, end)` returns the number of tokens in a range of the text; it is asked for the units first.
        """
        pieces: list[tuple[int, int, bool]] = []
        for unit in self.units:
            for sentence in [unit] if size(*unit) <= limit else self._sentences(unit):
                fits = size(*sentence) <= limit
                pieces += [(*sentence, False)] if fits else self._cut(*sentence, limit, size)
        if not pieces:
            return Split(self.text, [])
        parts = [
            TextSpan(start, end, self.text[end:following], cut)
            for (start, end, cut), (following, _, _) in pairwise([*pieces, (len(self.text), 0, False)])
        ]
        return Split(self.text[: parts[0].start], parts)

    def _sentences(self, line: Range) -> list[Range]:
        """Return the sentences of a line, without the white space around them.

        Punctuation inside spans ends no sentence.
        """
        start, end = line
        plain = self.text[start:end]
        if self.spans:  # one may begin a sentence
            inside = [span.shifted(-start) for span in within(self.spans, start, end)]
            first_letter = "x" if plain.islower() else "X"
            words = [first_letter + "x" * (span.end - span.start - 1) for span in inside]
            plain = replace_spans(plain, inside, words)
        starts = [start + at for at in sentence_starts(plain, self.language)]
        stripped = [_stripped(self.text, *bounds) for bounds in pairwise([start, *starts, end])]
        return [(begin, stop) for begin, stop in stripped if begin < stop]

    def _cut(
        self, start: int, end: int, limit: int, size: Callable[[int, int], int]
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield the parts of a sentence that exceeds the limit: up to a clause if one fits, else a word or character.

        The clause must end beyond the first quarter of what fits: after "Yes, ", a part would be too short.
        """
        inside_spans = {at for span in within(self.spans, start, end) for at in range(span.start + 1, span.end)}
        allowed = [at for at in range(start, end) if at not in inside_spans and not _belongs_to_previous(self.text, at)]
        words, clauses = (
            sorted({match.end() for match in pattern.finditer(self.text, start, end)}.intersection(allowed))
            for pattern in (_SPACES, _CLAUSE_END)
        )
        while start < end:
            reach = range(start + 1, min(end, start + limit * _TOKEN_CHARACTERS) + 1)
            longest = start + max(1, bisect_right(reach, limit, key=partial(size, start)))
            after_clause = _last(clauses, start + (longest - start) // 4, longest)
            at = after_clause or _last(words, start, longest) or _last(allowed, start, longest)
            if longest == end or not at:  # the rest, or the beginning of a span or of a character with many marks
                span = _span_around(self.spans, longest)
                at = longest if span is None else span.end
            first, last = _stripped(self.text, start, at)
            yield first, last, True
            start, _ = _stripped(self.text, at, end)


def _last(places: Sequence[int], after: int, up_to: int) -> int:
    """Return the last of `places` (ascending) in a range; 0 if there is none."""
    number = bisect_right(places, up_to)
    return places[number - 1] if number > 0 and places[number - 1] > after else 0


def _span_around(spans: Sequence[Span], at: int) -> Span | None:
    """Return the one of `spans`, which ascend, that contains position `at`, if any."""
    index = bisect_right(spans, at, key=lambda span: span.end)
    span = spans[index] if index < len(spans) else None
    return span if span is not None and span.start < at else None


def _belongs_to_previous(text: str, at: int) -> bool:
    character = text[at]
    return character == _JOINER or text[at - 1] == _JOINER or unicodedata.category(character) in ("Mn", "Mc", "Me")


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the range [start, end) without the white space at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
