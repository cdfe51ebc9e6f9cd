"""Split text where it does the least harm: at lines and sentences; over a model's limit at clauses, words, characters.

sentencex (Wikimedia, MIT) finds sentence ends; it knows the punctuation and abbreviations of about 300 languages.
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
from nmt.data.read.lines import without_surrogates
from nmt.data.text.spans import Span, replace_spans, within

_LINE_END = re.compile(r"\r?\n")
_SPACES = re.compile(r"\s+")
# A clause ends after these marks: Western marks before white space, CJK marks anywhere.
_CLAUSE_END = lazy_pattern(
    r"[,;:.!?،؛)\]}»”’\"—–-](?=\s)|[，；：、。！？）】」』》〉…](?![，；：、。！？）】」』》〉…])"
)
# All the marks after which sentencex may end a sentence, among others; "." is none inside a number or a small word.
_END_MARKS = (
    r"!?:;…\u037e\u055c\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837-\u083e\u0964\u0965\u104a-\u104f\u1362-\u1368\u166e"
    r"\u1735\u1736\u1803-\u1809\u1944\u1945\u1aa8-\u1aab\u1b5a-\u1b7e\u1c3b-\u1c7f\u2024\u203c\u203d\u2047-\u2049"
    r"\u2e2e-\u2e54\u3002\u17d4\ua4ff-\uabeb\ufe52-\ufe57\uff01\uff0e\uff1f\uff61\U00010a56-\U0001da88"
)
_FULL_STOPS = "。！？｡।॥۔։።။។"  # end a sentence without white space after them, too
_MARK = lazy_pattern(rf"[.)•{_END_MARKS}](?:(?<![.)])|(?<=\.)(?![a-z\d])|(?<=\s\w\)))")
_TRAILING = ".!?…。！？।؟۔ \t\r\n\"'”’“»)）」』"  # the most usual characters after the last letter
_HIDDEN = lazy_pattern(r"[\s“”„‟‘‚‛\"«»‹›「」『』《》（）()\[\]<>{}`]")
_DASHES = "—–-"
_WORD = re.compile(r"[^\W_]")
_NOTE = r"\[[^\[\]]{1,20}\]|[¹²³⁰-⁹*†‡]"  # the mark of a footnote: [1], [citation needed], ¹, *
# Replaced by white space: such marks after a sentence, and quotation marks of two characters, or before a word.
_ASIDE = lazy_pattern(
    r"[',\[¹²³⁰-⁹*†‡](?:(?<=')(?:(?<!\S')|(?=')|(?<=''))|(?<=,,)|(?<=,)(?=,)"
    r"|(?<=[.!?…。！？।”\"»\]\[¹²³⁰-⁹*†‡].)(?:(?<=\[)[^\[\]]{1,20}\]|(?<=[¹²³⁰-⁹*†‡])))"
)
_SENTENCE_END = lazy_pattern(
    rf"([^\s.{_END_MARKS}“„\"«»(\['’—–-]*)([.{_END_MARKS}]+)((?:\s?[”“\"’'»«›‹)\]」』》）]|{_NOTE})*)\s*\Z"
)
_OPENING = lazy_pattern(r"(?:[“\"«»„‟‹›「『《（(\[‘‚‛¿¡`]|,,|(?<=\s)[”’']|(?<!\S)(?:[«`]|,,)\s)+\Z")
_ELLIPSIS = lazy_pattern(r"\.{2,}|…+")
_MARKS_IN_A_ROW = lazy_pattern(r"[.!?…។](?:(?<=[.!?])[.!?]+|(?<=…)(?<!……)(?=\s)|(?<=។))")
# sentencex ends no sentence before digits, nor before small letters of the Latin script.
_NUMBER_START = lazy_pattern(rf"[.!?…] +\d|[{_FULL_STOPS}] *[\da-z]")
_SMALL_START = lazy_pattern(r"(?<=[.!?]\s)\w")
# A word with a vowel, not a part of an abbreviation ("f.eks"), nor at the start of a parenthesis: "(ed. Smith)".
_LIKE_WORD = lazy_pattern(
    r"(?i)(?<![.(（])(?=[^\W\d_]{2})(?!\w*str\b)[^\W\d_]*?"
    "[aeiouyàáâäåãæèéêëìíîïòóôöõøœùúûüýąęĩıőũűůě\u1ea0-\u1ef9ăаеиоуыэюяіїєёαεηιουωάέήίόύώ]"
)
_CAPITAL = lazy_pattern(r"\.[^\w.]+(?!Chr\b|UU\b)([^\W\d_])(?!\.|G\b)")
# Abbreviations that end a sentence before a capital letter: of eras, "and so on", companies, units after a number.
_FINAL = lazy_pattern(
    r"(?:\b(?:[ad]\.\s?C|J\.?-C|т\.\s?[дп]|n\.\s?[el]|[ef]\.\s?Kr|v\.t|p\.e\.v|etc|usw|May|Ok|T[Vv]|tv|[Jj]r|Co|U\.S\.A)"
    r"|\d(?:[°º]|-х)?\s?(?:(?:млн|млрд|тис|тыс|mln|mld)\.?\s)?(?:[^\W\d_A-ZА-Я]+|[CFKM]))\Z"
)
# Abbreviations that look like words.
_LIKE_WORDS = frozenset((
    "abb", "abs", "alin", "approx", "av", "art", "avv", "ca", "dott", "ing", "kap", "pag", "pág", "para", "prof",
    "profa", "sig", "sra", "tab", "tys", "ul", "vol", "αριθ", "вул", "ім", "рис", "табл", "ул",
))  # fmt: skip
# Of scripts with capitals, or a letter that is no ideograph, or a title that sentencex does not know.
_SHORT = lazy_pattern(r"[A-Za-z\u00c0-\u024f\u0370-\u052f]{1,4}|approx|\w*str|[^\W\d_\u2e80-\U0010ffff]|Profa|डॉ|श्री")
_GLUED_WORD = lazy_pattern(r"[A-Z][a-z]*(?:['’][a-z]+)?(?:[\s,!?]|\Z)")
_ITEM = lazy_pattern(r"\W*(?:\d{1,2}|[^\W\d_])(?:[.)]|\.\))\s*")
# The mark of an item of a list; that of the first is at the start of a sentence, or after a colon.
_ITEM_MARK = lazy_pattern(
    r"\s(?=[(\d•]|[a-zа-я]\))(?<![,;]\s)(\(?(\d{1,2}(?=\.?\)|\.\s+(?![a-zß-ÿа-я]|Jan|Feb|Mär|Apr|Mai|Ju[nl]|Aug|Sep|Okt|Nov|Dez))"
    r"|[a-zа-я](?=\))|•)\.?\)?)\s+(?=\S)"
)
_FIRST_ITEM = lazy_pattern(r"(?:\A\(?\d{1,2}|(?<![^:.!?\s]\s)\(?[1aа•])[.)\s]")
_ITEM_ORDER = " • • 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 a b c d e f g h i j k а б в г д е ж з и к "
_SYMBOLS = lazy_pattern(
    r"(?:(?:[\u2190-\u2bff\ufe0f\u200d\U0001f000-\U0001faff]+|[:;]-?[()DP](?!\w)|\[[\d\s,–-]+\]\s*\Z)\s*)+"
)
_ORDINAL = lazy_pattern(r"(?<![.:,])(?<!\.\s)(?:\d{1,2}|[IVX]+)\.")
_ORDINAL_LANGUAGES = ("de", "hu", "lb", "tr")  # where a capital letter may follow an ordinal number
_PARENTHESIS = lazy_pattern(r"[^\s.!?…。！？]\s*[(（][^(（]*[)）]\s*\Z")  # within a sentence
_ATTRIBUTION = lazy_pattern(r"と|って|[^，。！？\s]{1,6}[说說问問喊]")  # 「はい」と言った; “好。”他说
_CONTEXT = 50  # characters looked at around a boundary; such limits, here and below, keep the time linear
_WINDOW_CHARACTERS = 4_000  # passed to sentencex at once, because it takes quadratic time on some texts
_JOINER = "\u200d"
_TOKEN_CHARACTERS = 32  # in the longest tokens: more are not tried


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

    sentencex proposes the boundaries; rules that hold in many languages drop and move the wrong ones, and add those
    after words that it takes for abbreviations. Every sentence has a letter or digit, and all but the last have a mark
    that ends them, or are items of a list. Takes linear time.
    """
    if not _has_mark_within(text):
        return []  # most texts: a single sentence
    starts: list[int] = []
    begin = searched = 0
    has_word, chat = False, text.islower()
    plain, items = _simplified(text), {*_items(text)}
    found = {*_proposed_starts(plain, language)}
    capitals = {match.start(1) for match in _CAPITAL.finditer(plain) if match[1].isupper()}
    for proposed in sorted(items | found | capitals):
        if proposed <= begin:
            continue
        context = max(begin, proposed - _CONTEXT)
        opening = _OPENING.search(text, max(begin, proposed - 12), proposed)
        at = opening.start() if opening else proposed
        has_word = has_word or _WORD.search(text, searched, at) is not None
        searched = at
        if proposed in items:
            at = proposed
        elif (context == begin and _ITEM.fullmatch(text, begin, at)) or _continues(
            text, at, language, chat, proposed in found
        ):
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


def _items(text: str) -> list[int]:
    """Return the starts of the items of lists on one line: "1. Milk 2. Bread", "a) Milk b) Bread", "• Milk • Bread"."""
    starts: list[int] = []
    last = ""
    for mark in _ITEM_MARK.finditer(" " + text):
        start, label = mark.start(), mark[2]
        if _FIRST_ITEM.match(text, start) or f" {last} {label} " in _ITEM_ORDER:
            starts.append(start)
            last = label
    return starts if len(starts) > 1 else []


def _proposed_starts(plain: str, language: str) -> Iterator[int]:
    """Yield the start of every sentence that sentencex finds in a simplified text, except the first."""
    import sentencex  # only when needed: most texts are single sentences

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


def _simplified(text: str) -> str:
    """Return `text`, of the same length, without what keeps sentencex from finding sentences."""
    plain = _ASIDE.sub(lambda match: " " * len(match[0]), without_surrogates(text))
    if text.islower():  # chat: any word may start a sentence
        plain = _SMALL_START.sub(lambda match: match[0].upper()[0], plain)
    # sentencex counts white space as one byte and rejects surrogates; it does not look into quotes and parentheses.
    plain = _NUMBER_START.sub(lambda match: match[0][:-1] + "_", _HIDDEN.sub(" ", plain))
    return _MARKS_IN_A_ROW.sub(lambda match: "x" * (len(match[0]) - 1) + "!", plain)


def _continues(text: str, at: int, language: str, chat: bool, is_proposed: bool) -> bool:
    """Return whether a sentence goes on at `at`, where sentencex ends it if `is_proposed`.

    A `chat` has no capital letters.
    """
    end = _SENTENCE_END.search(text, at - _CONTEXT, at)
    following = _WORD.search(text, at, at + _CONTEXT)
    if end is None or following is None:
        return end is None  # a window ends within the sentence
    word, mark, closing = end.groups()
    first = following[0]
    if not is_proposed:
        return not _is_final(end, language)
    caseless = first.lower() == first.upper()
    is_glued = end.end(3) == at and mark[-1] not in _FULL_STOPS
    if not closing and is_glued and not caseless:  # "Hello.How are you?", but not "ASP.NET", "x.Y(z)"
        return not (word.isalpha() and word[-1].islower() and _GLUED_WORD.match(text, at))
    if first.isdigit() and (is_glued or _ELLIPSIS.fullmatch(mark)):
        return True
    if first.islower() and (closing or text[at] in _DASHES or _ELLIPSIS.fullmatch(mark)):
        return True  # “Where?” he asked
    if closing and caseless and not first.isdigit():
        return (_PARENTHESIS.search(text, at - 200, at) or _ATTRIBUTION.match(text, at)) is not None
    return mark == "." and _is_abbreviation(end, first, language, chat)


def _is_abbreviation(end: re.Match[str], first: str, language: str, chat: bool) -> bool:
    """Return whether the word at the `end`, with a full stop, is an abbreviation or number that sentencex missed."""
    word = end[1]
    if language.startswith(_ORDINAL_LANGUAGES) and _ORDINAL.match(end.string, end.start()):
        return True
    is_short = _SHORT.fullmatch(word) is not None and not _is_word(end)
    if first.isdigit():  # "Vol. 2", "Bahnhofstr. 12", "M.A. 2"
        return is_short
    is_title = is_short and not word.islower() and not word[1:].isupper()  # "Dr", "J"
    english = language.startswith("en")  # sentencex knows its titles and initials
    if is_title and not english:
        return not (first.isupper() and _is_final(end, language))
    return first.islower() and ((is_short and not chat) or (word.isdigit() and not (chat and english)))


def _is_final(end: re.Match[str], language: str) -> bool:
    """Return whether the word at the `end`, with a full stop, ends a sentence before a capital letter."""
    if _FINAL.search(end.string, end.start() - 16, end.end(1)):
        return True
    # The capital letter may be that of a German noun.
    return not language.startswith("de") and not end[1].istitle() and _is_word(end)


def _is_word(end: re.Match[str]) -> bool:
    """Return whether the word at the `end` looks like one, not like an abbreviation."""
    return _LIKE_WORD.match(end.string, end.start()) is not None and end[1].lower() not in _LIKE_WORDS


def lines_of(text: str, spans: Sequence[Span] = ()) -> Iterator[Range]:
    """Yield the ranges of the lines that are not blank, without the white space around them.

    A line break inside one of `spans`, such as a placeholder of several lines, ends no line.
    """
    breaks = [match.span() for match in _LINE_END.finditer(text)] if "\n" in text else []  # most texts have none
    free = [each for each in breaks if _span_around(spans, each[0]) is None]
    for (_, begin), (end, _) in pairwise([(0, 0), *free, (len(text), len(text))]):
        start, stop = _stripped(text, begin, end)
        if start < stop:
            yield start, stop


class SplitPlan:
    """The lines of a text, and the sentences of those lines that have too many."""

    def __init__(self, text: str, spans: Sequence[Span], language: str, max_sentences: int | None):
        self.text = text
        self.spans = spans  # must not be split; in ascending order
        self.language = language
        self.units: list[Range] = []  # lines and sentences, whose sizes `split` asks for first
        for line in lines_of(text, spans):
            sentences = self._sentences(line) if max_sentences is not None else []
            self.units += [line] if len(sentences) <= (max_sentences or 0) else sentences

    def split(self, limit: int, size: Callable[[int, int], int]) -> Split:
        """Return the parts of the text, of up to `limit` tokens if possible; arguments as in `split_text`."""
        pieces: list[tuple[int, int, bool]] = []
        for unit in self.units:
            for sentence in [unit] if size(*unit) <= limit else self._sentences(unit):
                fits = size(*sentence) <= limit
                pieces += [(*sentence, False)] if fits else self._cut(*sentence, limit, size)
        if not pieces:
            return Split(self.text, [])
        following = [start for start, _, _ in pieces[1:]] + [len(self.text)]
        parts = [
            TextSpan(start, end, self.text[end:after], cut)
            for (start, end, cut), after in zip(pieces, following, strict=True)
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

        The clause must end beyond the first quarter of what fits.
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
