"""Several corpora make directions, and tags before their sources."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from nmt.base.languages import Direction
from nmt.config import Config
from nmt.config.tokenizer import TokenizerConfig
from nmt.data.text.tags import (
    corpus_tags,
    language_prefix,
    output_tags,
    tags_before_sources,
    tags_before_targets,
    target_prefix,
    user_symbols,
)
from nmt.data.tokens.sentencepiece_training import train_tokenizers


def config(*train, valid=None, **data):
    values = {"src_lang": "de", "tgt_lang": "en", "train": list(train), "valid": valid, **data}
    return Config.model_validate({"data": values, "tokenizer": {"user_symbols": ["<x>"]}})


DE_EN, EN_DE = {"tsv": "a.tsv"}, {"tsv": "b.tsv", "src_lang": "en", "tgt_lang": "de"}


def test_corpora_of_one_language_pair_are_one_direction_without_tags():
    one = config(DE_EN, {"tsv": "c.tsv"})
    assert one.data.directions == (Direction("de", "en"),)
    assert tags_before_sources(one) == ["", ""]
    assert user_symbols(one) == ("<x>",)


def test_several_target_languages_give_every_source_the_tag_of_its_target():
    both = config(DE_EN, EN_DE, {**DE_EN, "tag": "<web>"})
    assert both.data.directions == (Direction("de", "en"), Direction("en", "de"))
    assert tags_before_sources(both) == ["<2en> ", "<2de> ", "<2en> <web> "]
    assert user_symbols(both) == ("<x>", "<2en>", "<2de>", "<web>")
    assert language_prefix(both, Direction("fr", "de")) == "<2de> "


def test_several_source_languages_alone_need_no_tags():
    many_to_one = config(DE_EN, {"tsv": "b.tsv", "src_lang": "fr"})
    assert many_to_one.data.directions == (Direction("de", "en"), Direction("fr", "en"))
    assert tags_before_sources(many_to_one) == ["", ""]
    assert language_prefix(many_to_one, Direction("fr", "en")) == ""


def test_the_tag_of_a_validation_corpus_is_its_own_without_that_of_the_language():
    both = config(DE_EN, EN_DE, valid=[{**EN_DE, "tag": "<web>"}, DE_EN])
    assert corpus_tags(both.data) == ("<web>",)


@pytest.mark.parametrize("stranger", [{"tsv": "v.tsv", "tgt_lang": "fr"}, {"tsv": "v.tsv", "src_lang": "fr"}])
def test_a_validation_corpus_in_a_language_that_is_not_trained_is_refused(stranger):
    with pytest.raises(ValidationError, match="the corpora of train contain de, en, and translate into en, de"):
        config(DE_EN, EN_DE, valid=stranger)


def test_weights_and_a_temperature_exclude_each_other():
    with pytest.raises(ValidationError, match="weights and temperature is not 1; use only one of them"):
        config({**DE_EN, "weight": 1}, {**EN_DE, "weight": 2}, temperature=5)


def test_a_regional_variant_is_the_language_of_the_data_unless_that_is_a_variant_too():
    portuguese = {"src_lang": "en", "tgt_lang": "pt"}
    assert config(DE_EN, {"tmx": "b.tmx", "tgt_lang": "pt-BR"}, **portuguese).data.directions == (("en", "pt"),)
    both = config({"tsv": "a"}, {"tsv": "b", "tgt_lang": "pt-PT"}, **{**portuguese, "tgt_lang": "pt-BR"})
    assert both.data.directions == (("en", "pt-BR"), ("en", "pt-PT"))
    assert tags_before_sources(both) == ["<2pt-BR> ", "<2pt-PT> "]


def test_with_tags_on_both_sides_each_side_begins_with_that_of_its_own_language():
    values = {"src_lang": "de", "tgt_lang": "en", "train": {**DE_EN, "tag": "<web>"}}
    one = Config.model_validate({"data": values, "model": {"language_tags": "both"}})
    assert tags_before_sources(one) == ["<2de> <web> "]
    assert tags_before_targets(one) == ["<2en> "]
    assert user_symbols(one) == ("<2de>", "<2en>", "<web>")
    assert language_prefix(one, Direction("en", "de")) == "<2en> "
    assert target_prefix(one, Direction("en", "de")) == "<2de> "
    assert tags_before_targets(config(DE_EN, EN_DE)) == ["", ""]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_a_target_begins_with_the_tokens_that_an_output_is_made_to_begin_with(kind):
    settings = TokenizerConfig(type=kind, vocab_size=300, user_symbols=("<2de>", "<2en>", "<x>"))
    texts = ["a house", "the houses", "a tree"] * 5
    tokenizer = train_tokenizers(settings, lambda: iter(texts), lambda: iter(texts)).tgt
    tags = output_tags(tokenizer, "both")
    assert list(tags.ids) == ["de", "en"]
    assert tokenizer.encode("<2en> the tree") == [*tags.ids["en"], *tokenizer.encode("the tree")]
    assert tokenizer.tokens(tags.never_generated) == ["<2de>", "<2en>"]
    assert tags.length == len(tags.ids["de"])
    assert not output_tags(tokenizer, "source").never_generated
