"""Write the number or the date in a cell as a spreadsheet shows it, by the cell's number format (ECMA-376, 18.8.31)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, time, timedelta
from fractions import Fraction

_ISO = {"mm-dd-yy": "yyyy-mm-dd", "m/d/yy h:mm": "yyyy-mm-dd hh:mm"}  # these follow the settings of each computer
_NOT_SHOWN = re.compile(
    r"[_*].|\[(?!\$|[hmsHMS]+\])[^\]]*\]|\[\$([^\]-]*)[^\]]*\]|\\(?=.)"
)  # blanks, colors; not currencies
_QUOTED = re.compile(r'"([^"]*)"')
_PLAIN = re.compile(r"General|@|\[[<>=]")  # no format, or one with a condition
# English is en-US, 409, 809; e and g are years of an emperor, aaa is a weekday in Chinese.
_IN_A_LANGUAGE = re.compile(r"General|\[\$-(?!en|[0-9a-f]*09\])[^\]]*\][^\"]*?(?:mmm|ddd|aaa|[eg])", re.IGNORECASE)
_FRACTION = re.compile(r"([#0?]+ +)?[#0?]+ ?/ ?([#0?]+|[0-9]+)")
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.[#0?,]*)?|\.[#0?]+")
_MINUTES = re.compile(r"(?<=h:)m{1,2}|(?<=h\.)m{1,2}|m{1,2}(?=[:.]s)", re.IGNORECASE)
_DATE = re.compile(r"y+|m+|d+|h+|s+|n+|AM/PM", re.IGNORECASE)
_ELAPSED = re.compile(r"\[?(h+|m+|s+)\]?", re.IGNORECASE)  # [h]:mm
_SECONDS = {"h": 3600, "m": 60, "s": 1}
_EXPONENT = re.compile(r"0(?:\.(0*))?E\+00")
_CODES = {"y": "%y", "yyyy": "%Y", "m": "%m", "mmm": "%b", "mmmm": "%B", "d": "%d", "ddd": "%a", "dddd": "%A"}
_CODES |= {"h": "%H", "n": "%M", "s": "%S", "am/pm": "%p"}


def as_shown(value: object, number_format: str) -> str:
    """Return the text of a cell that is no text; a format that shows something else than one number gives the number.

    The decimal mark is a point. Dates whose format follows the settings of each computer, or has names of another
    language than English or years of another calendar, are written as in ISO 8601.
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, timedelta):
        return _duration(value, number_format)
    if isinstance(value, date | time):
        return _date(value, number_format)
    return _number(value, number_format) if isinstance(value, int | float) else str(value)


def _number(value: float, number_format: str) -> str:
    plain = str(int(value)) if float(value).is_integer() else str(value)
    if _PLAIN.search(number_format):
        return plain
    sections = number_format.split(";")
    is_negative = value < 0 and len(sections) > 1
    section = sections[1 if is_negative else 2 if value == 0 and len(sections) > 2 else 0]
    template = _QUOTED.sub(r"\1", _NOT_SHOWN.sub(r"\1", section))
    if exponent := _EXPONENT.fullmatch(template):
        return f"{value:.{len(exponent[1] or '')}E}"
    pattern, written = (_FRACTION, _fraction) if _FRACTION.search(template) else (_DIGITS, _with_digits)
    if len(pattern.findall(template)) > 1:  # a telephone number
        return plain
    size = abs(value) * (100 if "%" in template else 1)
    sign = "-" if value < 0 and not is_negative else ""
    return sign + pattern.sub(lambda found: written(size, found), template).strip()


def _with_digits(value: float, found: re.Match[str]) -> str:
    """Return a number in a format such as `#,##0.00`; each comma at the end divides it by 1,000."""
    digits = found[0]
    used = digits.rstrip(",")
    whole, _, decimals = used.partition(".")
    text = f"{value / 1000 ** (len(digits) - len(used)):{',' * (',' in whole)}.{len(decimals)}f}"
    before, point, after = text.partition(".")
    needed = decimals.rstrip("#?")
    after = after[: len(needed)] + after[len(needed) :].rstrip("0")
    return before.zfill(whole.count("0")) + (point + after if after else "")


def _fraction(value: float, found: re.Match[str]) -> str:
    """Return a number in a format such as `# ?/?`, whose marks are the most digits, or `?/8`."""
    parts = int(found[2]) if found[2].isdecimal() else 0
    parts = parts or Fraction(value).limit_denominator(10 ** len(found[2]) - 1).denominator
    whole, rest = divmod(round(value * parts), parts if found[1] else math.inf)
    return f"{int(whole) or ''} {int(rest)}/{parts}".strip() if rest else str(int(whole))


def _date(value: date | time, number_format: str) -> str:
    number_format = _ISO.get(number_format, number_format)
    if _IN_A_LANGUAGE.search(number_format):
        return str(value).removesuffix(" 00:00:00")
    codes = _CODES | ({"h": "%I"} if "AM/PM" in number_format.upper() else {})

    def written(found: re.Match[str]) -> str:
        letters = found[0].lower()
        code = codes.get(letters) or codes[letters[0]]
        text = value.strftime(code)
        if code == "%d" and isinstance(value, time):  # Excel shows 0 as 0 January 1900
            text = "00"
        return text.lstrip("0") or "0" if len(letters) == 1 else text

    def filled(part: str) -> str:
        with_minutes = _MINUTES.sub(lambda found: "n" * len(found[0]), part)
        return _DATE.sub(written, with_minutes)

    return _filled(number_format, filled)


def _duration(value: timedelta, number_format: str) -> str:
    rest = round(abs(value).total_seconds())

    def written(found: re.Match[str]) -> str:
        nonlocal rest
        number, rest = divmod(rest, _SECONDS[found[1][0].lower()])
        return str(number).zfill(len(found[1]))

    return "-" * (value < timedelta()) + _filled(number_format, lambda part: _ELAPSED.sub(written, part))


def _filled(number_format: str, fill: Callable[[str], str]) -> str:
    """Return the first section of a format with what `fill` makes of each part that is not quoted."""
    parts = _QUOTED.split(_NOT_SHOWN.sub("", number_format.partition(";")[0]))  # every second one was quoted
    return "".join(part if number % 2 else fill(part) for number, part in enumerate(parts)).strip()
