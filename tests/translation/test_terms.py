"""The target of a glossary term takes the place of the tokens that another translation of it has."""

from __future__ import annotations

import pytest

from nmt.config import TokenizerConfig
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import Tokenizer
from nmt.translation.terms import with_target

TEXTS = ["我是中国人。", "他 是 好人。", "the cat sleeps", "The dog is a cat", "国中人是我好"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TokenizerConfig(type="char", vocab_size=300)
    return train_tokenizers(config, lambda: iter(TEXTS * 20), lambda: iter(TEXTS * 20)).src


def replaced(tokenizer: Tokenizer, text: str, old: str, new: str) -> str:
    ids = tokenizer.encode(text)
    spelled = tokenizer.tokens(ids)
    start = "".join(spelled).index(old.replace(" ", "▁"))
    return tokenizer.decode(with_target(tokenizer, ids, range(start, start + len(old)), new))


def test_a_term_without_a_space_before_it_gets_none(tokenizer):
    assert replaced(tokenizer, "我是中国人。", "中国", "好") == "我是好人。"


def test_a_term_behind_a_space_keeps_it(tokenizer):
    assert replaced(tokenizer, "the cat sleeps", " cat", "dog") == "the dog sleeps"
