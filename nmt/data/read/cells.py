"""Recognize cells of a table that are no sentences: a spreadsheet's error values, formulas, and column names."""

from __future__ import annotations

import re
from collections.abc import Collection

from nmt.base.languages import names_of
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

_WORD_LIST = """
source src target tgt trg text texts sentence sentences segment segments string strings translation translations
original input output from to language languages lang locale reference ref hypothesis content value key id ids nr
no num number row line index comment comments note notes context column col quelle ziel quelltext zieltext text
satz übersetzung sprache texte phrase traduction langue texto frase traducción idioma testo traduzione lingua
原文 译文 訳文 源语言 目标语言
ar bg bn ca cs da de el en es et fa fi fr he hi hr hu id is it ja ko lt lv ms nb nl nn no pl pt ro ru sk sl sr sv
sw ta te th tr uk ur vi zh ara ces chi cmn dan deu ell eng fin fra fre ger heb hin hun ita jpn kor nld nor pol por
ron rus spa swe tur ukr vie zho us gb at ch br mx tw cn hk hans hant
cantonese icelandic irish malay telugu welsh simplified traditional
englisch französisch spanisch italienisch niederländisch russisch chinesisch japanisch polnisch türkisch
anglais allemand espagnol italien néerlandais russe chinois japonais inglés francés alemán portugués ruso chino japonés
inglese francese tedesco spagnolo inglês nederlands svenska dansk norsk suomi polski čeština türkçe
русский английский українська 英文 日本語 英語 한국어 영어
"""
_WORDS = frozenset(name for word in _WORD_LIST.split() for name in names_of(word))  # with the languages' names
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
    return 1 <= len(words) <= 4 and all(word.rstrip("0123456789") in _WORDS for word in words)
