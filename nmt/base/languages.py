"""Facts about languages, by language code."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

_CHINESE = {"zh", "zho", "cmn", "yue", "wuu", "lzh"}
_JAPANESE = {"ja", "jpn"}
# Written without spaces between words, so "tokens per word" is meaningless for them.
_WITHOUT_SPACES = _CHINESE | _JAPANESE | {"th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod"}
_KOREAN = {"ko", "kor"}
_DOTTED_I = {"tr", "tur", "az", "aze", "azj"}


class Direction(NamedTuple):
    """A translation direction: the codes of the source and target language."""

    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{self.src}-{self.tgt}"


def is_variant(code: str, of: str) -> bool:
    """Return whether `code` is a regional or script variant of the language `of`, as pt-BR is of pt."""
    return code.replace("_", "-").lower().startswith(of.replace("_", "-").lower() + "-")


LANGUAGE_TAG = re.compile(r"▁?<2([A-Za-z0-9][A-Za-z0-9_-]*)>")  # the tag of a language in a vocabulary


def language_tag(code: str) -> str:
    """Return the token that, prepended to a source, requests a translation into this language (Johnson et al. 2017)."""
    return f"<2{code}>"


def base_code(code: str) -> str:
    """Return a language code without script and region: `pt` for `pt-BR`."""
    return code.replace("_", "-").split("-")[0].lower()


def written_without_spaces(code: str) -> bool:
    """Return whether text in this language has no spaces between words."""
    return base_code(code) in _WITHOUT_SPACES


def spaces_between_sentences(code: str) -> bool:
    """Return whether spaces separate sentences in this language; true for Thai, where they do not separate words."""
    return base_code(code) not in _CHINESE | _JAPANESE


def uppercase(text: str, code: str) -> str:
    """Return `text` in upper case; in Turkish and Azerbaijani, i becomes İ."""
    return text.replace("i", "İ").upper() if base_code(code) in _DOTTED_I else text.upper()


def has_many_characters(code: str) -> bool:
    """Return whether text in this language has thousands of different characters."""
    return base_code(code) in _CHINESE | _JAPANESE | _KOREAN


def bleu_tokenizer(code: str) -> str:
    """Return sacreBLEU's tokenizer for a target language.

    `zh` for Chinese, `ja-mecab` and `ko-mecab` if MeCab is installed (else `char`), `13a` for all others.
    """
    base = base_code(code)
    if base in _CHINESE:
        return "zh"
    if base in _JAPANESE:
        return "ja-mecab" if find_spec("MeCab") else "char"
    if base in _KOREAN:
        return "ko-mecab" if find_spec("mecab_ko") else "char"
    return "char" if base in _WITHOUT_SPACES else "13a"


_IN_SEVERAL_SCRIPTS = {"sr", "srp", "sh", "hbs", "uz", "uzb", "az", "aze", "tk", "tuk", "ku", "kur", "ha", "hau", "ms"}
_TRADITIONAL_REGIONS = {"tw", "hk", "mo"}
_SIMPLIFIED_REGIONS = {"cn", "sg"}


def script_of(code: str) -> str | None:
    """Return the script of a language, which its code may name (`sr-Latn`); None if it could be one of several.

    `Japanese` stands for kana with kanji. Languages not listed here are assumed to use Latin.
    """
    base, *subtags = code.replace("_", "-").lower().split("-")
    scripts = _scripts()
    named = next((scripts[tag] for tag in subtags if len(tag) == 4 and tag in scripts), None)
    if named is not None or base in _IN_SEVERAL_SCRIPTS:
        return named
    return scripts.get(base, "Latin")


@cache
def _scripts() -> dict[str, str]:
    """Return the script of each subtag of four letters, and of each language that uses no other."""
    lines = Path(__file__).with_name("scripts.txt").read_text(encoding="utf-8").splitlines()
    return {code: script for script, *codes in map(str.split, lines) for code in codes}


def chinese_form(code: str) -> Literal["simplified", "traditional"] | None:
    """Return the form of Chinese characters that a code specifies (`zh-Hant`, `zh-TW`); None if it specifies none."""
    base, *subtags = code.replace("_", "-").lower().split("-")
    if base not in _CHINESE:
        return None
    if "hant" in subtags or ("hans" not in subtags and _TRADITIONAL_REGIONS & set(subtags)):
        return "traditional"
    return "simplified" if "hans" in subtags or _SIMPLIFIED_REGIONS & set(subtags) else None


_NAMES = (
    "ar arabic|bg bulgarian|bn bengali|ca catalan|cs czech|da danish|de german deutsch|el greek|en english|es spanish "
    "español|et estonian|fa persian farsi|fi finnish|fr french français|he hebrew|hi hindi|hr croatian|hu hungarian|"
    "id indonesian|it italian italiano|ja japanese|ko korean|lt lithuanian|lv latvian|nl dutch|no norwegian|pl polish|"
    "pt portuguese português|ro romanian|ru russian|sk slovak|sl slovenian|sr serbian|sv swedish|sw swahili|ta tamil|"
    "th thai|tr turkish|uk ukrainian|ur urdu|vi vietnamese|zh chinese mandarin 中文"
)
_NAMES_OF = {code: frozenset([code, *names]) for code, *names in (entry.split() for entry in _NAMES.split("|"))}


def english_name(code: str) -> str:
    """Return the English name of a language, with script or region if the code has one; the code itself if unknown."""
    base = base_code(code)
    name = next((entry.split()[1].title() for entry in _NAMES.split("|") if entry.startswith(f"{base} ")), code)
    return name if code.lower() in (base, name.lower()) else f"{name} ({code})"


def names_of(code: str) -> frozenset[str]:
    """Return the possible names of a column of text in this language, in lower case: its code, and its known names."""
    return _NAMES_OF.get(base_code(code), frozenset()) | {base_code(code), code.lower()}


def code_named(name: str) -> str | None:
    """Return the code of a language by its name, such as German or deutsch; None if it is unknown."""
    return next((code for code, names in _NAMES_OF.items() if name.lower() in names), None)
