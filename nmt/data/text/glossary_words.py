"""Split a text into words for glossaries, and find the positions where a term may start and end.

A word is a run of letters and digits; in scripts written without spaces, and in Hangul, each character is a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

# Thai, Lao, Tibetan, Myanmar, Khmer, kana, Han
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
_WORD = re.compile(rf"[^\W{_UNSPACED}{_HANGUL}]+|\S")
_WITHIN = re.compile(rf"[^\W{_UNSPACED}{_HANGUL}]{{2}}")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_IS_HANGUL = re.compile(f"[{_HANGUL}]")
_HANGUL_END = re.compile(f"[{_HANGUL}]+$")
_JOINERS = "\u200c\u200d"
_MIN_STEM = 2  # syllables of a Korean term that particles may follow


class Word(NamedTuple):
    """A word at [start, end) of a text."""

    start: int
    end: int
    text: str


def words_of(text: str) -> Iterator[Word]:
    """Yield the words and the punctuation marks of `text`."""
    for match in _WORD.finditer(text):
        yield Word(match.start(), match.end(), match[0])


def cuts_word(text: str, at: int) -> bool:
    """Return whether position `at` is inside a word."""
    return 0 < at < len(text) and _WITHIN.match(text, at - 1) is not None


def may_begin(text: str, at: int) -> bool:
    """Return whether a term may start at position `at`, which must not be inside a word."""
    return not _is_joined(text, at) and not (at > 0 and _is_hangul(text[at - 1]) and _is_hangul(text[at]))


def may_end(text: str, start: int, end: int) -> bool:
    """Return whether text[start:end] may be a term, which must not end inside a word.

    Korean particles may follow a term of two syllables or more.
    """
    if _is_joined(text, end):
        return False
    if end == len(text) or not _is_hangul(text[end]):
        return True
    stem = _HANGUL_END.search(text[start:end])
    return stem is None or len(stem[0]) >= _MIN_STEM


def fits_case(entry: str, found: str) -> bool:
    """Return whether the glossary entry `entry` matches the spelling `found` in a text.

    An entry in lower case matches any case; an entry with capitals matches only the same capitals, or all upper case.
    """
    if entry == found or entry == entry.lower():
        return True
    num_letters = sum(map(str.isalpha, found))
    return found == found.upper() and num_letters > 1 and entry != entry.upper()


def _is_joined(text: str, at: int) -> bool:
    """Return whether the characters around position `at` belong to one word or one combined character."""
    if at <= 0 or at >= len(text):
        return False
    before, after = text[at - 1], text[at]
    if _is_mark(after):
        return not before.isspace()
    if not after.isalnum() or _IS_UNSPACED.match(after) or _is_hangul(after):
        return False
    return _is_mark(before) and not _IS_UNSPACED.match(before)


def _is_mark(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character)[0] == "M"


def _is_hangul(character: str) -> bool:
    return _IS_HANGUL.match(character) is not None
