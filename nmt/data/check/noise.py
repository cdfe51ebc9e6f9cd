"""Rules on one side of a pair: wrong encodings, control characters, markup, spreadsheet cells."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

# How each byte of UTF-8 is displayed if it is read as Windows-1252, or as Latin-1 if that has no character for it.
_AS_TEXT = [bytes([byte]).decode("cp1252", errors="ignore") or chr(byte) for byte in range(256)]
_AS_BYTE = {char: byte for byte, char in enumerate(_AS_TEXT)} | {chr(byte): byte for byte in range(128, 256)}
FOLLOWING_BYTES = "".join(c for byte in range(0x80, 0xC0) for c in {_AS_TEXT[byte], chr(byte)})
"""The characters that the second and later bytes of a UTF-8 character then become."""

_FOLLOWING = re.escape(FOLLOWING_BYTES)
_MISREAD = re.compile(
    f"[\u00c2-\u00df][{_FOLLOWING}]|[\u00e0-\u00ef][{_FOLLOWING}]{{2}}|[\u00f0-\u00f4][{_FOLLOWING}]{{3}}"
)
_CURLY = "‘’“”‚„–—…›‹»«"  # may be punctuation after an accented capital: that pair alone proves nothing
_HARMLESS = dict.fromkeys(map(ord, "\t\u00a0\u00ad\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060"), " ")
_HARMLESS |= dict.fromkeys(range(0x2000, 0x200B), " ") | dict.fromkeys((0x202F, 0x205F, 0x3000), " ")
_FAULTY_CATEGORIES = {"Cc", "Cn", "Co", "Cs"}
_BYTE_ORDER_MARK = "\ufeff"
_CELL = re.compile(
    r"#(?:REF|VALUE|NAME|DIV/0|NUM|NULL|SPILL|CALC|WERT|BEZUG|ZAHL|NOMBRE|NOM|VALEUR|VALOR|¡VALOR|¡REF)[!?]|#N(?:/A|V)(?!\w)"
    r"|^=\s?\$?[A-Z]{1,3}\$?\d|^=\s?[A-ZÄÖÜ][A-ZÄÖÜ.]{1,30}\("
)
_HEADER = re.compile(
    r"(?:source|target|src|tgt|trg)(?:[ _-]?(?:text|sentence|segment|language|lang))?|"
    r"(?:text|sentence|segment|language|lang)[ _-]?[12]"
)
_MAX_HEADER = 40  # characters


def has_mojibake(text: str) -> bool:
    """Return whether `text` contains UTF-8 that was read as Windows-1252 or Latin-1, or U+FFFD.

    A run of characters counts if its bytes are the UTF-8 encoding of a letter or of typographic punctuation.
    """
    if "\ufffd" in text or "ï»¿" in text:
        return True
    return any(_is_misread(match[0]) for match in _MISREAD.finditer(text))


def _is_misread(run: str) -> bool:
    try:
        char = bytes(_AS_BYTE[c] for c in run).decode("utf-8")
    except (UnicodeDecodeError, KeyError):
        return False
    if len(run) == 2 and run[1] in _CURLY and run[0] not in "ÃÂ":
        return False
    category = unicodedata.category(char)
    return category[0] in "LPS" or char == "\u00a0"


def has_control_characters(text: str) -> bool:
    """Return whether `text` contains control, private-use or unassigned characters, or a byte order mark.

    White space, soft hyphens, and the joiners and direction marks that some scripts need are harmless.
    """
    if text.isprintable():
        return False
    suspects = {char for char in text.translate(_HARMLESS) if not char.isprintable()}
    return any(char == _BYTE_ORDER_MARK or unicodedata.category(char) in _FAULTY_CATEGORIES for char in suspects)


def is_cell(text: str) -> bool:
    """Return whether `text` is a spreadsheet error value (`#REF!`) or formula (`=A1+B1`, `=SUM(A1:A9)`)."""
    return ("#" in text or text[0] == "=") and _CELL.search(text) is not None


def is_header(text: str, names: Collection[str]) -> bool:
    """Return whether `text` is a column name: `source`, `target_text`, or one of `names`, the names of the language.

    Other words, such as `text` and `translation`, also occur in glossaries and user interfaces.
    """
    if len(text) > _MAX_HEADER:
        return False
    name = text.strip(" \"':#").casefold()
    return name in names or _HEADER.fullmatch(name) is not None
