"""What follows from a language code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from language_data.population_data import LANGUAGE_WRITING_POPULATION

from nmt.base import languages
from nmt.base.languages import (
    bleu_tokenizer,
    code_named,
    english_name,
    has_many_characters,
    is_variant,
    language_of_country,
    names_of,
    script_of,
    spaces_between_sentences,
    written_without_spaces,
)


@pytest.mark.parametrize(
    ("code", "tokenizer"),
    [("zh", "zh"), ("zh_Hant", "zh"), ("zho_Hans", "zh"), ("cmn", "zh"), ("en", "13a"), ("DE", "13a"), ("th", "char")],
)
def test_the_bleu_tokenizer_follows_the_target_language(code, tokenizer):
    assert bleu_tokenizer(code) == tokenizer


@pytest.mark.parametrize(("code", "package"), [("ja", "MeCab"), ("ko", "mecab_ko")])
@pytest.mark.parametrize("installed", [True, False])
def test_mecab_is_used_where_it_is_installed(code, package, installed, monkeypatch):
    monkeypatch.setattr(languages, "find_spec", lambda name: (name == package and installed) or None)
    assert bleu_tokenizer(code) == (f"{code}-mecab" if installed else "char")


def test_scripts():
    assert written_without_spaces("zh-CN")
    assert not written_without_spaces("ko")
    assert has_many_characters("ko")
    assert not has_many_characters("de")


_ROWS = Path(__file__).with_name("languages.tsv").read_text(encoding="utf-8").splitlines()[1:]
LANGUAGES = [row.split("\t") for row in _ROWS]
"""The 204 codes of FLORES-200, and others: old ones, wrong ones, languages in rarer scripts, unknown ones."""

FLORES_200 = [row[0] for row in LANGUAGES[:204]]
SAME = {"Hans": "Hani", "Hant": "Hani", "Hang": "Kore"}


def test_a_code_has_the_script_the_tokenizer_and_the_name_of_its_language(monkeypatch):
    monkeypatch.setattr(languages, "find_spec", lambda name: None)  # without MeCab
    found = [[code, script_of(code) or "-", bleu_tokenizer(code), english_name(code)] for code, *_ in LANGUAGES]
    assert found == [[*row] for row in LANGUAGES]


def test_each_language_of_flores_200_has_a_name_and_a_script_or_none_but_no_wrong_one():
    for code in (*FLORES_200, "tyv_Cyrl"):
        language, script = code.split("_")
        scripts = {SAME.get(each[4:], each[4:]) for each in (*FLORES_200, "tyv_Cyrl") if each.startswith(language)}
        assert script_of(code) == SAME.get(script, script), code
        assert script_of(language) in {None, *scripts}, code
        assert english_name(language) not in (language, ""), code
        assert english_name(code) == f"{english_name(language)} ({code})"


@pytest.mark.parametrize(
    ("code", "written", "tokenizer"),
    [
        ("kr", "Kore", "char"),  # Kanuri, or meant for Korean
        ("tw", "Hani", "zh"),  # Twi, or meant for the Chinese of Taiwan
        ("mon", "Mymr", "char"),  # Mongolian, or meant for Mon
        ("qaa", "Tibt", "char"),
        ("xx", None, "13a"),
        ("de", "Latn", "13a"),
        ("zh", "Latn", "zh"),
        ("th", None, "char"),
    ],
)
def test_the_script_of_the_text_decides_on_the_tokenizer_if_the_language_does_not(
    code, written, tokenizer, monkeypatch
):
    monkeypatch.setattr(languages, "find_spec", lambda name: None)
    assert bleu_tokenizer(code, written) == tokenizer


@pytest.mark.parametrize("code", ["shn", "mnw", "dz", "dzo_Tibt", "nan", "hak", "jp", "ii", "jv-Java", "khb"])
def test_a_language_in_a_script_without_spaces_is_written_without_spaces(code):
    assert written_without_spaces(code)
    assert not written_without_spaces(f"{code[:3].split('-')[0]}-Latn")


@pytest.mark.parametrize(
    ("text", "words_apart", "sentences_apart"),
    [
        ("我来自中国。Tom 是老师。", False, False),
        ("私は東京に住んでいます。", False, False),
        ("ผมมาจากประเทศไทย", False, True),
        ("ខ្ញុំមកពីប្រទេសកម្ពុជា", False, True),
        ("I am from China (中国).", True, True),
        ("나는 학교에 갔다.", True, True),
        ("", True, True),
    ],
)
def test_the_text_tells_whether_a_language_of_an_unknown_script_has_spaces(text, words_apart, sentences_apart):
    for code in ("qaa", "xx", "digits", "unbekannt", "sr"):
        assert script_of(code) is None
        assert written_without_spaces(code, text) is not words_apart
        assert spaces_between_sentences(code, text) is sentences_apart
    assert written_without_spaces("zh", text)  # a known language decides itself
    assert spaces_between_sentences("en", text)


def test_the_code_of_a_country_stands_for_its_language_unless_it_is_one_of_a_language():
    assert [language_of_country(code) for code in ("cn", "ua", "GR", "jp")] == ["zh", "uk", "el", "ja"]
    assert [language_of_country(code) for code in ("tw", "kr", "de", "zh-CN", "xx", "kz", "digits", "a b")] == [
        None
    ] * 8


@pytest.mark.parametrize(
    ("code", "script", "name"),
    [
        ("iw", "Hebr", "Hebrew"),
        ("in", "Latn", "Indonesian"),
        ("ji", "Hebr", "Yiddish"),
        ("mo", "Latn", "Romanian"),
        ("sh", None, "Serbo-Croatian"),  # in Latin and Cyrillic
        ("wo", "Latn", "Wolof"),
        ("ha", None, "Hausa"),
        ("yo", "Latn", "Yoruba"),
        ("ne", "Deva", "Nepali"),
        ("deu", "Latn", "German"),
        ("ger", "Latn", "German"),
        ("cmn", "Hani", "Mandarin Chinese"),
        ("acm", "Arab", "Mesopotamian Arabic"),  # part of Arabic
        ("uzn", None, "Northern Uzbek"),  # part of Uzbek, which has several scripts
        ("grc", "Grek", "Ancient Greek"),
        ("pa", None, "Punjabi"),  # in Gurmukhi and Arabic
        ("pa-PK", "Arab", "Punjabi (pa-PK)"),
        ("pa_Guru", "Guru", "Punjabi (pa_Guru)"),
        ("pnb", "Arab", "Western Panjabi"),
        ("ug", None, "Uyghur"),  # in Arabic and Cyrillic
        ("bos", None, "Bosnian"),
        ("lad", None, "Ladino"),
        ("uz-AF", "Arab", "Uzbek (uz-AF)"),
        ("ind", "Latn", "Indonesian"),  # part of Malay, but common
        ("zh-TW", "Hani", "Chinese (zh-TW)"),
        ("sr-Latn", "Latn", "Serbian (sr-Latn)"),
    ],
)
def test_old_codes_rare_ones_and_those_of_three_letters_have_a_script_and_a_name(code, script, name):
    assert (script_of(code), english_name(code)) == (script, name)


def test_no_script_is_expected_of_a_language_in_which_people_write_in_several():
    """The data of langcodes counts them, which knows more than the list of nmt."""
    tags = [key.split("-") for key, number in LANGUAGE_WRITING_POPULATION.items() if number]
    scripts = {(name, rest[0]) for name, *rest in tags if len(rest) == 1 and len(rest[0]) == 4}
    several = [name for name, script in scripts if script not in ("Hans", "Hant")]
    several = sorted({name for name in several if several.count(name) > 1} - {"hi", "en"})  # 0.2% of hi
    assert {"pa", "uz", "ug", "bm", "pnt", "unr"} <= {*several}
    assert [name for name in several if script_of(name) is not None] == []


@pytest.mark.parametrize(
    ("code", "script", "tokenizer"),
    [
        ("ga-Latg", "Latn", "13a"),  # typefaces
        ("de_Latf_DE", "Latn", "13a"),
        ("ur-Aran", "Arab", "13a"),
        ("ja-Hira", "Jpan", "char"),  # parts of a script
        ("ain_Kana", "Jpan", "char"),
        ("zh-Hanb-TW", "Hani", "zh"),
        ("de-test", "Latn", "13a"),  # no script
        ("en-x-thai", "Latn", "13a"),  # private
        ("qaa-Qaaa", None, "13a"),
        ("en-Zyyy", None, "13a"),  # undetermined
        ("sux-Xsux", "Xsux", "13a"),
    ],
)
def test_a_code_names_a_script_if_one_of_its_parts_is_that_of_a_script(code, script, tokenizer, monkeypatch):
    monkeypatch.setattr(languages, "find_spec", lambda name: None)
    assert (script_of(code), bleu_tokenizer(code)) == (script, tokenizer)


@pytest.mark.parametrize("code", ["xx", "qaa", "x", "digits", "zxx", "und", "lus", "a b", ""])
def test_the_script_of_a_language_that_nobody_knows_is_unknown(code):
    assert script_of(code) is None


def test_a_language_without_a_name_is_called_by_its_code():
    assert [english_name(code) for code in ("xx", "digits", "x")] == ["xx", "digits", "x"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("German", "de"),
        ("deutsch", "de"),
        ("de", "de"),
        ("中文", "zh"),
        ("Wolof", "wo"),
        ("galego", "gl"),
        ("Nepali", "ne"),
    ],
)
def test_a_name_of_a_language_gives_its_code(name, code):
    assert code_named(name) == code


@pytest.mark.parametrize("word", ["source", "target", "label", "col", "text", "context", "key", "notes", "hyp", "even"])
def test_the_names_of_other_columns_are_no_languages(word):
    assert code_named(word) is None


def test_a_column_may_have_the_name_of_its_language_in_english_or_in_the_language():
    assert names_of("de") == {"de", "german", "deutsch"}
    assert names_of("wo_Latn") >= {"wo", "wo_latn", "wolof"}
    assert names_of("digits") == {"digits"}


def test_what_is_said_of_a_common_language_needs_no_package():
    asked = "script_of('de'), english_name('pt-BR'), names_of('zh_Hans'), code_named('German'), script_of('shn_Mymr')"
    check = f"import sys; from nmt.base.languages import *; {asked}; sys.exit('langcodes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_a_regional_variant_is_one_of_its_language_and_of_no_other():
    assert is_variant("pt-BR", "pt")
    assert is_variant("ZH_Hant", "zh")
    assert not is_variant("pt", "pt")
    assert not is_variant("pt", "pt-BR")
    assert not is_variant("pt-PT", "pt-BR")
    assert not is_variant("est", "es")
