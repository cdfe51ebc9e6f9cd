"""Definitions of a word. They differ on purpose, because the places that use them ask different questions."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
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
LETTER = rf"[^\W\d_{UNSPACED}{HANGUL}]"  # of an alphabet
ALPHABETIC_WORD = rf"(?:{LETTER}[\u0300-\u036f]*)+"  # with its marks
WORD_IN_ALPHABET = lazy_pattern(ALPHABETIC_WORD)
# What such a word is in, or beside: a compound, or signs that prose does not have there, as in *args and a.b.
_SIGN = r"[^\w\s\u0300-\u036f\"'“”„‘’‚«»‹›()（）,.;:!?…¿¡，。；：！？、]|_"
PLACE = (
    r"(?P<hyphen>(?<=\w-)\w|[^\W\d_]+(?=-\w))"
    rf"|(?P<sign>(?:(?<={_SIGN})|(?<=\w[.:]))\w|[^\W\d_]+(?={_SIGN}|[.:]\w))"
)
_PLACE = lazy_pattern(PLACE)
# A token of a text as it is printed, without the quotation marks and the punctuation around it. Brackets behind a
# word belong to it in pairs, as in f(x), and apostrophes only if they do not stand between two words.
PRINTED_TOKEN = (
    rf"(?:{LETTER}+|(?<=[\w)\]])(?:\([^()\s]*\)|\[[^\[\]\s]*\])"
    rf"|(?![.!?…](?<=[^\W\d_]{{2}}.)[A-ZÀ-Þ][a-zß-ÿ])[^\s()\[\]'’‘´{UNSPACED}]"  # not: left.He
    r"|(?<![^\W\d_])['’‘´]|['’‘´](?![^\W\d_]))+"
)
BEFORE_TOKEN = "\"“”„«»‹›‘’',–—…"
AFTER_TOKEN = BEFORE_TOKEN + ".:;!?-"
# What prose does not have within a token, even if it knows the words on both sides.
CODE_SIGN = r"^-(?=\w)|[^\w\s\u0300-\u036f%.,:;!?…()\[\]\"'“”„«»‹›‘’‚´–—-]|_"
NUMBER_ALONE = r"\d+(?:[.,:]\d+)*%?"  # wrong ones are reported anyway
_CASE_CHANGE = r"(?<=[a-z])(?=[A-Z])"
UNSEEN = "words, forms and tokens"  # a kind of unseen ones, which have kinds of their own, if they were counted
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


def unseen_words(text: str, outside: str, seen: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield each word of `text`, in alphabets, that is not among those `seen`, in lower case; with its kind.

    A kind says how the word is written and where it stands. Of a word with a capital within, as camelCase, the parts
    count, because two words may be glued by mistake. Then the tokens of `outside`, the text without its spans, that
    have signs or digits, as apt-get and 100px, but none of prose whose words are all seen. Their kind says which signs
    stand where, and whether words are seen. Which kinds targets keep is to be counted.
    """
    is_loud = text.isupper() and " " in text  # not: 看README
    for match in WORD_IN_ALPHABET.finditer(text):
        word = match[0]
        if word[1:].islower() and word.lower() in seen:  # most words
            continue
        parts = re.split(_CASE_CHANGE, word)
        if not all(part.lower() in seen for part in parts):
            case = "mixed" if len(parts) > 1 else "capital" if word[0].isupper() else "small"
            case = "small" if is_loud else "capitals" if word[1:].isupper() else case
            place = _PLACE.match(text, match.start())
            yield word, f"{case} {place.lastgroup if place else 'within'}"
    for token in tokens_with_signs(outside):
        words = [word.lower() for word in WORD_IN_ALPHABET.findall(token)]
        # A single letter is a name, as in f(x), but not of compounds, nor behind a number, as in 16h30.
        has_letters = re.search(r"-|^\d+[^\W\d_]", token) is not None
        are_seen = [word in seen and (len(word) > 1 or has_letters) for word in words]
        is_prose = all(are_seen) if words else re.fullmatch(NUMBER_ALONE, token) or not re.search(r"\d", token)
        if not is_prose or re.search(CODE_SIGN, token):
            share = "seen" if all(are_seen) else "partly seen" if any(are_seen) else "unseen"
            yield token, f"form {_form(token, share)}"


def tokens_with_signs(text: str) -> Iterator[str]:
    """Yield the tokens of `text`, without the quotation marks and the punctuation around them, that are no words."""
    for printed in re.findall(PRINTED_TOKEN, text):
        token = "" if printed.isalpha() else printed.lstrip(BEFORE_TOKEN).rstrip(AFTER_TOKEN)
        if token and not WORD_IN_ALPHABET.fullmatch(token):
            yield token


def _form(token: str, share: str) -> str:
    """Return how a token is written: a, A or x for words, 0 for numbers, and its signs, each once."""
    if re.search(r"[^\W\d_]°", token):  # n°5
        return "°"
    if re.search(r"\w[,;!?…][^\W\d_]|[^\W\d_][,;!?…]\w", token):  # a space is missing
        return ";"

    def letter(word: re.Match[str]) -> str:
        if share != "unseen":
            return "a"
        return "x" if len(word[0]) == 1 and "-" not in token else "A" if word[0][0].isupper() else "a"

    form = re.sub(r"([^\w])\1+", r"\1", re.sub(r"\d+", "0", WORD_IN_ALPHABET.sub(letter, token)))
    return f"{form} {share}"
