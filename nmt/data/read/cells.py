"""Recognize cells of a table that are no sentences: a spreadsheet's error values, formulas, and column names."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path

from nmt.base.patterns import lazy_pattern

_ERROR_VALUE = lazy_pattern(
    r"#(?:VALUE!|REF!|NAME\?|N/A|DIV/0!|NULL!|NUM!|SPILL!|CALC!|FIELD!|BLOCKED!|CONNECT!|UNKNOWN!|GETTING_DATA|ERROR!"
    r"|WERT!|BEZUG!|NV|ZAHL!|VALEUR!|NOM\s?\?|NOMBRE!|¡VALOR!|¡REF!|¿NOMBRE\?|¡DIV/0!|¡NUM!|VALOR!|NOME\?)"
)
_FORMULA = lazy_pattern(r"""=[-+(]*(?:[A-Z][A-Z0-9.]+\(|\$?[A-Z]{1,3}\$?\d|'[^']*'!|\w+!\$?[A-Z]|")""")
_IN_TEXT = lazy_pattern(
    r"#(?:REF|VALUE|NAME|DIV/0|NUM|NULL|SPILL|CALC|WERT|BEZUG|ZAHL|NOMBRE|NOM|VALEUR|VALOR|¡VALOR|¡REF)[!?]|#N(?:/A|V)(?!\w)"
    r"|^=\s?\$?[A-Z]{1,3}\$?\d|^=\s?[A-ZÄÖÜ][A-ZÄÖÜ.]{1,30}\("
)
_COLUMN_NAME = lazy_pattern(
    r"(?:source|target|src|tgt|trg)(?:[ _-]?(?:text|sentence|segment|language|lang))?|"
    r"(?:text|sentence|segment|language|lang)[ _-]?[12]"
)
_MAX_HEADER = 40  # characters

_SEPARATORS = re.compile(r"[\W_]+")
_MAX_CHARS = 60


def cell_error(cell: str) -> str:
    """Return the error value in a cell, or `a formula`; empty if the cell is text."""
    found = _ERROR_VALUE.fullmatch(cell)
    return found[0] if found else "a formula" if _FORMULA.match(cell) else ""


def has_cell_error(text: str) -> bool:
    """Return whether `text` is a spreadsheet error value (`#REF!`) or formula (`=A1+B1`, `=SUM(A1:A9)`)."""
    return ("#" in text or text[0] == "=") and _IN_TEXT.search(text) is not None


def is_column_name(text: str, names: Collection[str]) -> bool:
    """Return whether `text` is a column name: `source`, `target_text`, or one of `names`, the names of the language.

    Other words, such as `text` and `translation`, also occur in glossaries and user interfaces.
    """
    if len(text) > _MAX_HEADER:
        return False
    name = text.strip(" \"':#").casefold()
    return name in names or _COLUMN_NAME.fullmatch(name) is not None


def looks_like_column_name(cell: str) -> bool:
    """Return whether a cell in the first row looks like a column name: `source`, `German (DE)`, `text_en`."""
    if len(cell) > _MAX_CHARS or cell.rstrip().endswith((".", "!", "?")):
        return False
    words = [word for word in _SEPARATORS.split(cell.casefold()) if word]
    return 1 <= len(words) <= 4 and all(word.rstrip("0123456789") in _names_of_columns() for word in words)


@cache
def _names_of_columns() -> frozenset[str]:
    """Return the words of which names of columns consist, with the names of languages."""
    return frozenset(Path(__file__).with_name("column_names.txt").read_text(encoding="utf-8").split())
