"""Definitions of a word. They differ on purpose, because the places that use them ask different questions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from nmt.base.languages import UNSPACED
from nmt.base.patterns import lazy_pattern

HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
_ALONE = "\u2e80-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f"  # of these, each character counts as a word
_MARKS = r""",.;:!?"'()\[\]¡¿«»‹›‘’‚“”„…،؛؟۔।॥、。「」『』（），：；！？"""

TERM_WORD = lazy_pattern(rf"[^\W{UNSPACED}{HANGUL}]+|\S")  # a run of letters and digits, or any other character
_WITHIN_TERM_WORD = lazy_pattern(rf"[^\W{UNSPACED}{HANGUL}]{{2}}")
_COUNTED_WORD = lazy_pattern(rf"[{_ALONE}]|[^\W\d_\u2e80-\u9fff\uf900-\ufaff]+")
DIFF_TOKEN = lazy_pattern(rf"(?s)[{_ALONE}]|\w+?(?=[\u2e80-\u9fff]|\b)|\s+|.")  # together they are the text
SPACED_WORD = re.compile(r"\S+")
BARE_WORD = re.compile(rf"[^\s{_MARKS}](?:\S*[^\s{_MARKS}])?|[{_MARKS}]+")  # without the punctuation around it
TYPED_WORD = re.compile(r"[^\W\d_]{3,}")  # a shorter word with a typo is often another word
TYPED_CHARACTERS = re.compile(r"[^\W\d_]{1,2}")  # are treated as a word in text without spaces
TITLE_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LETTERS = re.compile(r"[^\W\d_]+")
_ASCII_LETTERS = {code: " " for code in range(128) if not chr(code).isalpha()}


class Word(NamedTuple):
    """A word at [start, end) of a text."""

    start: int
    end: int
    text: str


def term_words(text: str) -> Iterator[Word]:
    """Yield the words and the punctuation marks of `text`, of which the terms of a glossary consist.

    In scripts written without spaces, and in Hangul, each character is a word.
    """
    for match in TERM_WORD.finditer(text):
        yield Word(match.start(), match.end(), match[0])


def cuts_term_word(text: str, at: int) -> bool:
    """Return whether position `at` is inside a word."""
    return 0 < at < len(text) and _WITHIN_TERM_WORD.match(text, at - 1) is not None


def counted_words(text: str) -> list[str]:
    """Return the words of a text in lower case; in Chinese and similar scripts, each character.

    Numbers are none, because translation keeps them anyway.
    """
    return [word.lower() for word in _COUNTED_WORD.findall(text)]


def letter_runs(text: str) -> list[str]:
    """Return the runs of letters of a text in lower case, of any script, without digits and marks."""
    if text.isascii():  # the most frequent kind: translate and split take a third of the time
        return text.lower().translate(_ASCII_LETTERS).split()
    return _LETTERS.findall(text.casefold())
