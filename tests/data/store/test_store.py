"""The tokenized corpus on disk gives back what was put in, and is never half there."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nmt.base.errors import RunError
from nmt.config import TokenizerConfig
from nmt.data.read.pairs import SentencePair
from nmt.data.store.batching import BatchIndices, read_batch
from nmt.data.store.report import CorpusCounts
from nmt.data.store.store import TokenStore, build_store
from nmt.data.tokens.sentencepiece_training import train_tokenizers

PAIRS = [SentencePair(f"{n} sheep", f"{n} 只羊", n) for n in range(1, 60)]


@pytest.fixture(scope="module")
def tokenizers():
    config = TokenizerConfig(type="char", vocab_size=320, joint=False)
    return train_tokenizers(config, lambda: [p.src for p in PAIRS], lambda: [p.tgt for p in PAIRS])


def test_a_store_gives_back_the_tokens_of_every_pair(tmp_path, tokenizers):
    build_store(tmp_path / "store", iter(PAIRS), tokenizers, CorpusCounts())
    store = TokenStore(tmp_path / "store")
    assert len(store) == len(PAIRS)
    for index, pair in enumerate(PAIRS):
        assert store.src[index].tolist() == tokenizers.src.encode(pair.src)
        assert store.tgt[index].tolist() == tokenizers.tgt.encode(pair.tgt)
    indices = np.array([5, 0, 58])
    assert store.src.lengths(indices).tolist() == [len(tokenizers.src.encode(PAIRS[i].src)) for i in indices]


def test_the_size_of_a_block_does_not_show(tmp_path, tokenizers, monkeypatch):
    build_store(tmp_path / "whole", iter(PAIRS), tokenizers, CorpusCounts())
    monkeypatch.setattr("nmt.data.store.store.BLOCK_PAIRS", 7)
    build_store(tmp_path / "blocks", iter(PAIRS), tokenizers, CorpusCounts())
    for name in ("src.tokens", "src.offsets", "tgt.tokens", "tgt.offsets"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "blocks" / name).read_bytes()


def test_a_fault_while_building_leaves_nothing(tmp_path, tokenizers):
    def broken():
        yield PAIRS[0]
        raise ValueError("the disk is on fire")

    with pytest.raises(ValueError, match="fire"):
        build_store(tmp_path / "store", broken(), tokenizers, CorpusCounts())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["src.tokens", "tgt.offsets", "store.json"])
def test_a_damaged_store_is_refused_by_name(tmp_path, tokenizers, name):
    build_store(tmp_path / "store", iter(PAIRS), tokenizers, CorpusCounts())
    path = tmp_path / "store" / name
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(RunError, match="delete the folder; nmt will rebuild it"):
        TokenStore(tmp_path / "store")


def test_each_corpus_lies_in_one_piece_whose_size_is_known(tmp_path, tokenizers, monkeypatch):
    monkeypatch.setattr("nmt.data.store.store.BLOCK_PAIRS", 7)
    corpora = [pair._replace(corpus=(pair.line > 10) + 2 * (pair.line > 40)) for pair in PAIRS]  # none of number 2
    build_store(tmp_path / "store", iter(corpora), tokenizers, CorpusCounts())
    store = TokenStore(tmp_path / "store")
    assert store.sizes(4) == (10, 30, 0, 19)
    first = [tokenizers.src.decode(store.src[index].tolist()) for index in range(store.sizes(4)[0])]
    assert first == [pair.src for pair in PAIRS[:10]]


def test_a_store_of_one_corpus_says_nothing_of_corpora_and_an_older_one_is_read(tmp_path, tokenizers):
    build_store(tmp_path / "store", iter(PAIRS), tokenizers, CorpusCounts())
    path = tmp_path / "store" / "store.json"
    values = json.loads(path.read_text())
    assert values.pop("corpora") == []
    path.write_text(json.dumps(values))
    assert TokenStore(tmp_path / "store").sizes(2) == (59, 0)


def test_a_token_that_is_not_in_the_vocabulary_is_noticed_when_it_is_read(tmp_path, tokenizers):
    path = build_store(tmp_path / "store", iter(PAIRS), tokenizers, CorpusCounts()).folder / "tgt.tokens"
    data = bytearray(path.read_bytes())
    data[1] ^= 0x80  # the high byte of the first token
    path.write_bytes(data)
    store, nines = TokenStore(tmp_path / "store"), np.array([9])
    rows = BatchIndices((store.src, store.tgt), np.array([0]), nines, nines, np.array([False]))
    with pytest.raises(RunError, match=r"damaged \(token \d+, of a vocabulary of \d+\)"):
        read_batch(rows)


INFO = (
    b"", b"[]", b"7", b"\xff", b"[" * 100_000, b"{}", b'{"num_pairs": 59}', b"null", b" " * 2_000_000,
)  # fmt: skip
ODD = {
    "num_pairs": (-1, "x", 58, None),
    "dtype": ("object", "int8", 3),
    "src_vocab_size": (0, "x"),
    "counts": (3, None),
    "corpora": (3, [-1, 60], [20, 20], ["x"]),
}


def refused(folder):
    with pytest.raises(RunError, match=r"store: the tokenized corpus is damaged \(.*\)\n  delete the folder; nmt will"):
        TokenStore(folder)


@pytest.mark.parametrize("content", INFO, ids=lambda content: str(content[:9]))
def test_a_store_json_that_is_none_is_refused(tmp_path, tokenizers, content):
    build_store(tmp_path / "store", iter(PAIRS), tokenizers, CorpusCounts())
    (tmp_path / "store" / "store.json").write_bytes(content)
    refused(tmp_path / "store")


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in ODD.items() for value in values])
def test_a_store_json_with_an_odd_value_is_refused(tmp_path, tokenizers, key, value):
    build_store(tmp_path / "store", iter(PAIRS), tokenizers, CorpusCounts())
    path = tmp_path / "store" / "store.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    refused(tmp_path / "store")


@pytest.mark.parametrize("bit", [0, 13, 40, 62, 63])
@pytest.mark.parametrize("index", [0, 5, 59])
def test_a_flipped_bit_in_the_offsets_is_noticed_or_moves_a_border_by_little(tmp_path, tokenizers, index, bit):
    folder = build_store(tmp_path / "store", iter(PAIRS), tokenizers, CorpusCounts()).folder
    offsets = np.fromfile(folder / "src.offsets", dtype=np.int64)
    offsets.view(np.uint64)[index] ^= np.uint64(1 << bit)
    offsets.tofile(folder / "src.offsets")
    if bit == 0 and index == 5:  # one token more or less in two sentences: the lengths still fit together
        assert len(TokenStore(folder)) == len(PAIRS)
    else:
        refused(folder)
