"""Real corpora as people download them. Skipped where they are not at hand."""

from __future__ import annotations

from itertools import islice

import pytest

from nmt.config import ParallelFiles, TokenizerConfig
from nmt.data.read.pairs import read_parallel
from nmt.data.tokens.sentencepiece_training import train_tokenizers


def test_the_anki_export_is_read_without_its_attribution(shared_data):
    rows = list(read_parallel(ParallelFiles(tsv=str(shared_data / "tatoeba-en-zh" / "train.tsv"))))
    assert len(rows) == 27_493
    assert rows[0][:2] == ("Hi.", "嗨。")
    assert not any("CC-BY" in row.tgt for row in rows)


def test_two_aligned_files_are_read_in_step(shared_data):
    folder = shared_data / "multi30k-de-en"
    rows = list(read_parallel(ParallelFiles(src=str(folder / "valid.de"), tgt=str(folder / "valid.en"))))
    assert len(rows) == 1_014
    assert rows[1].tgt == "A man sleeping in a green room on a couch."


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_real_mandarin_survives_its_tokenizer(shared_data, kind):
    rows = list(islice(read_parallel(ParallelFiles(tsv=str(shared_data / "tatoeba-en-zh" / "valid.tsv"))), 500))
    config = TokenizerConfig(type=kind, vocab_size=2000, joint=False, character_coverage=0.9995)
    pair = train_tokenizers(config, lambda: [r.src for r in rows], lambda: [r.tgt for r in rows])
    for row in rows:
        assert pair.src.decode(pair.src.encode(row.src)) == row.src
        assert pair.tgt.decode(pair.tgt.encode(row.tgt)) == row.tgt
