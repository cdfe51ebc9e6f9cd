"""Recognize column names by their words, to tell a header row from text."""

from __future__ import annotations

import re

_WORD_LIST = """
source src target tgt trg text texts sentence sentences segment segments string strings translation translations
original input output from to language languages lang locale reference ref hypothesis content value key id ids nr
no num number row line index comment comments note notes context column col quelle ziel quelltext zieltext text
satz übersetzung sprache texte phrase traduction langue texto frase traducción idioma testo traduzione lingua
原文 译文 訳文 源语言 目标语言
ar bg bn ca cs da de el en es et fa fi fr he hi hr hu id is it ja ko lt lv ms nb nl nn no pl pt ro ru sk sl sr sv
sw ta te th tr uk ur vi zh ara ces chi cmn dan deu ell eng fin fra fre ger heb hin hun ita jpn kor nld nor pol por
ron rus spa swe tur ukr vie zho us gb at ch br mx tw cn hk hans hant
arabic bengali bulgarian cantonese catalan chinese croatian czech danish dutch english estonian finnish french
german greek hebrew hindi hungarian icelandic indonesian irish italian japanese korean latvian lithuanian malay
mandarin norwegian persian polish portuguese romanian russian serbian slovak slovenian spanish swahili swedish
tamil telugu thai turkish ukrainian urdu vietnamese welsh simplified traditional
deutsch englisch französisch spanisch italienisch niederländisch russisch chinesisch japanisch polnisch türkisch
anglais français allemand espagnol italien néerlandais russe chinois japonais
inglés francés alemán español italiano portugués ruso chino japonés
inglese francese tedesco spagnolo português inglês nederlands svenska dansk norsk suomi polski čeština türkçe
русский английский українська 中文 英文 日本語 英語 한국어 영어
"""
_WORDS = frozenset(_WORD_LIST.split())
_SEPARATORS = re.compile(r"[\W_]+")
_MAX_CHARS = 60


def looks_like_header(cell: str) -> bool:
    """Return whether a cell in the first row looks like a column name: `source`, `German (DE)`, `text_en`."""
    if len(cell) > _MAX_CHARS or cell.rstrip().endswith((".", "!", "?")):
        return False
    words = [word for word in _SEPARATORS.split(cell.casefold()) if word]
    return 1 <= len(words) <= 4 and all(word.rstrip("0123456789") in _WORDS for word in words)
