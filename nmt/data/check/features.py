"""The features that the rules use, of one side of a pair: what it may contain, its words, numbers, spans and noise."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from nmt.base.patterns import lazy_pattern
from nmt.data.text.spans import find_spans
from nmt.data.text.words import letter_runs

# How each byte of UTF-8 is displayed if it is read as Windows-1252, or as Latin-1 if that has no character for it.
_AS_TEXT = [bytes([byte]).decode("cp1252", errors="ignore") or chr(byte) for byte in range(256)]
_AS_BYTE = {char: byte for byte, char in enumerate(_AS_TEXT)} | {chr(byte): byte for byte in range(128, 256)}
FOLLOWING_BYTES = "".join(c for byte in range(0x80, 0xC0) for c in {_AS_TEXT[byte], chr(byte)})
"""The characters that the second and later bytes of a UTF-8 character then become."""

_FOLLOWING = re.escape(FOLLOWING_BYTES)
_MISREAD = lazy_pattern(
    f"[\u00c2-\u00df][{_FOLLOWING}]|[\u00e0-\u00ef][{_FOLLOWING}]{{2}}|[\u00f0-\u00f4][{_FOLLOWING}]{{3}}"
)
_CURLY = "‘’“”‚„–—…›‹»«"  # may be punctuation after an accented capital: that pair alone proves nothing
_FAULTY_CATEGORIES = {"Cc", "Cn", "Co", "Cs"}
_BYTE_ORDER_MARK = "\ufeff"
QUESTION_MARKS = ("?", "\uff1f", "\u061f", ";", "\u055e")

_SPAN_SIGN = re.compile("[<&{%@⟦/]")
_DIGIT = re.compile(r"\d")
_BEYOND_LATIN = lazy_pattern("[\u0370-\u1dff\u1f00-\u1fff\u2c00-\u2fff\u3005-\u3006\u3021-\U0010ffff]")

_NUMBER = lazy_pattern(r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d(?:[\d.,'’]*\d)?")
_SEPARATORS = re.compile(r"[.,'’ \u00a0\u202f]")
_CHINESE_NUMBER = re.compile("[〇零一二三四五六七八九十百千万亿萬億两兩]{2}")
_TAG_NAME = re.compile(r"</?[\w:.-]+")
_CLOSING = " \"'”’»«“‘)]}」』）》〉*_"
_MAX_DIGITS = 18
_MAX_SPELLED = 100  # "hundred" is often written in words

_MIN_WORDS = 3
_MIN_LOWER_WORDS = 2  # names and titles have fewer
_LOWER_WORD = 3  # letters
_MIN_LETTERS = 6  # in scripts without case


def has_mojibake(text: str) -> bool:
    """Return whether `text` contains UTF-8 that was read as Windows-1252 or Latin-1, or U+FFFD.

    A run of characters counts if its bytes are the UTF-8 encoding of a letter or of typographic punctuation.
    """
    if text.isascii():
        return False
    if "\ufffd" in text or "ï»¿" in text:
        return True
    return any(_is_misread(match[0]) for match in _MISREAD.finditer(text))


def _is_misread(run: str) -> bool:
    try:
        char = bytes(_AS_BYTE[c] for c in run).decode("utf-8")
    except (UnicodeDecodeError, KeyError):
        return False
    if len(run) == 2 and run[1] in _CURLY and run[0] not in "ÃÂ":
        return False
    return unicodedata.category(char)[0] in "LPS" or char == "\u00a0"


def has_control_characters(text: str) -> bool:
    """Return whether `text` contains control, private-use or unassigned characters, or a byte order mark.

    White space, soft hyphens, and the joiners and direction marks that some scripts need are harmless.
    """
    if text.isprintable():
        return False
    suspects = {char for char in text if not char.isprintable() and char != "\t"}
    return any(char == _BYTE_ORDER_MARK or unicodedata.category(char) in _FAULTY_CATEGORIES for char in suspects)


class Side:
    """One side of a pair. `words`: its runs of letters in lower case."""

    __slots__ = ("ascii", "folded", "text", "words")

    def __init__(self, text: str):
        self.text = text
        self.ascii = text.isascii()
        self.words = letter_runs(text)
        self.folded = "".join(self.words)

    def is_latin(self) -> bool:
        """Return whether all letters are in the Latin blocks."""
        return self.ascii or _BEYOND_LATIN.search(self.text) is None

    def is_shorter_than(self, count: float) -> bool:
        """Return whether the text has fewer than `count` letters and digits."""
        return len(self.folded) < count and sum(map(str.isalnum, self.text)) < count

    def spells_numbers(self) -> bool:
        """Return whether the text contains a number of several digits in Chinese characters."""
        return not self.ascii and _CHINESE_NUMBER.search(self.text) is not None

    def spans(self) -> tuple[list[str], list[str]]:
        """Return the spans that a translation keeps, sorted: URLs, addresses and placeholders; tags and entities.

        Only the name of a tag counts, because attributes may be translated.
        """
        kept: list[str] = []
        markup: list[str] = []
        for start, end in find_spans(self.text) if _SPAN_SIGN.search(self.text) else ():
            span = self.text[start:end]
            tag = _TAG_NAME.match(span)
            if tag or (span[0] == "&" and span[-1] == ";"):
                markup.append(tag[0] if tag else span)
            elif _SPAN_SIGN.search(span):  # codes are often spelled otherwise in another language
                kept.append(span)
        return sorted(kept), sorted(markup)


def numbers_in(text: str) -> tuple[str, ...]:
    """Return the numbers of a text as digits without separators (`1,000` and `1.000` are the same), sorted."""
    if not _DIGIT.search(text):
        return ()
    found = (_SEPARATORS.sub("", number) for number in _NUMBER.findall(text))
    return tuple(sorted(str(int(number)) if len(number) <= _MAX_DIGITS else number for number in found))


def is_question(text: str) -> bool:
    """Return whether a text ends in a question mark, ignoring quotes and brackets."""
    return text.rstrip(_CLOSING).endswith(QUESTION_MARKS)


def numbers_differ(src: Sequence[str], tgt: Sequence[str]) -> bool:
    """Return whether the sorted numbers of the sides differ in more than their spelling.

    Single digits are ignored ("2 dogs", "two dogs"), and so are round numbers and numbers up to 100 that the other side
    may spell out.
    """
    if src == tgt:
        return False
    src_counts, tgt_counts = Counter(src), Counter(tgt)
    rests = src_counts - tgt_counts, tgt_counts - src_counts
    only_src, only_tgt = ([number for number in rest.elements() if len(number) > 1] for rest in rests)
    if only_src and only_tgt:
        return True
    return any(
        len(number.rstrip("0")) > 1 and int(number[:_MAX_DIGITS]) > _MAX_SPELLED for number in only_src + only_tgt
    )


def is_more_than_names(side: Side) -> bool:
    """Return whether a text is more than names, judged by its lower-case words, or by its letters if it has no case."""
    if side.text.lower() == side.text.upper():
        return len(side.folded) >= _MIN_LETTERS
    words = [word for word in side.text.split() if len(word) >= _LOWER_WORD and word[0].islower()]
    return len(side.words) >= _MIN_WORDS and len(words) >= _MIN_LOWER_WORDS


def stable_hash(text: str) -> int:
    """Return a signed hash of `text` in 64 bits, the same in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True)
