"""What follows from a language code."""

from __future__ import annotations

import pytest

from nmt.base import languages
from nmt.base.languages import bleu_tokenizer, has_many_characters, is_variant, script_of, written_without_spaces


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


def test_the_codes_of_nllb_name_their_scripts():
    codes = {
        "shn_Mymr": "Myanmar",
        "zho_Hant": "Han",
        "kor_Hang": "Hangul",
        "amh_Ethi": "Ethiopic",
        "ace_Arab": "Arabic",
    }
    assert {code: script_of(code) for code in codes} == codes
    assert script_of("fra_Latn") == "Latin"


def test_a_regional_variant_is_one_of_its_language_and_of_no_other():
    assert is_variant("pt-BR", "pt")
    assert is_variant("ZH_Hant", "zh")
    assert not is_variant("pt", "pt")
    assert not is_variant("pt", "pt-BR")
    assert not is_variant("pt-PT", "pt-BR")
    assert not is_variant("est", "es")
