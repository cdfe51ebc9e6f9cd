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

from nmt.data.read.lines import without_surrogates
from nmt.data.text.spans import Span, replace_spans

_LINE_END = re.compile(r"\r?\n")
_SPACES = re.compile(r"\s+")
# A clause ends after these marks: Western marks before white space, CJK marks anywhere.
_CLAUSE_END = re.compile(r"[,;:.!?،؛)\]}»”’\"—–-](?=\s)|[，；：、。！？）】」』》〉…](?![，；：、。！？）】」』》〉…])")
# All the marks after which sentencex may end a sentence, among others; "." is none inside a number or a small word.
_END_MARKS = (
    r"!?:;…\u037e\u055c\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837-\u083e\u0964\u0965\u104a-\u104f\u1362-\u1368\u166e"
    r"\u1735\u1736\u1803-\u1809\u1944\u1945\u1aa8-\u1aab\u1b5a-\u1b7e\u1c3b-\u1c7f\u2024\u203c\u203d\u2047-\u2049"
    r"\u2e2e-\u2e54\u3002\ua4ff-\uabeb\ufe52-\ufe57\uff01\uff0e\uff1f\uff61\U00010a56-\U0001da88"
)
_MARK = re.compile(rf"\.(?![a-z\d])|[{_END_MARKS}]")
_TRAILING = ".!?…。！？।؟۔ \t\r\n\"'”’“»)）」』"  # the most usual characters after the last letter
_HIDDEN = re.compile(r"[\s“”„\"«»「」『』（）()\[\]]")
_DASHES = "—–-"
_WORD = re.compile(r"[^\W_]")
_SENTENCE_END = re.compile(
    rf"([^\s.{_END_MARKS}“„\"«»(\['’{_DASHES}]*)([.{_END_MARKS}]+)((?:\s?[”“\"’'»«)\]」』）])*)\Z"
)
_OPENING = re.compile(r"(?:[“\"«»„「『（(\[‘¿¡]|(?<!\S)«\s)+\Z")
_ELLIPSIS = re.compile(r"\.{2,}|…+")
_MARKS_IN_A_ROW = re.compile(r"[.!?]{2,}|(?<!…)…(?=\s)")
_DIGIT_START = re.compile(r"(?<=[^\W\d_]{5}[.!?]\s)(?<!str\.\s)\d")  # before it, sentencex ends no sentence
_SMALL_START = re.compile(r"(?<=[.!?]\s)\w")
# Words that sentencex takes for abbreviations: "no", "me", "OK", "May".
_ENGLISH_WORD = re.compile(r"(?<![\w.])(?!(?:vs|cf|approx)\b)(?:[a-z]{2,}|O[Kk]|May)(?=\.\s+[A-Z])")
_GLUED_WORD = re.compile(r"[A-Z][a-z]*(?:['’][a-z]+)?(?:[\s,!?]|\Z)")
_ITEM = re.compile(r"\W*(?:\d{1,2}|[^\W\d_])[.)]\s*")
_FIRST_ITEM = re.compile(r"(\d{1,2})[.)]\s")
_NEXT_ITEM = re.compile(r"(?<=\s)(\d{1,2})[.)]\s+\Z")
_SYMBOLS = re.compile(r"(?:(?:[\u2190-\u2bff\ufe0f\u200d\U0001f000-\U0001faff]+|[:;]-?[()DP](?!\w))\s*)+")
_ORDINAL = re.compile(r"\d{1,2}|[IVX]+")
_ORDINAL_LANGUAGES = frozenset(
    ("cs", "da", "de", "et", "eu", "fi", "hr", "hu", "is", "lb", "lv", "nb", "nn", "no", "pl", "sk", "sl", "sr", "tr")
)
_ABBREVIATIONS = frozenset(("Av", "Dr", "Profa", "डॉ", "श्री"))  # unknown to sentencex in some language
_ATTRIBUTION = re.compile(r"と|って|[^，。！？\s]{1,6}[说說问問喊]")  # 「はい」と言った; “好。”他说
_CONTEXT = 50  # characters looked at around a boundary
_WINDOW_CHARACTERS = 4_000  # passed to sentencex at once, because it takes quadratic time on some texts
_JOINER = "\u200d"


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


def whole(text: str) -> Split:
    """Return `text` as one part, or as none if it is blank."""
    start, end = _stripped(text, 0, len(text))
    return Split(text[:start], [TextSpan(start, end, text[end:])] if start < end else [])


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
    return SplitPlan(text, spans, language, max_sentences).split(limit, size)


def count_sentences(text: str, language: str) -> int:
    """Return the number of sentences of `text`, 0 if it is blank."""
    return 1 + len(sentence_starts(text, language)) if text and not text.isspace() else 0


def sentence_starts(text: str, language: str) -> list[int]:
    """Return the start of every sentence except the first; white space belongs to the preceding sentence.

    sentencex proposes the boundaries; rules that hold in many languages drop and move the wrong ones. Every sentence
    has a letter or digit, and all but the last have a mark that ends them. Takes linear time.
    """
    if not _has_mark_within(text):
        return []  # most texts: a single sentence
    starts: list[int] = []
    begin = searched = 0
    has_word, chat = False, text.islower()
    for proposed in _proposed_starts(text, language):
        if proposed <= begin:
            continue
        context = max(begin, proposed - _CONTEXT)
        opening = _OPENING.search(text, context, proposed)
        at = opening.start() if opening else proposed
        has_word = has_word or _WORD.search(text, searched, at) is not None
        searched = at
        item, first = _NEXT_ITEM.search(text, context, at), _FIRST_ITEM.match(text, begin)
        if item and first and int(item[1]) == int(first[1]) + 1:
            at = item.start()  # "1. Milk 2. Bread": the number belongs to its item
        elif (context == begin and _ITEM.fullmatch(text, begin, at)) or _continues(text, at, language, chat):
            continue
        elif symbols := _SYMBOLS.match(text, at):
            at = symbols.end()  # "Thanks! :-) Bye": the emoji belongs to the preceding sentence
        if has_word and at > begin:
            starts.append(at)
            begin = searched = at
            has_word = False
    if starts and not _WORD.search(text, starts[-1]):
        starts.pop()
    return starts


def _has_mark_within(text: str) -> bool:
    """Return whether a mark may end a sentence of `text` before its last letter or digit; takes 1 to 2 µs."""
    return _MARK.search(text.rstrip(_TRAILING)) is not None


def _proposed_starts(text: str, language: str) -> Iterator[int]:
    """Yield the start of every sentence that sentencex finds in `text`, except the first."""
    import sentencex  # only when needed: most texts are single sentences

    plain = _simplified(text, language)
    begin = 0
    while begin < len(plain):
        end = begin + _WINDOW_CHARACTERS
        if end < len(plain):  # at white space, if any
            end = plain.rfind(" ", begin, end) + 1 or end
        window = plain[begin:end]
        lengths = [len(sentence) for sentence in sentencex.segment(language, window)]
        if sum(lengths) != len(window):  # sentencex lost text: treat it as one sentence
            lengths = [len(window)]
        # The last sentence of a window may continue in the next.
        for length in lengths[:-1]:
            begin += length
            yield begin
        if len(lengths) == 1 or begin + lengths[-1] == len(plain):
            begin += lengths[-1]


def _simplified(text: str, language: str) -> str:
    """Return `text`, of the same length, without what keeps sentencex from finding sentences."""
    # sentencex counts white space as one byte and rejects surrogates; it does not look into quotes and parentheses.
    plain = _DIGIT_START.sub("X", without_surrogates(_HIDDEN.sub(" ", text)))
    if text.islower():  # chat: any word may start a sentence
        plain = _SMALL_START.sub(lambda match: match[0].upper()[0], plain)
    if language.startswith("en"):
        plain = _ENGLISH_WORD.sub(lambda match: "x" * len(match[0]), plain)
    return _MARKS_IN_A_ROW.sub(lambda match: "x" * (len(match[0]) - 1) + "!", plain)


def _continues(text: str, at: int, language: str, chat: bool) -> bool:
    """Return whether the sentence that sentencex ends before `at` goes on. A `chat` has no capital letters."""
    stop = at
    while text[stop - 1].isspace():
        stop -= 1
    end = _SENTENCE_END.search(text, max(0, stop - _CONTEXT), stop)
    following = _WORD.search(text, at, at + _CONTEXT)
    if end is None or following is None:
        return end is None  # a window ends within the sentence
    word, mark, closing = end.groups()
    first = following[0]
    caseless = first.lower() == first.upper()
    if not closing and stop == at and not caseless:  # "Hello.How are you?", but not "ASP.NET", "x.Y(z)"
        return not (word.isalpha() and word[-1].islower() and _GLUED_WORD.match(text, at))
    if first.isdigit() and (stop == at or _ELLIPSIS.fullmatch(mark)):
        return True
    if first.islower() and (closing or text[at] in _DASHES or _ELLIPSIS.fullmatch(mark)):
        return True  # “Where?” he asked
    if closing and caseless and not first.isdigit():
        return _closes_within(text, stop, at)
    return mark == "." and _is_abbreviation(word, first, language, chat)


def _closes_within(text: str, stop: int, at: int) -> bool:
    """Return whether a sentence goes on after the quotation or parenthesis that ends at `stop`; without letter case."""
    if text[stop - 1] not in ")）":
        return _ATTRIBUTION.match(text, at) is not None
    start = max(0, stop - 4 * _CONTEXT)
    opened = max(text.rfind(mark, start, stop) for mark in "(（")
    return opened >= 0 and _MARK.match(text[start:opened].rstrip()[-1:] or ".") is None


def _is_abbreviation(word: str, first: str, language: str, chat: bool) -> bool:
    """Return whether `word` with a full stop, before `first`, is an abbreviation or number that sentencex missed."""
    english = language.startswith("en")  # sentencex knows the abbreviations of English best
    if _ORDINAL.fullmatch(word) and language[:2] in _ORDINAL_LANGUAGES:
        return True
    if first.isdigit():
        return len(word) <= 4 and word.isalpha()  # "Vol. 2", "art. 5"
    is_initial = len(word) == 1 and word.isalpha() and not word.islower() and word < "\u2e80"  # no ideograph
    if word in _ABBREVIATIONS or (is_initial and not english):
        return True
    return first.islower() and not chat and (len(word) <= (1 if english else 2) or word.isdigit())


def lines_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the lines that are not blank, without the white space around them."""
    breaks = (match.span() for match in _LINE_END.finditer(text)) if "\n" in text else ()  # most texts have none
    ends = [*breaks, (len(text), len(text))]
    begin = 0
    for end, following in ends:
        start, stop = _stripped(text, begin, end)
        if start < stop:
            yield start, stop
        begin = following


class SplitPlan:
    """The lines of a text, and the sentences of those lines that have too many: each is looked for once."""

    def __init__(self, text: str, spans: Sequence[Span], language: str, max_sentences: int | None):
        self.text = text
        self.spans = spans  # must not be split; in ascending order
        self.language = language
        self.units: list[Range] = []  # lines and sentences, whose sizes `split` asks for first
        self._inside: dict[Range, list[Range]] = {}  # the sentences of a unit that is a line; empty: not looked for
        for line in lines_of(text):
            sentences = self._sentences(line) if max_sentences is not None else []
            if len(sentences) <= (max_sentences or 0):
                self.units.append(line)
                self._inside[line] = sentences
            else:
                self.units += sentences

    def split(self, limit: int, size: Callable[[int, int], int]) -> Split:
        """Return the parts of the text, of up to `limit` tokens if possible; arguments as in `split_text`."""
        if len(self.units) == 1 and size(*self.units[0]) <= limit:
            (start, end), text = self.units[0], self.text  # most texts
            return Split(text[:start], [TextSpan(start, end, text[end:])])
        stretches: list[tuple[int, int, bool]] = []
        for unit in self.units:
            if size(*unit) <= limit:
                stretches.append((*unit, False))
                continue
            is_line = unit in self._inside
            for sentence in (self._inside[unit] or self._sentences(unit)) if is_line else [unit]:
                stretches += _Sentences(self.text, self.spans, limit, size).cut(*sentence)
        if not stretches:
            return Split(self.text, [])
        following = [start for start, _, _ in stretches[1:]] + [len(self.text)]
        parts = [
            TextSpan(start, end, self.text[end:after], cut)
            for (start, end, cut), after in zip(stretches, following, strict=True)
        ]
        return Split(self.text[: parts[0].start], parts)

    def _sentences(self, line: Range) -> list[Range]:
        """Return the sentences of a line, without the white space around them.

        Punctuation inside of spans ends no sentence.
        """
        start, end = line
        plain = self.text[start:end]
        if self.spans:  # one may begin a sentence
            first, last = (bisect_left(self.spans, at, key=lambda span: span.start) for at in line)
            inside = [Span(span.start - start, span.end - start) for span in self.spans[first:last]]
            first_letter = "x" if plain.islower() else "X"
            words = [first_letter + "x" * (span.end - span.start - 1) for span in inside]
            plain = replace_spans(plain, inside, words)
        starts = [start + at for at in sentence_starts(plain, self.language)]
        if not starts:
            return [line]
        stripped = [_stripped(self.text, *bounds) for bounds in pairwise([start, *starts, end])]
        return [(begin, stop) for begin, stop in stripped if begin < stop]


class _Sentences(NamedTuple):
    """The sentences of a text, and the limit of their parts."""

    text: str
    spans: Sequence[Span]
    limit: int  # tokens
    size: Callable[[int, int], int]  # number of tokens in a range

    def cut(self, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Yield a sentence, cut if it exceeds the limit: after a clause if one fits, else a word or character."""
        cut = self.size(start, end) > self.limit
        while start < end:
            longest = self._longest(start, end) if cut else end
            if longest == end:
                yield start, end, cut
                return
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
