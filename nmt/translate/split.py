"""Text longer than a model's limit, split where that harms least: line ends, sentences, clauses, words, characters.

Sentence ends are found by sentencex (Wikimedia, MIT), which knows the marks and abbreviations of some 300 languages.
What is split loses nothing: `lead` and each part with the white space after it make the text again.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from nmt.data.sentencepiece_training import without_surrogates
from nmt.data.spans import Span, replace_spans

_LINE_END = re.compile(r"\r?\n")
_WHITE_SPACE = re.compile(r"\s")
_SPACES = re.compile(r"\s+")
# A clause ends after these marks: Western ones before white space, those of CJK anywhere.
_CLAUSE_END = re.compile(r"[,;:.!?،؛)\]}»”’\"—–-](?=\s)|[，；：、。！？）】」』》〉…](?![，；：、。！？）】」』》〉…])")
_WINDOW_CHARACTERS = 20_000  # sentencex is quadratic in some texts, so it sees no more at once
_JOINER = "\u200d"


class Part(NamedTuple):
    """A stretch [start, end) of a text, without white space at its ends, and the white space after it."""

    start: int
    end: int
    space: str
    cut: bool = False  # it begins or ends within a sentence, which alone is too long


class Split(NamedTuple):
    """A text in parts. `lead` is the white space before the first; all of a blank text."""

    lead: str
    parts: list[Part]


def whole(text: str) -> Split:
    """`text` as one part, or none if it is blank."""
    start, end = _stripped(text, 0, len(text))
    return Split(text[:start], [Part(start, end, text[end:])] if start < end else [])


def split_text(text: str, spans: Sequence[Span], language: str, limit: int, size: Callable[[int, int], int]) -> Split:
    """Split `text` into its lines, and lines of more than `limit` tokens into sentences and less.

    `size(start, end)` is the number of tokens of that stretch; none of `spans` is cut. A part is over the limit only if
    a single character or span is.
    """
    stretches = [
        stretch
        for start, end in _lines(text)
        for stretch in _within_limit(text, start, end, spans, language, limit, size)
    ]
    if not stretches:
        return Split(text, [])
    following = [start for start, _, _ in stretches[1:]] + [len(text)]
    parts = [
        Part(start, end, text[end:after], cut) for (start, end, cut), after in zip(stretches, following, strict=True)
    ]
    return Split(text[: parts[0].start], parts)


def sentence_starts(text: str, language: str) -> list[int]:
    """Where sentences begin, the first left out; white space after a sentence belongs to it."""
    import sentencex  # when it is needed: most texts are short

    # sentencex counts a white-space character as one byte and knows no surrogates; the stand-ins keep all lengths.
    plain = without_surrogates(_WHITE_SPACE.sub(" ", text))
    starts: list[int] = []
    begin = 0
    while begin < len(plain):
        window = plain[begin : begin + _WINDOW_CHARACTERS]
        lengths = [len(sentence) for sentence in sentencex.segment(language, window)]
        if sum(lengths) != len(window):  # its promise is broken: one sentence, which is cut at clauses if it must be
            lengths = [len(window)]
        last_window = begin + len(window) == len(plain)
        for length in lengths if last_window or len(lengths) == 1 else lengths[:-1]:  # the last may go on
            begin += length
            starts.append(begin)
    return starts[:-1]


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield the lines that are not blank, without the white space around them."""
    ends = [*(match.span() for match in _LINE_END.finditer(text)), (len(text), len(text))]
    begin = 0
    for end, following in ends:
        start, stop = _stripped(text, begin, end)
        if start < stop:
            yield start, stop
        begin = following


def _within_limit(
    text: str,
    start: int,
    end: int,
    spans: Sequence[Span],
    language: str,
    limit: int,
    size: Callable[[int, int], int],
) -> Iterator[tuple[int, int, bool]]:
    """(start, end, cut) of the stretches of one line, each within the limit where that can be."""
    if size(start, end) <= limit:
        yield start, end, False
        return
    # A span is a word to the segmenter, whatever marks it holds.
    first, last = (bisect_left(spans, at, key=lambda span: span.start) for at in (start, end))
    inside = [Span(span.start - start, span.end - start) for span in spans[first:last]]
    line = replace_spans(text[start:end], inside, ["x" * (span.end - span.start) for span in inside])
    starts = [start, *(start + at for at in sentence_starts(line, language)), end]
    for from_, to in pairwise(starts):
        begin, stop = _stripped(text, from_, to)
        if begin < stop:
            yield from _clauses(text, begin, stop, spans, limit, size)


def _clauses(
    text: str, start: int, end: int, spans: Sequence[Span], limit: int, size: Callable[[int, int], int]
) -> Iterator[tuple[int, int, bool]]:
    """One sentence, cut if it is over the limit: after a clause if one fits, else a word, else a character."""
    cut = False
    while start < end:
        longest = _longest(text, start, end, spans, limit, size)
        if longest == end:
            yield start, end, cut
            return
        cut = True
        at = _last_boundary(text, start, longest, spans)
        first, last = _stripped(text, start, at)
        yield first, last, True
        start, _ = _stripped(text, at, end)


def _longest(
    text: str, start: int, end: int, spans: Sequence[Span], limit: int, size: Callable[[int, int], int]
) -> int:
    """Return the longest stretch from `start` within the limit, at least a character or span; not within a span."""
    reach = start + limit
    while reach < end and size(start, reach) <= limit:
        reach = start + 2 * (reach - start)
    if reach >= end and size(start, end) <= limit:
        return end
    low, high = start + 1, min(reach, end)  # `low` fits or is the least there is, `high` does not fit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(start, middle) <= limit else (low, middle)
    return _not_within(text, start, low, end, spans)


def _last_boundary(text: str, start: int, longest: int, spans: Sequence[Span]) -> int:
    """Where to cut [start, longest): after a clause, but not in its first quarter; else after a word."""
    window = text[start : longest + 1]  # a mark's white space may lie just behind
    least = (longest - start) // 4
    for pattern, after in ((_CLAUSE_END, start + least), (_SPACES, start)):
        ends = [start + match.end() for match in pattern.finditer(window)]
        fitting = [at for at in ends if after < at <= longest and _around(spans, at) is None]
        if fitting:
            return fitting[-1]
    return longest


def _around(spans: Sequence[Span], at: int) -> Span | None:
    """Return the span that contains `at`."""
    index = bisect_left(spans, at, key=lambda span: span.end)
    return spans[index] if index < len(spans) and spans[index].start < at < spans[index].end else None


def _not_within(text: str, start: int, at: int, end: int, spans: Sequence[Span]) -> int:
    """`at`, moved to the edge of the span or of the character (with its marks) that it lies within."""
    span = _around(spans, at)
    if span is not None:
        return span.start if span.start > start else span.end
    moved = at
    while moved > start + 1 and moved < end and at - moved < 16 and _belongs_to_previous(text, moved):
        moved -= 1
    if moved == start + 1 or at - moved == 16:
        return at
    span = _around(spans, moved)  # whose last character has marks after it
    return moved if span is None else span.start if span.start > start else at


def _belongs_to_previous(text: str, at: int) -> bool:
    character = text[at]
    return character == _JOINER or text[at - 1] == _JOINER or unicodedata.category(character) in ("Mn", "Mc", "Me")


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """[start, end) without the white space at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
