"""The features that the rules use: words, numbers and spans of one side of a pair, each computed once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Self

from nmt.data.check.marks import ALL_MARKS, DIGIT, QUESTION, QUESTION_MARKS, SPAN, marks_of
from nmt.data.text.spans import find_spans

_WORD = re.compile(r"[^\W\d_]+")
_ASCII_LETTERS = {code: " " for code in range(128) if not chr(code).isalpha()}
_LETTER_BYTES = bytes(ord(chr(code).lower()) if chr(code).isalpha() and code < 128 else 32 for code in range(256))
_NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d(?:[\d.,'’]*\d)?")
_SEPARATORS = re.compile(r"[.,'’ \u00a0\u202f]")
_CHINESE_NUMBER = re.compile("[〇零一二三四五六七八九十百千万亿萬億两兩]{2}")
_IN_SPANS = re.compile(r"[<&{%@⟦]|://|www\.")
_TAG_NAME = re.compile(r"</?[\w:.-]+")
_CLOSING = " \"'”’»«“‘)]}」』）》〉*_"


_MAX_DIGITS = 18
_NO_NUMBERS: list[str] = []


class Side:
    """One side of a pair. `words`: its runs of letters in lower case; `marks`: what it may contain (`marks_of`)."""

    __slots__ = ("ascii", "folded", "marks", "text", "words")

    def __init__(self, text: str, words: list[str] | None = None, marks: int = ALL_MARKS):
        """Use `words` if given, for ASCII text: its letters in lower case, split at all other characters."""
        self.text = text
        self.ascii = text.isascii()
        if words is None:
            # A fast path for ASCII text, the most frequent kind: translate and split take a third of the time.
            words = text.lower().translate(_ASCII_LETTERS).split() if self.ascii else _WORD.findall(text.casefold())
        self.words: list[str] = words
        self.folded = "".join(words)
        self.marks = marks

    @classmethod
    def of_chunk(cls, texts: Sequence[str]) -> Iterator[Self]:
        """Yield the sides of these texts, with their marks; much faster than one by one."""
        # One byte per character, so that positions stay the same; only the bytes of ASCII texts are used.
        letters = "".join(texts).encode("ascii", "replace").translate(_LETTER_BYTES).decode("ascii")
        end = 0
        for text, marks in zip(texts, marks_of(texts).tolist(), strict=True):
            start, end = end, end + len(text)
            yield cls(text, letters[start:end].split() if text.isascii() else None, marks)

    @property
    def has_spans(self) -> bool:
        """True if the text may contain a protected span."""
        return bool(self.marks & SPAN) and _IN_SPANS.search(self.text) is not None

    def num_characters(self) -> int:
        """Return the number of letters and digits."""
        return sum(map(str.isalnum, self.text))

    def numbers(self) -> list[str]:
        """Return the numbers as digits without separators (`1,000` and `1.000` are the same), sorted."""
        if not self.marks & DIGIT:
            return _NO_NUMBERS
        found = (_SEPARATORS.sub("", number) for number in _NUMBER.findall(self.text))
        return sorted(str(int(number)) if len(number) <= _MAX_DIGITS else number for number in found)

    def spells_numbers(self) -> bool:
        """Return whether the text contains a number of several digits in Chinese characters."""
        return not self.ascii and _CHINESE_NUMBER.search(self.text) is not None

    def is_question(self) -> bool:
        """Return whether the text ends in a question mark, ignoring quotes and brackets."""
        return bool(self.marks & QUESTION) and self.text.rstrip(_CLOSING).endswith(QUESTION_MARKS)

    def spans(self) -> tuple[Counter[str], Counter[str]]:
        """Return the spans that a translation keeps, with counts: URLs, addresses and placeholders; tags and entities.

        Only the name of a tag counts, because attributes may be translated.
        """
        kept: Counter[str] = Counter()
        markup: Counter[str] = Counter()
        for start, end in find_spans(self.text) if self.marks & SPAN else ():
            span = self.text[start:end]
            tag = _TAG_NAME.match(span)
            if tag or (span[0] == "&" and span[-1] == ";"):
                markup[tag[0] if tag else span] += 1
            else:
                kept[span] += 1
        return kept, markup


_MAX_SPELLED = 100  # "hundred" is often written in words


def numbers_differ(src: Sequence[str], tgt: Sequence[str]) -> bool:
    """Return whether the sorted numbers of the sides differ in more than their spelling.

    Single digits are ignored ("2 dogs", "two dogs"), and so are round numbers and numbers up to 100 that the other side
    may spell out.
    """
    if src == tgt:
        return False
    src_counts, tgt_counts = Counter(src), Counter(tgt)
    only_src, only_tgt = (
        [number for number in rest.elements() if len(number) > 1]
        for rest in (src_counts - tgt_counts, tgt_counts - src_counts)
    )
    if only_src and only_tgt:
        return True
    return any(
        len(number.rstrip("0")) > 1 and int(number[:_MAX_DIGITS]) > _MAX_SPELLED for number in only_src + only_tgt
    )


_MIN_WORDS = 3
_MIN_LOWER_WORDS = 2  # names and titles have fewer
_LOWER_WORD = 3  # letters
_MIN_LETTERS = 6  # in scripts without case


def is_more_than_names(side: Side) -> bool:
    """Return whether a text is more than names, judged by its lower-case words, or by its letters if it has no case."""
    if side.text.lower() == side.text.upper():
        return len(side.folded) >= _MIN_LETTERS
    words = [word for word in side.text.split() if len(word) >= _LOWER_WORD and word[0].islower()]
    return len(side.words) >= _MIN_WORDS and len(words) >= _MIN_LOWER_WORDS


def digest(text: str) -> bytes:
    """Return a hash of `text` in 8 bytes, the same in every process."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
