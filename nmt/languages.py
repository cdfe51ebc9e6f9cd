"""Facts about languages, by language code."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

# Written without spaces between words, so "tokens per word" means nothing there.
_WITHOUT_SPACES = {
    "zh",
    "cmn",
    "yue",
    "wuu",
    "lzh",
    "ja",
    "jpn",
    "th",
    "tha",
    "lo",
    "lao",
    "km",
    "khm",
    "my",
    "mya",
    "bo",
}
_CHINESE = {"zh", "cmn", "yue", "wuu", "lzh"}
_JAPANESE = {"ja", "jpn"}
_KOREAN = {"ko", "kor"}
_DOTTED_I = {"tr", "tur", "az", "aze", "azj"}


class Direction(NamedTuple):
    """From which language into which, by their codes."""

    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{self.src}-{self.tgt}"


def is_variant(code: str, of: str) -> bool:
    """Return whether `code` is a regional or written variant of the language `of`, as pt-BR is of pt."""
    return code.replace("_", "-").lower().startswith(of.replace("_", "-").lower() + "-")


def language_tag(code: str) -> str:
    """Return the token before a source that asks for a translation into this language (Johnson et al. 2017)."""
    return f"<2{code}>"


def _base(code: str) -> str:
    return code.replace("_", "-").split("-")[0].lower()


def written_without_spaces(code: str) -> bool:
    """Return whether text in this language has no spaces between words."""
    return _base(code) in _WITHOUT_SPACES


def spaces_between_sentences(code: str) -> bool:
    """Return whether spaces separate sentences in this language; in Thai they do, although none separate words."""
    return _base(code) not in _CHINESE | _JAPANESE


def uppercase(text: str, code: str) -> str:
    """Return `text` in upper case; in Turkish and Azerbaijani, i becomes İ."""
    return text.replace("i", "İ").upper() if _base(code) in _DOTTED_I else text.upper()


def has_many_characters(code: str) -> bool:
    """Return whether text in this language has thousands of different characters."""
    return _base(code) in _CHINESE | _JAPANESE | _KOREAN


def bleu_tokenizer(code: str) -> str:
    """Return sacreBLEU's tokenizer for a target language.

    `zh` for Chinese, `ja-mecab` and `ko-mecab` where MeCab is installed (else `char`), `13a` for the others.
    """
    base = _base(code)
    if base in _CHINESE:
        return "zh"
    if base in _JAPANESE:
        return "ja-mecab" if find_spec("MeCab") else "char"
    if base in _KOREAN:
        return "ko-mecab" if find_spec("mecab_ko") else "char"
    return "char" if base in _WITHOUT_SPACES else "13a"
