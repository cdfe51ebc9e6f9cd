"""The tokens of sources and targets as a phrase table reads them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nmt.config.tokenizer import TokenizerConfig
from nmt.data.phrases.words import SourceFolder, stems_of
from nmt.data.tokens.sentencepiece_training import train_tokenizers


def test_forms_of_a_word_have_one_stem_and_short_words_their_own():
    texts = ["Wandern wandert wanderte wand war 北京"] * 20
    config = TokenizerConfig(type="word", vocab_size=12)
    tokenizer = train_tokenizers(config, lambda: iter(texts), lambda: iter(texts)).src
    ((wander, *forms, wand, war, city),) = stems_of(tokenizer, [tokenizer.encode(texts[0])], words=False).numbers
    assert forms == [wander] * 2
    assert wand == wander
    assert len({wander, war, city}) == 3


def test_special_tokens_are_no_stems_of_one_another():
    config = TokenizerConfig(vocab_size=300)
    tokenizer = train_tokenizers(config, lambda: iter(["ab"] * 20), lambda: iter(["ab"] * 20)).src
    assert stems_of(tokenizer, [[0, 1, 2, 3]], words=False).size == 4


def test_words_have_the_stem_of_their_letters_however_they_are_segmented():
    texts = ["Wandern wandert, war"] * 20
    config = TokenizerConfig(type="char", vocab_size=300)
    tokenizer = train_tokenizers(config, lambda: iter(texts), lambda: iter(texts)).src
    tokens = tokenizer.encode(texts[0])
    words = stems_of(tokenizer, [tokens, tokens[:8], []], words=True)
    wander, same, comma, war = words.numbers[0]
    assert wander == same
    assert len({wander, comma, war}) == words.size == 3
    assert words.numbers[1:] == [[wander], []]
    spelled = [tokenizer.decode(tokens[start:end]) for start, end in pairwise(words.ends[0])]
    assert spelled == ["Wandern", "wandert", ",", "war"]
    assert words.ends[2] == [0]


@pytest.mark.parametrize("text", ["我在北京", "ฉันรัก", "わたし"])
def test_tokens_without_spaces_are_words_even_in_a_vocabulary_shared_with_a_language_that_has_spaces(text):
    english = ["The quick brown fox jumps over a lazy dog"] * 20
    config = TokenizerConfig(type="char", vocab_size=400)
    tokenizers = train_tokenizers(config, lambda: iter([text] * 20), lambda: iter(english))
    source = tokenizers.src.encode(f"{text}fox")
    words = SourceFolder(tokenizers).fold(source).words
    spelled = [tokenizers.tgt.decode(list(word.copy)) for word in words]
    assert list(filter(None, spelled)) == [*text, "fox"]
    (stems,) = stems_of(tokenizers.src, [source], words=True).numbers
    assert len(stems) == len(words)
