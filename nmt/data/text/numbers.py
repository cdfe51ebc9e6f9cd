"""Numbers and letters in texts: what a translation must keep, and what needs none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

# Digits in groups of three, as in 1,000 or 1.000.000, else a run of digits. Single digits are often written as words.
_NUMBER = re.compile(r"\d{1,3}(?:[.,'’\u00a0\u202f ]\d{3})+(?!\d)|\d{2,}")
_DIGITS = re.compile(r"\d\d|\d[.,'’\u00a0\u202f ]\d\d\d")


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
    return [*_only_in(source, output), *_only_in(output, source)]


def _only_in(numbers: Iterable[str], others: Collection[str]) -> list[str]:
    return [number for number in dict.fromkeys(numbers) if number not in others]
