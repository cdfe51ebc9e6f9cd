"""Spans of text that a translation must keep verbatim, and the placeholders that replace them.

A placeholder is a user-defined symbol of the tokenizer, `⟦1⟧` to `⟦8⟧`: one token that is never split, whatever the
type of the tokenizer. Placeholders are numbered from 1 in source order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import NamedTuple

from nmt.base.patterns import lazy_pattern

NUM_PLACEHOLDERS = 8
PLACEHOLDERS = tuple(f"⟦{number}⟧" for number in range(1, NUM_PLACEHOLDERS + 1))
ANY_PLACEHOLDER = re.compile("|".join(PLACEHOLDERS))

# Every repetition is bounded, or of characters that cannot start what follows it, so matching takes linear time.
_URL = r"(?:(?<![A-Za-z0-9])(?:https?|ftps?|sftp|file)://|(?<![A-Za-z0-9])www\.(?=[A-Za-z0-9]))[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]{1,2000}"
_EMAIL = r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,63}"
_ATTRIBUTE = r"""\s{1,8}[A-Za-z_:@][\w:.-]{0,63}\s?=\s?(?:"[^"<>\n]{0,500}"|'[^'<>\n]{0,500}'|[^\s"'<>=]{1,500})"""
_TAG = rf"<(?:/[A-Za-z][\w:.-]{{0,31}}\s?|[A-Za-z][\w:.-]{{0,31}}(?:{_ATTRIBUTE}){{0,16}}\s?/?)>"
_ENTITY = r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
_BRACES = r"\$?\{\{ ?[\w.:|-]{1,64} ?\}\}|\$?\{[\w.:,!%#+-]{0,64}\}"
_PRINTF = r"(?<![\d%])%(?:\d{1,2}\$|\(\w{1,64}\))?[-+#0]{0,4}\d{0,4}(?:\.\d{1,3})?(?:hh?|ll?|[Lzjt])?[diouxXeEfFgGcs@]"
_KINDS = (_URL, _EMAIL, _TAG, _ENTITY, _BRACES, _PRINTF + r"(?![A-Za-z]{3})", r"⟦\d{1,3}⟧")
_SPAN = lazy_pattern("|".join(f"(?:{kind})" for kind in _KINDS))
_SIGN = re.compile(r"[@<&{%⟦]|://|www\.")  # every span contains one; finding them is fast
_SENTENCE_PUNCTUATION = ".,;:!?'"

# Digits in groups of three, as in 1,000 or 1.000.000, else a run of digits. Single digits are often written as words.
_NUMBER = re.compile(r"\d{1,3}(?:[.,'’\u00a0\u202f ]\d{3})+(?!\d)|\d{2,}")
_DIGITS = re.compile(r"\d\d|\d[.,'’\u00a0\u202f ]\d\d\d")


class Span(NamedTuple):
    """A stretch [start, end) of a text, in characters."""

    start: int
    end: int


def find_spans(text: str, not_these: Collection[str] = ()) -> list[Span]:
    """Find URLs, e-mail addresses, tags, entities, `{name}`, `%1$s` and anything like a placeholder, in order.

    A URL does not include the punctuation that ends a sentence, nor a closing bracket that was opened before the URL.
    `not_these` are symbols of the model (user-defined ones, such as <de>), which are not spans.
    """
    if not _SIGN.search(text):
        return []
    spans = []
    for match in _SPAN.finditer(text):
        found = match[0]
        if "://" in found or found.startswith("www."):
            found = _without_tail(found)
        if found not in not_these:
            spans.append(Span(match.start(), match.start() + len(found)))
    return spans


def _without_tail(url: str) -> str:
    """Return `url` without the punctuation of the sentence around it."""
    end = len(url)
    surplus = {")": url.count(")") - url.count("("), "]": url.count("]") - url.count("[")}
    while end > 0:
        last = url[end - 1]
        if last in surplus and surplus[last] > 0:
            surplus[last] -= 1
        elif last not in _SENTENCE_PUNCTUATION:
            break
        end -= 1
    return url[:end]


def replace_spans(text: str, spans: Sequence[Span], replacements: Sequence[str]) -> str:
    """Return `text` with each of `spans`, in ascending order, replaced by its replacement."""
    parts, end = [], 0
    for span, replacement in zip(spans, replacements, strict=True):
        parts += [text[end : span.start], replacement]
        end = span.end
    return "".join([*parts, text[end:]])


def has_letters(text: str) -> bool:
    """Return whether `text` has a letter of any script. Digits, marks, symbols and emoji are no letters."""
    return any(map(str.isalpha, text))


def may_have_numbers(text: str) -> bool:
    """Return whether `numbers_in` may find a number; takes half a microsecond."""
    return _DIGITS.search(text) is not None


def numbers_in(text: str) -> list[str]:
    """Return the numbers of two digits and more in `text`, in order, as ASCII digits without separators.

    The parts of a date, a time or a decimal are numbers of their own, because languages separate them differently.
    """
    if not may_have_numbers(text):
        return []
    return ["".join(str(unicodedata.decimal(c)) for c in found if c.isdecimal()) for found in _NUMBER.findall(text)]


def number_differences(source: Collection[str], output: Collection[str]) -> list[str]:
    """Return the numbers of `source` that are missing in `output`, then those that only `output` has, each once."""
    if not (source or output):
        return []  # most texts
    sides = (source, output), (output, source)
    return [number for numbers, others in sides for number in dict.fromkeys(numbers) if number not in others]
