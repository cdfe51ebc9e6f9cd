"""Find the scripts (Latin, Cyrillic, Han, …) of the letters of a text, and the form of its Chinese characters.

The Unicode name of a letter starts with its script. Simplified and traditional characters are distinguished by two
encodings of Python: GB 2312 has the simplified forms, Big5 the traditional ones, and a character that only one of them
has belongs to that form.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from math import log
from typing import Any, Literal

from nmt.base.errors import require
from nmt.base.languages import scripts_of, standard_code

# The ISO 15924 code of each script, its code here, and the first word of the Unicode names of its letters.
_SCRIPTS = """
Latn:L:LATIN Grek:G:GREEK Cyrl:C:CYRILLIC Hani:H:CJK Hani:H:IDEOGRAPHIC Bopo:H:BOPOMOFO Hira:K:HIRAGANA
Kana:K:KATAKANA Kore:N:HANGUL Arab:A:ARABIC Hebr:W:HEBREW Deva:D:DEVANAGARI Beng:B:BENGALI Guru:P:GURMUKHI
Gujr:U:GUJARATI Orya:O:ORIYA Taml:T:TAMIL Telu:E:TELUGU Knda:R:KANNADA Mlym:M:MALAYALAM Sinh:S:SINHALA Thai:Y:THAI
Laoo:Z:LAO Khmr:Q:KHMER Mymr:J:MYANMAR Tibt:X:TIBETAN Geor:F:GEORGIAN Armn:V:ARMENIAN Ethi:I:ETHIOPIC
Java:j:JAVANESE Bali:b:BALINESE Yiii:y:YI
"""
_ROWS = [row.split(":") for row in _SCRIPTS.split()]
_CODES = {name: code for _, code, name in _ROWS}
_NAMES = {code: script for script, code, _ in _ROWS[::-1]}
OTHER = "?"  # letters of the scripts that are not listed
_OF_SCRIPTS = {script: code for script, code, _ in _ROWS} | {"Jpan": "KH", "Kore": "NH"}
SHARED_SCRIPTS = ("L", "C", "A", "D", "B", "W", "I")  # several languages use each; others identify the language
_WIDTH = re.compile(r"^(?:FULL|HALF)WIDTH ")
_MIXED = re.compile(r"L[GC]|[GC]L|GC|CG")
MIN_LETTERS = 3  # fewer may be an initial, a unit or a symbol
_LETTERS_PER_IDEOGRAPH = 4  # a Chinese sentence may contain foreign names
_MIN_CHINESE = 2  # characters of one form
_OUTWEIGHS = 3  # times as many of one form as of the other

_RARE = 0.05  # share of the letters of a text, of a script that it does not need
_MIN_PROBABILITY = 1e-30


class _Codes(dict[int, str | None]):
    """Each character's script code, one letter; a space for non-letters, None for combining marks."""

    def __missing__(self, char: int) -> str | None:
        category = unicodedata.category(chr(char))
        name = _WIDTH.sub("", unicodedata.name(chr(char), ""))
        is_letter = category == "Lo" or re.match(r"(?!MODIFIER)[A-Z ]+ LETTER ", name)
        code = None if category[0] == "M" else _CODES.get(re.split("[ -]", name)[0], OTHER if is_letter else " ")
        self[char] = code if category[0] in "LM" else " "
        return self[char]


_CODE_OF_CHAR = _Codes()


def script_codes(text: str) -> str:
    """Return `text` with each letter replaced by its script code, and others by a space; marks are removed."""
    return text.translate(_CODE_OF_CHAR)


def codes_of(script: str | None) -> str:
    """Return the codes of a script, given by its ISO 15924 code; empty if it is unknown."""
    return _OF_SCRIPTS.get(script or "", "")


@cache
def codes_of_language(language: str) -> str:
    """Return the codes of the scripts in which texts in a language may be; empty if they are unknown."""
    return "".join(codes_of(script) or OTHER for script in scripts_of(language))


def scripts_in(texts: Iterable[str]) -> str:
    """Return the codes of the scripts in which `texts` are written, the most frequent first, without rare ones."""
    counts = Counter("".join(map(script_codes, texts)))
    del counts[" "]
    return "".join(code for code, count in counts.most_common() if count >= _RARE * counts.total())


def script_of_texts(texts: Iterable[str]) -> str | None:
    """Return the script in which most letters of `texts` are, as `script_of` names it; None if it has no code here."""
    codes = scripts_in(texts)
    return "Jpan" if "K" in codes else _NAMES.get(codes[:1])


def is_foreign(codes: str, expected: str) -> bool:
    """Return whether most letters of a text, given as script codes, are not in the scripts `expected`."""
    if not codes.strip(expected):  # to save time: most texts have no other letters
        return False
    num_letters = len(codes) - codes.count(" ")
    if num_letters < MIN_LETTERS or not expected:
        return False
    num_expected = sum(map(codes.count, expected))
    weight = _LETTERS_PER_IDEOGRAPH if "H" in expected else 1
    return weight * num_expected < num_letters - num_expected


def has_mixed_word(codes: str) -> bool:
    """Return whether Latin, Greek or Cyrillic letters, given as script codes, are adjacent to each other."""
    return ("G" in codes or "C" in codes) and _MIXED.search(codes) is not None


def form_of_chinese(text: str) -> Literal["simplified", "traditional"] | None:
    """Return the form of the Chinese characters in `text`, if it is clear."""
    forms = list(map(_form_of, text))
    simplified = forms.count(1)
    traditional = forms.count(-1)
    if simplified >= max(_MIN_CHINESE, _OUTWEIGHS * traditional):
        return "simplified"
    return "traditional" if traditional >= max(_MIN_CHINESE, _OUTWEIGHS * simplified) else None


@cache
def _form_of(char: str) -> int:
    """Return 1 for a character that is only simplified, -1 for one that is only traditional, 0 for all others."""
    return _encodes(char, "gb2312") - _encodes(char, "big5") if "\u4e00" <= char <= "\u9fff" else 0


def _encodes(char: str, encoding: str) -> bool:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def can_identify_languages() -> bool:
    """Return whether the package that identifies languages is installed."""
    return find_spec("py3langid") is not None


def identifier_version() -> str:
    """Return the version of that package; empty if it is not installed."""
    return version("py3langid") if can_identify_languages() else ""


@cache
def identification_model() -> Any:
    """Return the package's model for all languages. It takes half a second and much memory to load."""
    import numpy as np
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE)
    weights = model.nb_ptc.astype(np.float32)  # once: from fp16, each text would convert those that it needs
    rest = model.nb_pc, model.nb_classes, model.tk_nextmove, model.tk_output
    return LanguageIdentifier(weights, *rest, norm_probs=True, tk_row=model.tk_row)


class LanguageIdentifier:
    """Compares the expected language of each side with all languages that the package knows."""

    def __init__(self, src_lang: str, tgt_lang: str):
        """Load the model. NmtError if the package is missing. Sides in a language that it does not know pass."""
        require("langid", "py3langid", "identifying languages", otherwise="turn off language identification")
        self._model = identification_model()
        known = set(self._model.labels)
        self._languages = [
            code if code in known else None for code in (standard_code(src_lang), standard_code(tgt_lang))
        ]

    def is_usual(self, texts: Sequence[str], side: int) -> bool:
        """Return whether most of `texts` are in the language of a side (0: source, 1: target)."""
        language = self._languages[side]
        num_expected = sum(self._model.classify(text)[0] == language for text in texts)
        return 2 * num_expected > len(texts)

    def margin(self, text: str, side: int) -> float:
        """Return the margin, in nats, of the most probable language of a text over the language of its side.

        The package's probabilities take the length of the text into account. The margin is 0 if the package does not
        know the language of the side.
        """
        language = self._languages[side]
        if language is None:
            return 0.0
        best, probability = self._model.classify(text)
        if best == language:
            return 0.0
        of_expected = dict(self._model.rank(text)).get(language, 0.0)
        return log(max(probability, _MIN_PROBABILITY)) - log(max(of_expected, _MIN_PROBABILITY))
