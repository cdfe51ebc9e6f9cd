"""Split text where it does the least harm: at lines and sentences; over a model's limit at clauses, words, characters.

sentencex (Wikimedia, MIT) finds sentence ends; it knows the punctuation and abbreviations of about 300 languages.
Splitting loses nothing: concatenating `lead` and each part with the white space after it gives the text.
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
# A clause ends after these marks: Western marks before white space, CJK marks anywhere.
_CLAUSE_END = re.compile(r"[,;:.!?،؛)\]}»”’\"—–-](?=\s)|[，；：、。！？）】」』》〉…](?![，；：、。！？）】」』》〉…])")
_WINDOW_CHARACTERS = 20_000  # passed to sentencex at once, because it takes quadratic time on some texts
_JOINER = "\u200d"


class Part(NamedTuple):
    """A part [start, end) of a text, without white space at its ends, and the white space after it."""

    start: int
    end: int
    space: str
    cut: bool = False  # begins or ends inside a sentence that is too long by itself


class Split(NamedTuple):
    """A text in parts. `lead` is the white space before the first part; a blank text is entirely lead."""

    lead: str
    parts: list[Part]


def whole(text: str) -> Split:
    """Return `text` as one part, or as none if it is blank."""
    start, end = _stripped(text, 0, len(text))
    return Split(text[:start], [Part(start, end, text[end:])] if start < end else [])


def split_text(
    text: str,
    spans: Sequence[Span],
    language: str,
    limit: int,
    size: Callable[[int, int], int],
    max_sentences: int | None = None,
) -> Split:
    """Split `text` into its lines, and long lines into sentences or smaller parts.

    A line is long if it has more than `max_sentences` sentences (None: any number) or more than `limit` tokens.
    `size(start, end)` returns the number of tokens in a range of the text. None of `spans` is split, so a part exceeds
    the limit only if a single span or character does.
    """
    source = _Text(text, spans, limit, size)
    lines = list(lines_of(text))
    stretches = [part for start, end in lines for part in source.split_line(start, end, language, max_sentences)]
    if not stretches:
        return Split(text, [])
    following = [start for start, _, _ in stretches[1:]] + [len(text)]
    parts = [
        Part(start, end, text[end:after], cut) for (start, end, cut), after in zip(stretches, following, strict=True)
    ]
    return Split(text[: parts[0].start], parts)


def sentence_starts(text: str, language: str) -> list[int]:
    """Return the start of every sentence except the first; white space belongs to the preceding sentence."""
    import sentencex  # only when needed: most texts are short

    # sentencex counts white space as one byte and rejects surrogates; the replacements keep all lengths.
    plain = without_surrogates(_WHITE_SPACE.sub(" ", text))
    starts: list[int] = []
    begin = 0
    while begin < len(plain):
        window = plain[begin : begin + _WINDOW_CHARACTERS]
        lengths = [len(sentence) for sentence in sentencex.segment(language, window)]
        if sum(lengths) != len(
            window
        ):  # sentencex lost text: treat it as one sentence, which can still be split at clauses
            lengths = [len(window)]
        last_window = begin + len(window) == len(plain)
        # The last sentence of a window may continue in the next.
        for length in lengths if last_window or len(lengths) == 1 else lengths[:-1]:
            begin += length
            starts.append(begin)
    return starts[:-1]


def count_sentences(text: str, language: str) -> int:
    """Return the number of sentences of a line; 1 for a blank one."""
    return 1 + len(sentence_starts(text, language))


def line_sentence_starts(text: str, start: int, end: int, spans: Sequence[Span], language: str) -> list[int]:
    """Return the start of every sentence of the line [start, end) of `text` except the first.

    Punctuation inside `spans` ends no sentence.
    """
    first, last = (bisect_left(spans, at, key=lambda span: span.start) for at in (start, end))
    inside = [Span(span.start - start, span.end - start) for span in spans[first:last]]
    line = replace_spans(text[start:end], inside, ["X" + "x" * (span.end - span.start - 1) for span in inside])
    return [start + at for at in sentence_starts(line, language)]


def lines_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the lines that are not blank, without the white space around them."""
    ends = [*(match.span() for match in _LINE_END.finditer(text)), (len(text), len(text))]
    begin = 0
    for end, following in ends:
        start, stop = _stripped(text, begin, end)
        if start < stop:
            yield start, stop
        begin = following


class _Text(NamedTuple):
    """A text to split, and the limit of its parts."""

    text: str
    spans: Sequence[Span]  # must not be split; in ascending order
    limit: int  # tokens
    size: Callable[[int, int], int]  # number of tokens in a range

    def split_line(
        self, start: int, end: int, language: str, max_sentences: int | None
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield the parts (start, end, cut) of a line, within the limit if possible."""
        starts = None
        if max_sentences is not None:
            starts = line_sentence_starts(self.text, start, end, self.spans, language)
        if (starts is None or len(starts) < max_sentences) and self.size(start, end) <= self.limit:
            yield start, end, False
            return
        if starts is None:
            starts = line_sentence_starts(self.text, start, end, self.spans, language)
        for from_, to in pairwise([start, *starts, end]):
            begin, stop = _stripped(self.text, from_, to)
            if begin < stop:
                yield from self._split_sentence(begin, stop)

    def _split_sentence(self, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Yield a sentence, split if it exceeds the limit: after a clause if one fits, else a word or character."""
        cut = False
        while start < end:
            longest = self._longest(start, end)
            if longest == end:
                yield start, end, cut
                return
            cut = True
            at = self._last_boundary(start, longest)
            first, last = _stripped(self.text, start, at)
            yield first, last, True
            start, _ = _stripped(self.text, at, end)

    def _longest(self, start: int, end: int) -> int:
        """Return the end of the longest range from `start` within the limit; at least one character or span."""
        reach = start + self.limit
        while reach < end and self.size(start, reach) <= self.limit:
            reach = start + 2 * (reach - start)
        if reach >= end and self.size(start, end) <= self.limit:
            return end
        low, high = start + 1, min(reach, end)  # `low` fits or is the minimum, `high` does not fit
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.size(start, middle) <= self.limit else (low, middle)
        return self._not_within(start, low, end)

    def _last_boundary(self, start: int, longest: int) -> int:
        """Return where to split [start, longest): after a clause beyond the first quarter, else after a word."""
        window = self.text[start : longest + 1]  # the white space after a mark may follow directly
        least = (longest - start) // 4
        for pattern, after in ((_CLAUSE_END, start + least), (_SPACES, start)):
            ends = [start + match.end() for match in pattern.finditer(window)]
            fitting = [at for at in ends if after < at <= longest and self._around(at) is None]
            if fitting:
                return fitting[-1]
        return longest

    def _around(self, at: int) -> Span | None:
        """Return the span that contains position `at`, if any."""
        index = bisect_left(self.spans, at, key=lambda span: span.end)
        span = self.spans[index] if index < len(self.spans) else None
        return span if span is not None and span.start < at < span.end else None

    def _not_within(self, start: int, at: int, end: int) -> int:
        """Move `at` to the edge of the span, or of the character with its marks, that contains it."""
        span = self._around(at)
        if span is not None:
            return span.start if span.start > start else span.end
        moved = at
        while moved > start + 1 and moved < end and at - moved < 16 and _belongs_to_previous(self.text, moved):
            moved -= 1
        if moved == start + 1 or at - moved == 16:
            return at
        span = self._around(moved)  # a span whose last character has marks after it
        return moved if span is None else span.start if span.start > start else at


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
