"""Words are aligned by the lexicon of the corpus, however they are segmented, and in either direction."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nmt.base.languages import Direction
from nmt.config import TokenizerConfig
from nmt.data.lexicon.aligner import TENSION, Aligner
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.read.pairs import SentencePair
from nmt.data.store.report import CorpusCounts
from nmt.data.store.store import build_store
from nmt.data.tokens.sentencepiece_training import train_tokenizers

WORDS = {"anton": "vesta", "berta": "wanda", "cesar": "xaver", "dora": "ypsi", "emil": "zeppe", "frida": "quart"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An aligner of a corpus that translates word by word, its tokenizers and its store."""
    folder = tmp_path_factory.mktemp("alignment")
    draw = random.Random(1)
    sources = [draw.sample([*WORDS], k=draw.randint(1, 5)) for _ in range(400)]
    pairs = [SentencePair(" ".join(s), " ".join(WORDS[w] for w in s), n) for n, s in enumerate(sources, 1)]
    config = TokenizerConfig(type="unigram", vocab_size=290, joint=True)
    tokenizers = train_tokenizers(config, lambda: [pair.src for pair in pairs], lambda: [pair.tgt for pair in pairs])
    store = build_store(folder / "store", iter(pairs), tokenizers, CorpusCounts())
    lexicon = TermLexicon.learn(store, TENSION)
    return Aligner(lexicon, tokenizers, Direction("de", "en")), tokenizers, store


def linked(made, source, target, *, swapped: bool = False) -> np.ndarray:
    """Return which tokens [T, S] of a target and of a source are linked."""
    aligner, _, _ = made
    links = np.zeros((len(target), len(source)), bool)
    for src, tgt in aligner.links(source, target, swapped=swapped):
        links[tgt, src] = True
    return links


def test_all_tokens_of_a_word_are_linked_to_those_of_its_translation_and_nothing_else_is(made):
    _, tokenizers, _ = made
    src, tgt = tokenizers.src.encode("dora emil anton"), tokenizers.tgt.encode("ypsi zeppe vesta")
    tokens = [tokenizers.src.tokens(src), tokenizers.tgt.tokens(tgt)]
    words = [np.cumsum([token.startswith("▁") for token in side]) for side in tokens]
    assert (linked(made, src, tgt) == (words[1][:, None] == words[0][None, :])).all()
    assert not linked(made, src, []).any()


def test_swapped_pairs_have_the_links_of_the_others_the_other_way_round(made):
    _, tokenizers, _ = made
    src, tgt = tokenizers.src.encode("dora emil anton"), tokenizers.tgt.encode("ypsi zeppe vesta")
    one = linked(made, src, tgt)
    assert one.any()
    assert (one == linked(made, tgt, src, swapped=True).T).all()


def test_a_word_that_occurs_twice_is_linked_to_the_nearer_translation(made):
    _, tokenizers, _ = made
    links = linked(made, tokenizers.src.encode("dora emil dora"), tokenizers.tgt.encode("ypsi zeppe ypsi"))
    assert links[0, 0]
    assert links[-1, -1]
    assert not links[0, -1]
    assert not links[-1, 0]


def test_a_word_in_another_segmentation_than_that_of_the_store_is_still_one_word(made):
    _, tokenizers, _ = made
    tokens = tokenizers.src.vocabulary
    letters = [tokens.index(letter) for letter in ("▁", *"dora")]
    tgt = tokenizers.tgt.encode("ypsi zeppe")
    links = linked(made, letters + tokenizers.src.encode("emil"), tgt)
    second = [token.startswith("▁") for token in tokenizers.tgt.tokens(tgt)].index(True, 1)
    assert links[second:, len(letters) :].any()
    assert not links[second:, : len(letters)].any()
    assert links[:, : len(letters)].any(0).tolist() in ([True] * len(letters), [False] * len(letters))
