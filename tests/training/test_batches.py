"""Pairs that are drawn anew: every rank takes its rows of the same updates, and a resumed run goes on with the same."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest
import torch

from nmt.artifacts.rundir import RunDir
from nmt.base.special_tokens import EOS_ID
from nmt.data.store.batching import read_batch
from nmt.data.store.redraw import Redraw
from nmt.data.store.report import CorpusCounts
from nmt.data.store.store import build_store
from nmt.training import loop
from nmt.training.batches import UpdateBatches
from nmt.training.corpus.corpus_files import Corpus
from nmt.training.corpus.prepare import train_on_corpus
from nmt.training.run import resume_run, start_run
from nmt.training.update.distributed import ProcessGroup
from tests.tiny import tiny_config

DRAWN = {
    "tokenizer": {
        "type": "unigram",
        "vocab_size": 330,
        "subword_regularization": {"per_epoch": True},
    },
    "data": {"augment": {"noise": 0.1, "merge": 0.1, "emoji": 0.1, "no_final_punctuation": 0.1}},
}


@pytest.fixture(scope="module")
def batches(digits, tmp_path_factory):
    """Return what gives the batches of a rank; each has a store of its own, as processes do."""
    base = tiny_config(digits, **DRAWN)
    config = base.model_copy(update={"training": base.training.model_copy(update={"tokens_per_update": 900})})
    corpus = Corpus(config)
    tokenizers = train_on_corpus(config, corpus)
    folder = tmp_path_factory.mktemp("batches")

    def make(rank: int = 0, world_size: int = 1) -> UpdateBatches:
        path = folder / str(len(list(folder.iterdir())))
        store = build_store(path, corpus.train_pairs(), tokenizers, CorpusCounts())
        redraw = Redraw.from_config(config, store, tokenizers)
        return UpdateBatches(store, config, ProcessGroup(rank, world_size), redraw)

    return make


def test_two_ranks_share_the_rows_of_the_updates_of_one(batches):
    one, two = batches(), [batches(rank, 2) for rank in (0, 1)]
    for _ in range(3):
        whole, shares = one.next_update(), [each.next_update() for each in two]
        assert [share.num_tokens for share in shares] == [whole.num_tokens] * 2
        for number, batch in enumerate(whole.batches):
            parts = [share.batches[number] for share in shares]
            assert batch.num_tgt_tokens == sum(part.num_tgt_tokens for part in parts)
            for rank, part in enumerate(parts):
                width = part.src.size(1)
                assert torch.equal(batch.src[rank::2, :width], part.src)


def test_the_tokens_of_an_update_are_those_of_its_batches_and_within_the_budget(batches):
    one = batches()
    for _ in range(10):
        update = one.next_update()
        assert update.num_tokens == sum(batch.num_tgt_tokens for batch in update.batches)
        assert all(max(b.src.numel(), b.tgt_out.numel()) <= one.batch_tokens for b in update.batches)
    assert one.longest() == (32, 32)


def test_a_batch_holds_the_pairs_as_they_were_drawn(batches):
    one = batches()
    redraw, ranks = one.sampler.redraw, np.arange(len(one.store))
    pool = redraw.pool(one.sampler.order.indices(ranks, 0), ranks, 0)
    indices = one.sampler.next_indices()
    batch = read_batch(one.store, indices)
    assert len(indices.indices) > 10
    for number, row in enumerate(indices.indices):
        expected = [*pool.tgt[row].tolist(), EOS_ID]
        assert batch.tgt_out[number, : len(expected)].tolist() == expected
        assert batch.src[number, : len(pool.src[row])].tolist() == pool.src[row].tolist()


def test_batches_go_on_from_any_position(batches):
    whole, resumed = batches(), batches()
    while whole.sampler.position.epoch == 0:
        whole.next_update()
    resumed.sampler.seek(whole.sampler.position)
    for _ in range(10):
        for one, two in zip(whole.next_update().batches, resumed.next_update().batches, strict=True):
            assert all(map(torch.equal, one, two))


def test_a_resumed_run_with_drawn_pairs_equals_the_uninterrupted_one(digits, tmp_path, monkeypatch):
    config = tiny_config(digits, **DRAWN, training={"max_updates": 6, "average_checkpoints": 0})
    assert start_run(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        train_one = loop._train_one_update

        def train_and_interrupt(training):
            train_one(training)
            if training.update == 3:
                signal.raise_signal(signal.SIGTERM)

        patch.setattr(loop, "_train_one_update", train_and_interrupt)
        assert not start_run(config, tmp_path / "stopped")
    assert resume_run(None, tmp_path / "stopped")
    whole, stopped = (RunDir(tmp_path / name).checkpoint("step-00000006") for name in ("whole", "stopped"))
    assert whole.read_bytes() == stopped.read_bytes()
    (info,) = (tmp_path / ".store").glob("*/store.json")
    assert json.loads(info.read_text())["num_pairs"] == 600  # no drawn segmentation is stored
