"""Facts about languages, by language code."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from nmt.base.patterns import lazy_pattern

if TYPE_CHECKING:
    from langcodes import Language

# Written without spaces between words, so "tokens per word" is meaningless for them.
_WITHOUT_SPACES = {"Hani", "Jpan", "Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Lana", "Talu", "Java", "Bali", "Yiii"}
_WITH_MANY_CHARACTERS = {"Hani", "Jpan", "Kore"}
# Thai, Lao, Tibetan, Myanmar, Khmer, kana, Han
UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_UNSPACED = lazy_pattern(f"[{UNSPACED}]")
_HAN_OR_KANA = lazy_pattern("[\u3005-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
UNKNOWN_LANGUAGE = "und"  # ISO 639's code for an undetermined language
_MIN_NAME = 4  # letters; shorter names are codes, too
_DOTTED_I = {"tr", "tur", "az", "aze", "azj"}


class Direction(NamedTuple):
    """A translation direction: the codes of the source and target language."""

    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{self.src}-{self.tgt}"


def _subtags(code: str) -> list[str]:
    """Return the parts of a code in lower case: language, script, region."""
    return code.replace("_", "-").lower().split("-")


def is_variant(code: str, of: str) -> bool:
    """Return whether `code` is a regional or script variant of the language `of`, as pt-BR is of pt."""
    return code.replace("_", "-").lower().startswith(of.replace("_", "-").lower() + "-")


LANGUAGE_TAG = re.compile(r"▁?<2([A-Za-z0-9][A-Za-z0-9_-]*)>")  # the tag of a language in a vocabulary


def language_tag(code: str) -> str:
    """Return the token that, prepended to a source, requests a translation into this language (Johnson et al. 2017)."""
    return f"<2{code}>"


def base_code(code: str) -> str:
    """Return a language code without script and region: `pt` for `pt-BR`."""
    return _subtags(code)[0]


@cache
def standard_code(code: str) -> str:
    """Return the usual code of a language, without script and region: `he` for `iw` and `heb`, `zh` for `cmn_Hans`."""
    base = base_code(code)
    if base in _common_languages():
        return base
    language = _language(base)
    return base if language is None else language.prefer_macrolanguage().language or base


def written_without_spaces(code: str, text: str = "") -> bool:
    """Return whether text in this language has no spaces between words; `text` tells if its script is unknown."""
    return _script_of_spacing(code, text) in _WITHOUT_SPACES


def has_unspaced(text: str) -> bool:
    """Return whether `text` has a character of a script that is written without spaces between words."""
    return _UNSPACED.search(text) is not None


def spaces_between_sentences(code: str, text: str = "") -> bool:
    """Return whether spaces separate sentences in this language; true for Thai, where they do not separate words.

    `text` tells if the script of the language is unknown.
    """
    return _script_of_spacing(code, text) not in ("Hani", "Jpan")


def _script_of_spacing(code: str, text: str) -> str | None:
    """Return the script of a language; if it is unknown, one with the spaces of most characters of `text`."""
    script = script_of(code)
    if script is None and 2 * len(_UNSPACED.findall(text)) > len(text):
        return "Thai" if _HAN_OR_KANA.search(text) is None else "Hani"
    return script


def uppercase(text: str, code: str) -> str:
    """Return `text` in upper case; in Turkish and Azerbaijani, and in a text that has ı, i becomes İ."""
    is_dotted = base_code(code) in _DOTTED_I or "ı" in text
    return text.replace("i", "İ").upper() if is_dotted else text.upper()


def has_many_characters(code: str) -> bool:
    """Return whether text in this language has thousands of different characters."""
    return script_of(code) in _WITH_MANY_CHARACTERS


def bleu_tokenizer(code: str, written: str | None = None) -> str:
    """Return sacreBLEU's tokenizer for a target language, whose text is in the script `written` (None: unknown).

    `zh` for Chinese, `ja-mecab` and `ko-mecab` if MeCab is installed (else `char`), `char` for other scripts without
    spaces, `13a` for all others. The text decides if its language is usually written with spaces, or is unknown.
    """
    script = script_of(code)
    script = script if script in _WITHOUT_SPACES or script == "Kore" else written
    if script == "Hani":
        return "zh"
    if script == "Jpan":
        return "ja-mecab" if find_spec("MeCab") else "char"
    if script == "Kore":
        return "ko-mecab" if find_spec("mecab_ko") else "char"
    return "char" if script in _WITHOUT_SPACES else "13a"


# Texts in these languages are in one of several scripts; langcodes knows only the one that is used most.
_IN_SEVERAL_SCRIPTS = {
    "ace", "arc", "az", "bax", "bm", "bs", "crh", "ctd", "ff", "ha", "hnj", "iu", "kaa", "kk", "kok", "kr", "ks", "ku",
    "ky", "lad", "lzz", "man", "mn", "mni", "ms", "pa", "pnt", "rif", "sat", "sd", "sh", "shi", "sr", "swb", "taq",
    "tg", "tk", "tt", "tzm", "ug", "unr", "uz", "zdj",
}  # fmt: skip
# Parts and typefaces of scripts, and what is no script; `chinese_form` tells the first two apart.
_SAME_SCRIPT = {
    "Hans": "Hani", "Hant": "Hani", "Hanb": "Hani", "Hang": "Kore", "Jamo": "Kore", "Hira": "Jpan", "Kana": "Jpan",
    "Hrkt": "Jpan", "Latf": "Latn", "Latg": "Latn", "Aran": "Arab", "Cyrs": "Cyrl",
    "Zinh": "", "Zxxx": "", "Zyyy": "", "Zzzz": "",
}  # fmt: skip
_TRADITIONAL_REGIONS = {"tw", "hk", "mo"}
_SIMPLIFIED_REGIONS = {"cn", "sg"}


def script_of(code: str) -> str | None:
    """Return the script of a language as an ISO 15924 code, which the language's code may name (`sr-Latn`).

    `Hani` stands for both forms of Chinese, `Jpan` for kana with kanji, `Kore` for Hangul with Hanja. None if texts in
    the language may be in one of several scripts, or if its script is unknown.
    """
    base, *subtags = _subtags(code)
    public = takewhile(lambda tag: len(tag) > 1, subtags)  # what follows x is private
    named = next((tag.title() for tag in public if len(tag) == 4 and _is_script(tag.title())), None)
    if named is None:
        common = _common_languages().get(base)
        named = common.script if common else _usual_script(code)
    return _SAME_SCRIPT.get(named, named) or None if named else None


@cache
def _is_script(name: str) -> bool:
    """Return whether ISO 15924 has such a code of a script; those for private use have no meaning here."""
    if name in _SAME_SCRIPT or name in {common.script for common in _common_languages().values()}:
        return True
    from langcodes.data_dicts import ALL_SCRIPTS  # takes 60 ms

    return name in ALL_SCRIPTS


@cache
def _usual_script(code: str) -> str | None:
    """Return the script in which a language is usually written, or the macrolanguage that it is part of."""
    from langcodes.data_dicts import LIKELY_SUBTAGS, MACROLANGUAGES

    if (language := _language(code)) is None:
        return None
    name = language.language or ""
    if name not in LIKELY_SUBTAGS:  # of which langcodes would say that it is in Latin
        name = MACROLANGUAGES.get(name, "")
    if name in _IN_SEVERAL_SCRIPTS:  # the region may tell, as in pa-PK
        return LIKELY_SUBTAGS.get(f"{name}-{language.territory}", "--").split("-")[1] or None
    if not name:
        return None
    return language.update_dict({"language": name}).maximize().script


@cache
def scripts_of(code: str) -> tuple[str, ...]:
    """Return the script of a language, or all in which people write it; none if they are unknown."""
    if (script := script_of(code)) is not None:
        return (script,)
    from language_data.population_data import LANGUAGE_WRITING_POPULATION as WRITERS

    language = _language(code)
    name = language.language if language else None
    tags = [tag.split("-") for tag, number in WRITERS.items() if number]
    found = sorted({tag[1] for tag in tags if tag[0] == name and len(tag) == 2 and len(tag[1]) == 4})
    return tuple(found) if len(found) > 1 else ()


def _language(code: str) -> Language | None:
    """Return what langcodes knows of a code, with the current code for an old one; None if it is not a code."""
    from langcodes import Language  # it takes 60 ms, so `import nmt` does without
    from langcodes.tag_parser import LanguageTagError

    try:
        return Language.get(language_of_country(code) or code)
    except LanguageTagError:
        return None


@cache
def language_of_country(code: str) -> str | None:
    """Return the language of a country whose code is none of a language: `zh` for `cn`; None for all others.

    None, too, for a country whose usual language is that of another one, as Russian is in Kazakhstan: kz may mean kk.
    """
    base = base_code(code)
    if base in _common_languages():
        return None
    from langcodes import Language
    from langcodes.data_dicts import LIKELY_SUBTAGS

    likely = base_code(LIKELY_SUBTAGS.get(f"und-{base.upper()}", ""))
    is_at_home = LIKELY_SUBTAGS.get(likely, "").endswith(f"-{base.upper()}")
    return likely if is_at_home and not Language.get(base).is_valid() else None


def chinese_form(code: str) -> Literal["simplified", "traditional"] | None:
    """Return the form of Chinese characters that a code specifies (`zh-Hant`, `zh-TW`); None if it specifies none."""
    base, *subtags = _subtags(code)
    if script_of(base) != "Hani":
        return None
    if "hant" in subtags or ("hans" not in subtags and _TRADITIONAL_REGIONS & set(subtags)):
        return "traditional"
    return "simplified" if "hans" in subtags or _SIMPLIFIED_REGIONS & set(subtags) else None


class _CommonLanguage(NamedTuple):
    """A language whose script and names are known without importing langcodes."""

    script: str | None
    names: tuple[str, ...]  # the English name first


@cache
def _common_languages() -> dict[str, _CommonLanguage]:
    lines = Path(__file__).with_name("languages.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return {code: _CommonLanguage(None if script == "-" else script, tuple(names)) for code, script, *names in rows}


@cache
def _names(base: str) -> tuple[str, ...]:
    """Return the names of a language by its code without script and region, the English one first; empty if unknown."""
    if (common := _common_languages().get(base)) is not None:
        return common.names
    language = _language(base)
    if language is None or (name := language.language_name()).startswith("Unknown language"):
        return ()
    return name, language.autonym()


def english_name(code: str) -> str:
    """Return the English name of a language, with script or region if the code has one; the code itself if unknown."""
    base = base_code(code)
    name = next(iter(_names(base)), code)
    return name if code.lower() in (base, name.lower()) else f"{name} ({code})"


def names_of(code: str) -> frozenset[str]:
    """Return the possible names of a column of text in this language, in lower case: its code, and its known names."""
    return frozenset([base_code(code), code.lower(), *map(str.lower, _names(base_code(code)))])


def code_named(name: str) -> str | None:
    """Return the code of a language by its name, such as German or deutsch; None if it is unknown.

    Of the languages that are not common, only those with a code of two letters have names here: among the others are
    names like Label and Col.
    """
    for code, common in _common_languages().items():
        if name.lower() in (code, *map(str.lower, common.names)):
            return code
    if len(name) < _MIN_NAME:
        return None
    import langcodes

    try:
        found = langcodes.find(name).language
    except LookupError:
        return None
    return found if found is not None and len(found) == 2 else None
