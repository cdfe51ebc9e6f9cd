"""The tokens of sources and targets as a phrase table reads them."""

from __future__ import annotations

from nmt.config.tokenizer import TokenizerConfig
from nmt.data.phrases.words import stem_of
from nmt.data.tokens.sentencepiece_training import train_tokenizers


def test_forms_of_a_word_have_one_stem_and_short_words_their_own():
    texts = ["Wandern wandert wanderte wand war 北京"] * 20
    config = TokenizerConfig(type="word", vocab_size=12)
    tokenizer = train_tokenizers(config, lambda: iter(texts), lambda: iter(texts)).src
    wander, *forms, wand, war, city = stem_of(tokenizer)[tokenizer.encode(texts[0])].tolist()
    assert forms == [wander] * 2
    assert wand == wander
    assert len({wander, war, city}) == 3


def test_special_tokens_are_no_stems_of_one_another():
    config = TokenizerConfig(vocab_size=300)
    tokenizer = train_tokenizers(config, lambda: iter(["ab"] * 20), lambda: iter(["ab"] * 20)).src
    assert stem_of(tokenizer)[:4].tolist() == [0, 1, 2, 3]
