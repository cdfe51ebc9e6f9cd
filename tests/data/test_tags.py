"""Several corpora make directions, and tags before their sources."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from nmt.config import Config
from nmt.data.tags import corpus_tags, language_prefix, tags_before_sources, user_symbols
from nmt.languages import Direction


def config(*train, valid=None, **data):
    values = {"src_lang": "de", "tgt_lang": "en", "train": list(train), "valid": valid, **data}
    return Config.model_validate({"data": values, "tokenizer": {"user_symbols": ["<x>"]}})


DE_EN, EN_DE = {"tsv": "a.tsv"}, {"tsv": "b.tsv", "src_lang": "en", "tgt_lang": "de"}


def test_corpora_of_one_language_pair_are_one_direction_without_tags():
    one = config(DE_EN, {"tsv": "c.tsv"})
    assert one.data.directions == (Direction("de", "en"),)
    assert tags_before_sources(one.data) == ["", ""]
    assert user_symbols(one) == ("<x>",)


def test_several_target_languages_give_every_source_the_tag_of_its_target():
    both = config(DE_EN, EN_DE, {**DE_EN, "tag": "<web>"})
    assert both.data.directions == (Direction("de", "en"), Direction("en", "de"))
    assert tags_before_sources(both.data) == ["<2en> ", "<2de> ", "<2en> <web> "]
    assert user_symbols(both) == ("<x>", "<2en>", "<2de>", "<web>")
    assert language_prefix(both.data, Direction("fr", "de")) == "<2de> "


def test_several_source_languages_alone_need_no_tags():
    many_to_one = config(DE_EN, {"tsv": "b.tsv", "src_lang": "fr"})
    assert many_to_one.data.directions == (Direction("de", "en"), Direction("fr", "en"))
    assert tags_before_sources(many_to_one.data) == ["", ""]
    assert language_prefix(many_to_one.data, Direction("fr", "en")) == ""


def test_the_tag_of_a_validation_corpus_is_its_own_without_that_of_the_language():
    both = config(DE_EN, EN_DE, valid=[{**EN_DE, "tag": "<web>"}, DE_EN])
    assert tags_before_sources(both.data, "valid") == ["<web> ", ""]
    assert corpus_tags(both.data) == ("<web>",)


@pytest.mark.parametrize("stranger", [{"tsv": "v.tsv", "tgt_lang": "fr"}, {"tsv": "v.tsv", "src_lang": "fr"}])
def test_a_validation_corpus_in_a_language_that_is_not_trained_is_refused(stranger):
    with pytest.raises(ValidationError, match="those of train hold de, en, and translate into en, de"):
        config(DE_EN, EN_DE, valid=stranger)


def test_weights_and_a_temperature_exclude_each_other():
    with pytest.raises(ValidationError, match="weights and temperature is not 1; choose one of the two"):
        config({**DE_EN, "weight": 1}, {**EN_DE, "weight": 2}, temperature=5)


def test_a_regional_variant_is_the_language_of_the_data_unless_that_is_a_variant_too():
    portuguese = {"src_lang": "en", "tgt_lang": "pt"}
    assert config(DE_EN, {"tmx": "b.tmx", "tgt_lang": "pt-BR"}, **portuguese).data.directions == (("en", "pt"),)
    both = config({"tsv": "a"}, {"tsv": "b", "tgt_lang": "pt-PT"}, **{**portuguese, "tgt_lang": "pt-BR"})
    assert both.data.directions == (("en", "pt-BR"), ("en", "pt-PT"))
    assert tags_before_sources(both.data) == ["<2pt-BR> ", "<2pt-PT> "]
