"""Facts about languages, by language code."""

from __future__ import annotations

import re
from importlib.util import find_spec
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


_SCRIPTS = {  # each with its subtags (four letters), and the languages that use no other
    "Latin": "latn",
    "Han": "hans hant zh zho cmn yue wuu lzh",
    "Japanese": "jpan ja jpn",
    "Hangul": "hang kore ko kor",
    "Cyrillic": "cyrl ru rus uk ukr be bel bg bul mk mkd ky kir tg tgk mn mon kk kaz tt tat ba bak cv chv ce che os "
    "oss",
    "Greek": "grek el ell grc",
    "Arabic": "arab ar ara fa fas prs ur urd ps pus sd snd ug uig ckb arz",
    "Hebrew": "hebr he heb yi yid",
    "Devanagari": "deva hi hin mr mar ne nep npi sa san bho mai",
    "Bengali": "beng bn ben as asm",
    "Gurmukhi": "guru pa pan",
    "Gujarati": "gujr gu guj",
    "Oriya": "orya or ory ori",
    "Tamil": "taml ta tam",
    "Telugu": "telu te tel",
    "Kannada": "knda kn kan",
    "Malayalam": "mlym ml mal",
    "Sinhala": "sinh si sin",
    "Thai": "thai th tha",
    "Lao": "laoo lo lao",
    "Khmer": "khmr km khm",
    "Myanmar": "mymr my mya",
    "Tibetan": "tibt bo bod dz dzo",
    "Georgian": "geor ka kat",
    "Armenian": "armn hy hye",
    "Ethiopic": "ethi am amh ti tir",
    "Mongolian": "mong",
    "Tifinagh": "tfng",
}
_SCRIPT_OF = {code: script for script, codes in _SCRIPTS.items() for code in codes.split()}
_IN_SEVERAL_SCRIPTS = {"sr", "srp", "sh", "hbs", "uz", "uzb", "az", "aze", "tk", "tuk", "ku", "kur", "ha", "hau", "ms"}
_TRADITIONAL_REGIONS = {"tw", "hk", "mo"}
_SIMPLIFIED_REGIONS = {"cn", "sg"}


def script_of(code: str) -> str | None:
    """Return the script of a language, which its code may name (`sr-Latn`); None if it could be one of several.

    `Japanese` stands for kana with kanji. Languages not listed here are assumed to use Latin.
    """
    base, *subtags = code.replace("_", "-").lower().split("-")
    named = next((_SCRIPT_OF[tag] for tag in subtags if len(tag) == 4 and tag in _SCRIPT_OF), None)
    if named is not None or base in _IN_SEVERAL_SCRIPTS:
        return named
    return _SCRIPT_OF.get(base, "Latin")


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
