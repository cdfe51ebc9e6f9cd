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
# A token of a text as it is printed, without the quotation marks and the punctuation around it. Brackets behind a
# word belong to it in pairs, as in f(x), and apostrophes only if they do not stand between two words.
PRINTED_TOKEN = (
    rf"(?:{LETTER}+|(?<=[\w)\]])(?:\([^()\s]*\)|\[[^\[\]\s]*\])"
    rf"|(?![.!?…](?<=[^\W\d_]{{2}}.)[A-ZÀ-Þ][a-zß-ÿ])[^\s()\[\]'’‘´{UNSPACED}]"  # not: left.He
    r"|(?<![^\W\d_])['’‘´]|['’‘´](?![^\W\d_]))+"
)
_AROUND_TOKEN = "\"“”„«»‹›‘’',–—…（）《》「」『』【】"
BEFORE_TOKEN = _AROUND_TOKEN + "¿¡"
AFTER_TOKEN = _AROUND_TOKEN + ".:;!?-，。；：！？、،؛؟।"
# What prose does not have within a token, even if it knows the words on both sides.
CODE_SIGN = r"^-(?=\w)|\d[.,]\d+[^\W\d_]|[^\w\s\u0300-\u036f%.,:;!?…()\[\]\"'“”„«»‹›‘’‚´–—-]|_"
NUMBER_ALONE = r"\d+(?:[.,:]\d+)*%?|[^\d]+"  # wrong ones are reported anyway; or none
UNSEEN = "words by shape, forms and tokens"  # a kind of unseen ones, which have kinds of their own, if counted
_LONG, _STRANGE = 7, 2  # letters, and trigrams, that more are counted as
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


def unseen_words(text: str, seen: Container[str], trigrams: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield each word of `text`, in alphabets, that is not among those `seen`, in lower case; with its kind.

    A kind says how the word is written, and how long and strange it is: how many of its trigrams are not among the
    `trigrams` of those seen, with the spaces around them. A word in capitals is yielded even if it is seen, unless
    all of the text is in capitals. Tokens that have signs or digits are, too, as apt-get and 100px, but none of prose
    whose words are all seen. Their kind says which signs stand where, and whether words are seen. Which kinds targets
    keep is to be counted.
    """
    is_loud = text.isupper() and " " in text  # not: 看README
    for token in printed_tokens(text):
        lower = token.lower()
        is_shouted = token[1:].isupper() and not is_loud
        if lower in seen and not is_shouted:  # most tokens
            continue
        words = [word.lower() for word in WORD_IN_ALPHABET.findall(token)]
        if words == [lower]:
            case = "capital" if token[0].isupper() and not is_loud else "small"
            capitals = "capitals seen" if lower in seen else "capitals"
            yield token, capitals if is_shouted else f"{case} {_shape(lower, trigrams)}"
            continue
        # A single letter is a name, as in f(x), but not of compounds, nor behind a number, as in 16h30.
        has_letters = re.search(r"-|^\d+[^\W\d_]", token)
        are_seen = [word in seen and (len(word) > 1 or has_letters) for word in words]
        is_prose = all(are_seen) if words else re.fullmatch(NUMBER_ALONE, token)
        if not is_prose or re.search(CODE_SIGN, token):
            share = "seen" if all(are_seen) else "partly seen" if any(are_seen) else "unseen"
            yield token, f"form {_form(token, share)}"


def trigrams_of(text: str) -> Iterator[str]:
    """Yield the trigrams of characters of a text."""
    return (text[at : at + 3] for at in range(len(text) - 2))


def _shape(word: str, trigrams: Container[str]) -> str:
    """Return how many letters a word has, and how many of its trigrams, with the spaces around it, are not seen."""
    strange = sum(each not in trigrams for each in trigrams_of(f" {word} "))
    return f"{min(len(word), _LONG)} {min(strange, _STRANGE)}"


def printed_tokens(text: str) -> Iterator[str]:
    """Yield the tokens of `text`, without the quotation marks and the punctuation around them."""
    for printed in re.findall(PRINTED_TOKEN, text):
        if token := printed.lstrip(BEFORE_TOKEN).rstrip(AFTER_TOKEN):
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
        return "x" if len(word[0]) == 1 and token.count("-") < 2 else "A" if word[0][0].isupper() else "a"

    form = re.sub(r"([^\w])\1+", r"\1", re.sub(r"\d+", "0", WORD_IN_ALPHABET.sub(letter, token)))
    return f"{form} {share}"
