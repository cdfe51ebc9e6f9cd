"""Write the number or the date in a cell as a spreadsheet shows it, by the cell's number format (ECMA-376, 18.8.31)."""

from __future__ import annotations

import re
from datetime import date, datetime, time

GENERAL = "General"
_LOCAL_DATES = ("mm-dd-yy", "m/d/yy h:mm")  # the built-in formats that follow the settings of each computer
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]|\[[^\]]*\]|[_*].'
    r"|(?P<date>y+|m+|d+|h+|s+|AM/PM|A/P)|(?P<digits>[#0?][#0?,]*(?:\.[#0?,]*)?|\.[#0?]+)|(?P<other>.)",
    re.IGNORECASE,
)
_LITERALS = ("quoted", "escaped", "currency", "other")


def as_shown(value: object, number_format: str) -> str:
    """Return the text of a cell that is no text; a format that shows something else than one number gives the number.

    The decimal mark is a point. Dates whose format follows the settings of each computer are written as in ISO 8601.
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, date | time):
        return _date(value, number_format)
    if isinstance(value, int | float):
        return _number(value, number_format)
    return str(value)


def _number(value: float, number_format: str) -> str:
    plain = str(int(value)) if float(value).is_integer() else str(value)
    positive, *others = number_format.split(";")
    has_own_section = value < 0 and bool(others)
    section = others[0] if has_own_section else others[1] if value == 0 and len(others) > 1 else positive
    tokens = list(_TOKEN.finditer(section))
    digits = [token["digits"] for token in tokens if token["digits"]]
    if GENERAL in number_format or "@" in section or len(digits) > 1:  # a fraction, an exponent, a telephone number
        return plain
    percent = 100 if any(token["other"] == "%" for token in tokens) else 1
    shown = "".join(
        _with_digits(abs(value) * percent, token["digits"]) if token["digits"] else _literal(token) for token in tokens
    ).strip()
    return f"-{shown}" if value < 0 and not has_own_section else shown


def _with_digits(value: float, digits: str) -> str:
    """Return a number in a format such as `#,##0.00`; each comma at the end divides it by 1,000."""
    used = digits.rstrip(",")
    scaled = value / 1000 ** (len(digits) - len(used))
    whole, _, decimals = used.partition(".")
    text = f"{scaled:{',' * (',' in whole)}.{len(decimals)}f}"
    for place in reversed(decimals):
        text = text[:-1] if place != "0" and text.endswith("0") else text
    before, point, after = text.removesuffix(".").partition(".")
    return before.zfill(whole.count("0")) + point + after


def _date(value: date | time, number_format: str) -> str:
    if number_format in (GENERAL, *_LOCAL_DATES):
        is_day = isinstance(value, datetime) and value.time() == time()
        return str(value.date() if isinstance(value, datetime) and is_day else value)
    tokens = list(_TOKEN.finditer(number_format.partition(";")[0]))
    letters = [token["date"].upper() for token in tokens if token["date"]]
    shown, before = "", ""
    for token in tokens:
        if not token["date"]:
            shown += _literal(token)
            continue
        letter = letters.pop(0)
        is_minute = before == "H" or (letters and letters[0][0] == "S")
        before = letter[0]
        if before == "M" and is_minute:
            letter = letter.replace("M", "N")
        elif before == "H" and "AM/PM" in number_format.upper():
            letter = letter.replace("H", "I")
        shown += _part_of_date(value, letter)
    return shown.strip()


def _part_of_date(value: date | time, letters: str) -> str:
    """Return what `letters` stand for, with N for minutes and I for hours from 1 to 12."""
    codes = {"Y": "%y", "YYY": "%Y", "M": "%m", "MMM": "%b", "MMMM": "%B", "D": "%d", "DDD": "%a", "DDDD": "%A"}
    codes |= {"H": "%H", "I": "%I", "N": "%M", "S": "%S", "A": "%p"}
    code = next(codes[letters[:size]] for size in (4, 3, 1) if letters[:size] in codes)
    text = value.strftime(code)
    return text.lstrip("0") or "0" if len(letters) == 1 else text


def _literal(token: re.Match[str]) -> str:
    return next((token[name] for name in _LITERALS if token[name] is not None), "")
