"""Annotated training pairs: exact shares, words that translate each other, the same in every process."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nmt.base.errors import RunError
from nmt.config import Config, TokenizerConfig
from nmt.data.lexicon import term_annotator
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.read.pairs import SentencePair
from nmt.data.store.redraw import Redraw
from nmt.data.store.report import CorpusCounts
from nmt.data.store.store import TokenStore, build_store
from nmt.data.text.glossary import TERM_SYMBOLS
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import TokenizerPair
from tests.words import WORDS, write_words

TERM = re.compile("⟦term⟧ ?(.*?)⟦as⟧ ?(.*?)⟦/term⟧")


def prepare(folder: Path, pairs: list[SentencePair], **values: object) -> tuple[TokenStore, TokenizerPair]:
    config = TokenizerConfig(vocab_size=400, user_symbols=("<web>", *TERM_SYMBOLS), **values)
    tokenizers = train_tokenizers(config, lambda: (p.src for p in pairs), lambda: (p.tgt for p in pairs))
    return build_store(folder / "store", iter(pairs), tokenizers, CorpusCounts()), tokenizers


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> tuple[TokenStore, TokenizerPair]:
    folder = write_words(tmp_path_factory.mktemp("words"), 600)
    rows = (line.split("\t") for line in (folder / "train.tsv").read_text(encoding="utf-8").splitlines())
    return prepare(folder, [SentencePair(f"<web> {src}", tgt, n) for n, (src, tgt) in enumerate(rows)])


def pool(data, share: float, *, epoch=0, seed=1, start=0, end=600, langs=("de", "en"), max_src_len=200, **tokenizer):
    """The pairs of a pool in which `share` of the pairs have annotated terms."""
    store, tokenizers = data
    augment = tokenizer.pop("augment", {})
    section = {"src_lang": langs[0], "tgt_lang": langs[1], "train": {"tsv": "a.tsv"}, "augment": augment}
    config = Config(
        data={**section, "glossary": {"share": share}},
        tokenizer={"subword_regularization": tokenizer},
        model={"max_src_len": max_src_len, "max_tgt_len": 200},
        training={"seed": seed},
    )
    ranks = np.arange(start, end)
    src, tgt = Redraw(config, store, tokenizers).pool(ranks, ranks, epoch)
    return [(tokenizers.src.decode(src[i]), tokenizers.tgt.decode(tgt[i])) for i in range(end - start)]


def stored(data) -> list[tuple[str, str]]:
    store, tokenizers = data
    return [(tokenizers.src.decode(store.src[i]), tokenizers.tgt.decode(store.tgt[i])) for i in range(len(store))]


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_an_epoch_has_exactly_the_share_of_annotated_pairs(data, share):
    drawn = pool(data, share)
    assert sum("⟦term⟧" in src for src, _ in drawn) == share * 600
    assert all(new == old for new, old in zip(drawn, stored(data), strict=True) if "⟦term⟧" not in new[0])


def test_the_terms_are_words_that_translate_each_other(data, monkeypatch):
    monkeypatch.setattr(term_annotator, "SUBSTITUTE_SHARE", 0.0)
    drawn = pool(data, 1.0)
    sizes = set()
    for (src, tgt), old in zip(drawn, stored(data), strict=True):
        assert (TERM.sub(r"\1", src), tgt) == old  # nothing else has changed
        for source, target in TERM.findall(src):
            assert set(source.split()) <= set(WORDS)
            assert target.split() == [word[::-1] for word in source.split()]
            sizes.add(len(source.split()))
    assert sizes == {1, 2, 3}
    assert {len(TERM.findall(src)) for src, _ in drawn} == {1, 2, 3}


def test_the_target_has_the_words_that_the_annotation_names(data):
    replaced = 0
    for (src, tgt), (_, old) in zip(pool(data, 1.0), stored(data), strict=True):
        terms = TERM.findall(src)
        at = [tgt.find(target) for _, target in terms]
        assert min(at) >= 0
        replaced += tgt != old
    assert 240 < replaced < 360  # half of them, by SUBSTITUTE_SHARE


def test_the_limits_of_terms_and_words_hold(data, monkeypatch):
    monkeypatch.setattr(term_annotator, "MAX_TERMS", 1)
    monkeypatch.setattr(term_annotator, "MAX_WORDS", 1)
    drawn = pool(data, 1.0)
    assert {len(TERM.findall(src)) for src, _ in drawn} == {1}
    assert {len(source.split()) for src, _ in drawn for source, _ in TERM.findall(src)} == {1}


def test_each_epoch_draws_anew_and_no_pool_depends_on_those_before(data):
    first, second = pool(data, 0.5), pool(data, 0.5, epoch=1)
    assert first != second
    assert pool(data, 0.5, epoch=1, start=200, end=300)[:99] == second[200:299]  # the last one has another partner
    assert pool(data, 0.5, seed=2) != first


def test_segmentations_are_drawn_of_annotated_pairs_too(data):
    drawn = pool(data, 1.0, per_epoch=True, alpha=0.3)
    assert drawn == pool(data, 1.0)


def test_an_annotated_pair_that_would_be_too_long_stays_as_it_is_stored(data):
    longest = 1 + max(len(data[0].src[i]) for i in range(600))
    drawn = pool(data, 1.0, max_src_len=longest)
    kept = [new == old for new, old in zip(drawn, stored(data), strict=True)]
    assert 0 < sum(kept) < 600


def test_augmented_and_annotated_pairs_share_an_epoch(data):
    drawn = pool(data, 0.25, augment={"upper": 0.5})
    assert sum("⟦term⟧" in src for src, _ in drawn) == 150
    assert sum(tgt.isupper() for _, tgt in drawn) == 300


def test_tokens_are_the_words_of_a_language_without_spaces(tmp_path, monkeypatch):
    words = {"cat": "猫", "dog": "狗", "moon": "月亮", "sun": "太阳", "sees": "看见", "hears": "听见"}
    pairs = [
        SentencePair(f"the {a} {v} the {b}.", f"{words[a]}{words[v]}{words[b]}。", n)
        for n, (a, v, b) in enumerate(
            (a, v, b) for a in list(words)[:4] for v in ("sees", "hears") for b in list(words)[:4] for _ in range(4)
        )
    ]
    data = prepare(tmp_path, pairs)
    monkeypatch.setattr(term_annotator, "SUBSTITUTE_SHARE", 0.0)
    terms = [term for src, _ in pool(data, 1.0, langs=("en", "zh"), end=len(pairs)) for term in TERM.findall(src)]
    right = [target == "".join(words.get(word, "") for word in source.split()) for source, target in terms]
    assert len(terms) > 100
    assert np.mean(right) > 0.5  # the alignment of so small a corpus errs


def test_the_lexicon_is_kept_beside_the_store_and_damage_is_told(data):
    store, tokenizers = data
    path = store.folder.parent / f"{store.folder.name}.lexicon-1.safetensors"
    learned, kept = TermLexicon.of_store(store, tokenizers, keep=True), TermLexicon.of_store(store, tokenizers)
    try:
        assert (kept.keys == learned.keys).all()
        assert (kept.similarities == learned.similarities).all()
        path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(RunError, match=r"lexicon-1\.safetensors: this is not a lexicon, or it is damaged"):
            TermLexicon.of_store(store, tokenizers)
    finally:
        path.unlink()
