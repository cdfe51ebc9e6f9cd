"""IBM model 1 finds the dictionary behind a corpus, whatever the blocks, in bounded memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nmt.base.errors import RunError
from nmt.config import TokenizerConfig
from nmt.data.lexicon import model1
from nmt.data.lexicon.model1 import Lexicon, learn_lexicon
from nmt.data.read.pairs import SentencePair
from nmt.data.store.report import CorpusCounts
from nmt.data.store.store import TokenStore, build_store
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import TokenizerPair

DICTIONARY = dict(zip("abcdefghijklm", "nopqrstuvwxyz", strict=True))


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    config = TokenizerConfig(type="char", vocab_size=290, joint=False)
    return train_tokenizers(config, lambda: list(DICTIONARY), lambda: list(DICTIONARY.values()))


@pytest.fixture
def store(tmp_path, tokenizers) -> TokenStore:
    draw = random.Random(1)
    sources = ["".join(draw.choices([*DICTIONARY], k=draw.randint(1, 6))) for _ in range(300)]
    # The target is in another order, so positions tell nothing.
    pairs = [SentencePair(s, "".join(DICTIONARY[c] for c in reversed(s)), n) for n, s in enumerate(sources, 1)]
    return build_store(tmp_path / "store", iter(pairs), tokenizers, CorpusCounts())


def best(found: Lexicon, tokenizers: TokenizerPair, letter: str) -> str:
    source = tokenizers.src.id_of(letter)
    entries = found.src == source
    return tokenizers.tgt.tokens([int(found.tgt[entries][found.links[entries].argmax()])])[0]


def test_each_letter_is_linked_to_its_translation(store, tokenizers):
    found = learn_lexicon(store)
    assert {letter: best(found, tokenizers, letter) for letter in DICTIONARY} == DICTIONARY
    assert (np.diff(found.src) >= 0).all()


def test_a_repeated_token_links_to_its_own_place_only_with_tension(tmp_path, tokenizers):
    """In text of two tokens that always come together, only their order tells which translates which."""
    store = build_store(
        tmp_path / "two", iter([SentencePair("ab", "no", n) for n in range(20)]), tokenizers, CorpusCounts()
    )
    plain, near = learn_lexicon(store), learn_lexicon(store, tension=4.0)
    names = (tokenizers.src.tokens(plain.src.tolist()), tokenizers.tgt.tokens(plain.tgt.tolist()))
    links = dict(zip(zip(*names, strict=True), zip(plain.links, near.links, strict=True), strict=True))
    assert links["a", "n"][0] == pytest.approx(links["a", "o"][0])
    assert links["a", "n"][1] > 2 * links["a", "o"][1]
    assert links["b", "o"][1] > 2 * links["b", "n"][1]


def test_blocks_and_the_way_of_looking_up_change_nothing_but_rounding(store, monkeypatch):
    expected = learn_lexicon(store)
    monkeypatch.setattr(model1, "MAX_LINKS", 60)  # a few sentences in a block
    monkeypatch.setattr(model1, "MAX_CELLS", 0)
    found = learn_lexicon(store)
    assert (found.src == expected.src).all()
    assert (found.tgt == expected.tgt).all()
    np.testing.assert_allclose(found.links, expected.links, rtol=1e-9, atol=1e-12)


def test_a_table_that_is_full_loses_rare_pairs_alone(store, tokenizers, monkeypatch):
    monkeypatch.setattr(model1, "MAX_ENTRIES", 120)
    found = learn_lexicon(store)
    assert len(found.src) <= 120
    assert {letter: best(found, tokenizers, letter) for letter in DICTIONARY} == DICTIONARY


def test_of_a_large_corpus_every_nth_pair_is_read(store, tokenizers):
    found = learn_lexicon(store, max_pairs=100)
    assert {letter: best(found, tokenizers, letter) for letter in DICTIONARY} == DICTIONARY
    assert found.links.sum() < learn_lexicon(store).links.sum() / 2


def test_sentence_pairs_with_too_many_links_are_left_out(store, monkeypatch):
    monkeypatch.setattr(model1, "MAX_LINKS", 0)
    assert len(learn_lexicon(store).src) == 0


def test_a_damaged_store_is_refused(store, tmp_path):
    tokens = tmp_path / "store" / "src.tokens"
    tokens.write_bytes(b"\xff" * tokens.stat().st_size)
    with pytest.raises(RunError, match=r"the tokenized corpus is damaged \(token 65535"):
        learn_lexicon(TokenStore(tmp_path / "store"))
