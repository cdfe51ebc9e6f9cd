"""Numbers in texts, and those that differ between a text and its translation."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from nmt.base.languages import Direction, standard_code, written_without_spaces
from nmt.base.patterns import lazy_pattern

# Words for a minus sign; with another one, the number is reported.
_SIGN = r"(?:(?<![^\s(\[=:,;])[-−–‐‑﹣－]|(?<![^\W\d_])(?:minus|moins|menos|meno|минус|мінус)\s|负|負|零下|マイナス)"
# Digits in groups of three, as in 1,000 or 1.000.000, or as in India (12,34,567), with decimals; else a run of digits,
# or several of them, or decimals alone (.5).
NUMBER = (
    rf"(?P<sign>{_SIGN}?)(?:(?P<grouped>(?!0)\d{{1,3}}(?:(?P<separator>[.,，'’٬\u00a0\u2009\u202f ])\d{{3}})"
    r"(?:(?P=separator)\d{3})*(?!\d| \d{4})"
    r"|(?!0)\d{1,2}(?:,\d{2})+,\d{3}(?!,?\d))(?:[.,٫](?P<decimals>\d+)(?![.,]?\d))?"
    r"|(?P<parts>(?:(?<!\S)\.)?\d+(?:[.,:٫]\d+)*)(?P<stop>(?:\.(?=\s+\w))?)|(?=[\u00bc-\u00be\u2150-\u215e]))"
    r"(?P<fraction>[\u00bc-\u00be\u2150-\u215e]?)"
)
_NUMBER = lazy_pattern(NUMBER)
_DIGIT = lazy_pattern(r"[\d\u00bc-\u00be\u2150-\u215e]")
_MIN_STEM = 3  # letters of a word from which on it may have an ending
_SEPARATORS = lazy_pattern(r"[.,:٫]")

# A unit after a number: letters without a vowel, none of which begins an ordinal or stands for a word with a full stop.
UNIT_LETTERS = (
    r"(?!(?:st|nd|rd|th|pm)(?![^\W\d_])|[A-Z][a-z]{2})[°µ]?(?:[BCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxz]{1,3}"
    r"|[бвгджзклмнпрстфхцчшщ]{1,3})[²³]?(?:/(?:[bcdfghjklmnpqrstvwxz]{1,3})[²³]?)?"
)
UNIT = rf"(?<=\d)\s?{UNIT_LETTERS}(?![^\W\d_]|\.)"
_UNIT = lazy_pattern(UNIT)

CURRENCIES = "$¢-¥֏؋৲৳૱௹฿៛\u20a0-\u20cf﷼﹩＄￠￡￥￦"
_SIGNS = rf"#%&*+<=>@\\^|~§±×÷°\u2030\u2031\u2100-\u22ff{CURRENCIES}"
# A single digit that texts do not have as a word: beside a sign or a unit ($5, № 5, 5 %, 5 kg), the name of something
# (Room 7 is free, 5 Main Street, Hauptstr. 5, turn to page 2, 3a, 第3章), or a part of it (4.2.1, 3:2, 24/7, 3pm).
AMOUNT = (
    rf"(?<=[{_SIGNS}])\s?\d(?![.,]?\d)|(?<![\w.,])\d(?:\s?[{_SIGNS}]|{UNIT})"
    r"|(?<![\w.])[A-ZÀ-ÖØ-ÞΑ-ΩА-Я][^\W\d_]*\s\d(?![.,]?\w)"
    r"|(?<![\w.,:/-])\d\s[A-ZÀ-ÖØ-ÞΑ-ΩА-Я][^\W\d_]*\s[A-ZÀ-ÖØ-ÞΑ-ΩА-Я]"
    r"|(?<=[^\W\d_]\.\s)\d(?![.,]?\w)|(?<=[^\W\d_]\s)\d(?![.,:/-]?\w|\s+[^\s.,;:!?)]|\.\s+\w)"
    r"|(?<![\w.,])\d(?=[.:/-]\d|[ab](?!\w)|\s?[ap]m(?!\w))|(?<=\d[.:/-])\d(?![\d,])"
    r"|第\s?\d(?!\d)|(?<!\d)\d\s?[号號]"
)
_AMOUNT = lazy_pattern(AMOUNT)
AMOUNTS, DIGITS = "amounts", "digits"  # kinds of single digits


def has_letters(text: str) -> bool:
    """Return whether `text` has a letter of any script. Digits, marks, symbols and emoji are no letters."""
    return any(map(str.isalpha, text))


def has_words(text: str) -> bool:
    """Return whether `text` has letters that are not units of numbers, as in 10 km and 2x."""
    return has_letters(_UNIT.sub("", text) if _DIGIT.search(text) else text)


def numbers_in(text: str) -> list[str]:
    """Return the numbers in `text`, in order: ASCII digits, with a minus sign and a point before decimals.

    The parts of a date, a time of three parts or a version are numbers of their own, because languages order and
    separate them differently.
    """
    if not _DIGIT.search(text):  # takes half a microsecond
        return []
    return [number for match in _NUMBER.finditer(text) for number in _numbers_of(match)]


def _numbers_of(match: re.Match[str]) -> list[str]:
    """Return the number that `_NUMBER` found, or several."""
    sign = "-" if match["sign"] else ""
    fraction = f"{unicodedata.numeric(match['fraction']):.3g}"[1:] if match["fraction"] else ""
    if match["grouped"]:
        return [sign + _ascii(match["grouped"]) + (f".{_ascii(match['decimals'])}" if match["decimals"] else fraction)]
    parts = [_ascii(part) or "0" for part in _SEPARATORS.split(match["parts"] or "0")]
    is_date = match["stop"] and "," not in match["parts"] and 0 < int(parts[-1][:3]) <= 12  # am 3.5. um
    if len(parts) == 2 and not is_date and ":" not in match["parts"]:
        return [f"{sign}{parts[0]}.{parts[1]}"]
    return [sign + parts[0] + fraction, *parts[1:]]


def _ascii(digits: str) -> str:
    return "".join(str(unicodedata.decimal(c)) for c in digits if c.isdecimal())


def is_digit(number: str) -> bool:
    """Return whether a number is a single digit, which texts often have as a word."""
    return len(number) == 1


def number_differences(source: Sequence[str], output: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the numbers that `source` has more often than `output`, and those that `output` has more often.

    If all are the same, the first are those of equally many digits that have changed their order, as 1990 and 2000.
    """
    values = [*map(_value, source)], [*map(_value, output)]
    if values[0] == values[1]:
        return [], []
    rests = _rest(source, output), _rest(output, source)
    if not any(rests):
        in_order = (sorted(side, key=len) for side in values)  # stable
        return [number for number, other in zip(*in_order, strict=True) if number != other], []
    parts = [[part for number in rest for part in number.split(".")] for rest in rests]
    are_same = sorted(parts[0]) == sorted(parts[1])  # 7.30 and 7:30
    return ([], []) if are_same else rests


def wrong_numbers(source: str, output: str, direction: Direction, left_out: Collection[str] = ()) -> list[str]:
    """Return the numbers that only one of source and output has as often, without those that the other has as a word.

    A single digit of the source may be missing if its kind is `left_out`, because nmt does not know all words for it:
    `AMOUNTS` measure something, or the output writes other digits, so that it can hardly be a word; the others are
    `DIGITS`. One that only the output has may be a word of the source.
    """
    written = numbers_in(output)
    missing, added = number_differences(numbers_in(source), written)
    if not (missing or added):
        return []
    missing = _without_words(missing, output, direction.tgt)
    added = _without_words(added, source, direction.src)
    if left_out:
        writes_digits = any(map(is_digit, written if number_words(direction.tgt) else added))
        amounts = {*missing} if writes_digits else {_ascii(match[0]) for match in _AMOUNT.finditer(source)}
        missing = [
            each for each in missing if not (is_digit(each) and (AMOUNTS if each in amounts else DIGITS) in left_out)
        ]
    return missing + [each for each in added if missing or not is_digit(each)]


def kinds_of_lost_digits(source: str, output: str, direction: Direction) -> set[str]:
    """Return the kinds of the single digits of `source` that `output` lacks: `AMOUNTS`, or else `DIGITS`."""
    if not any(map(is_digit, wrong_numbers(source, output, direction))):
        return set()
    return {AMOUNTS if any(map(is_digit, wrong_numbers(source, output, direction, {DIGITS}))) else DIGITS}


def _without_words(numbers: Sequence[str], text: str, language: str) -> list[str]:
    """Return those `numbers` for which `text` has no word."""
    words = number_words(language) if numbers else {}
    folded = text.casefold()
    has_word_ends = not (written_without_spaces(language, text) or standard_code(language) == "ko")

    def is_in_text(word: str) -> bool:
        end = r"(?![^\W\d_])" if len(word) < _MIN_STEM else ""
        return re.search(rf"(?<![^\W\d_]){word}{end}", folded) is not None if has_word_ends else word in folded

    as_words = {number for number in {*numbers} if any(map(is_in_text, words.get(number, ())))}
    return [number for number in numbers if number not in as_words]


def _value(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def _rest(numbers: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return those `numbers` whose values are not among `others` as often."""
    rest = Counter(map(_value, others))
    found: list[str] = []
    for number in numbers:
        rest[_value(number)] -= 1
        if rest[_value(number)] < 0:
            found.append(number)
    return found


@cache
def number_words(language: str) -> dict[str, list[str]]:
    """Return the words for 0 to 12 in a language, by number; empty if nmt does not know them."""
    lines = Path(__file__).with_name("number_words.txt").read_text(encoding="utf-8").splitlines()
    for codes, *words in map(str.split, lines):
        if standard_code(language) in codes.split("/"):
            return {str(number): word.split("/") for number, word in enumerate(words)}
    return {}
