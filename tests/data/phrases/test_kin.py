"""Words of a phrase table in place of unknown ones."""

from __future__ import annotations

import pytest

from nmt.config.tokenizer import TokenizerConfig
from nmt.data.phrases.kin import WordsOfKin
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import Tokenizer

KNOWN = ("wandert", "wanderte", "wand", "warten", "2019", "नमस्कार")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [" ".join((*KNOWN, "l'wandern", "ihr, bald", "2018", "नमस्ते", "abc"))] * 20
    return train_tokenizers(TokenizerConfig(type="char", vocab_size=300), lambda: iter(texts), lambda: iter(texts)).src


def akin(tokenizer: Tokenizer, word: str, known: tuple[str, ...] = KNOWN) -> list[str]:
    kin = WordsOfKin([tokenizer.encode(each) for each in known], tokenizer)
    return [known[number] for number, _ in kin.find(tokenizer.encode(word))]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("wandern", ["wandert", "wanderte", "wand"]),
        ("wan", []),
        ("bald", []),
        ("2018", []),
        ("नमस्ते", ["नमस्कार"]),
        ("wandern,", []),
        ("", []),
    ],
)
def test_words_that_begin_alike_are_akin_and_the_nearest_come_first(tokenizer, word, found):
    assert akin(tokenizer, word) == found


def test_a_word_after_an_apostrophe_has_the_kin_of_its_letters(tokenizer):
    kin = WordsOfKin([tokenizer.encode("wandert")], tokenizer)
    word = tokenizer.encode("l'wandern")[-len("wandern") :]
    assert kin.find(word) == kin.find(tokenizer.encode("wandern")) == [(0, pytest.approx(1 / 7))]


def test_pieces_within_a_word_and_several_words_are_no_words_of_kin(tokenizer):
    piece = tokenizer.encode("wandert")[1:]
    several = tokenizer.encode("wander bald")
    assert WordsOfKin([piece, several], tokenizer).find(tokenizer.encode("wandern")) == []


def test_a_word_has_at_most_five_words_of_kin(tokenizer):
    known = tuple("wander" + letter for letter in "abcdehilm")
    assert len(akin(tokenizer, "wandern", known)) == 5
