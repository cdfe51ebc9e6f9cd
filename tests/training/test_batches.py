"""Batches hold every pair once an epoch, within the budget, and their order can be taken up anywhere.

Of pairs that are drawn anew, every rank takes its rows of the same updates, and a resumed run goes on with the same.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import numpy as np
import pytest
import torch

from nmt.artifacts.rundir import RunDir
from nmt.base.device import Precision
from nmt.base.errors import ConfigError
from nmt.base.special_tokens import EOS_ID, PAD_ID
from nmt.data.store.batching import collate, read_batch
from nmt.data.store.mixing import ShuffledOrder, order_of, quotas
from nmt.data.store.redraw import Redraw
from nmt.data.store.report import CorpusCounts
from nmt.data.store.store import TokenStore, build_store
from nmt.training import batches as batches_module
from nmt.training.batches import DataPosition, UpdateBatches, refuse_beyond_epoch
from nmt.training.corpus.corpus import Corpus
from nmt.training.corpus.prepare import find_store_root, prepare, train_on_corpus
from nmt.training.environment import Setup
from nmt.training.parts import Training
from nmt.training.run import start_run
from nmt.training.update.distributed import ProcessGroup
from tests.data.store.test_mixing import SIZES as MIXED_SIZES
from tests.data.store.test_mixing import WEIGHTS as MIXED_WEIGHTS
from tests.pairs import Pairs, batches_of, some_pairs
from tests.resumption import stop_and_resume
from tests.tiny import small_config, write_digits

DRAWN = {
    "model": {"max_src_len": 32, "max_tgt_len": 32},
    "tokenizer": {"type": "unigram", "vocab_size": 330},
    "data": {"augment": {"noise": 0.2, "upper": 0.1, "title": 0.1}},
}


@pytest.fixture(scope="module")
def more_digits(tmp_path_factory):
    """A corpus with several sentences of each length, so that batches have several rows."""
    return write_digits(tmp_path_factory.mktemp("more"), num_train=600, num_held_out=10)


@pytest.fixture(scope="module")
def batches(more_digits, tmp_path_factory):
    """Return what gives the batches of a rank; each has a store of its own, as processes do."""
    config = small_config(more_digits, **DRAWN, training={"tokens_per_update": 900})
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
                assert torch.equal(batch.tgt_in[rank::2, : part.tgt_in.size(1)], part.tgt_in)


def test_the_tokens_of_an_update_are_those_of_its_batches_and_within_the_budget(batches):
    one = batches()
    for _ in range(10):
        update = one.next_update()
        assert update.num_tokens == sum(batch.num_tgt_tokens for batch in update.batches)
        assert all(max(b.src.numel(), b.tgt_out.numel()) <= one.batch_tokens for b in update.batches)
    assert one.longest() == (32, 32)


def test_a_batch_holds_the_pairs_as_they_were_drawn(batches):
    one = batches()
    redraw, ranks = one.redraw, np.arange(len(one.store))
    src, tgt = redraw.pool(one.order.indices(ranks, 0), ranks, 0)
    indices = one.next_indices()
    batch = read_batch(indices)
    assert len(indices.indices) > 10
    assert batch.src.min() >= 0
    for number, row in enumerate(indices.indices):
        expected = [*tgt[row].tolist(), EOS_ID]
        assert batch.tgt_out[number, : len(expected)].tolist() == expected
        assert batch.src[number, : len(src[row])].tolist() == src[row].tolist()


def test_batches_go_on_from_any_position(batches):
    whole, resumed = batches(), batches()
    while whole.position.epoch == 0:
        whole.next_update()
    resumed.seek(whole.position)
    for _ in range(10):
        for one, two in zip(whole.next_update().batches, resumed.next_update().batches, strict=True):
            assert all(map(torch.equal, one, two))


def test_a_rank_may_have_no_rows_of_a_batch(batches):
    one = batches(0, 10_000)
    (batch, *_) = one.next_update().batches
    assert len(batch.src) == 1
    other = batches(9_999, 10_000).next_update().batches[0]
    assert other.num_tgt_tokens == 0


def test_a_resumed_run_with_drawn_pairs_equals_the_uninterrupted_one(digits, tmp_path):
    sections = {**DRAWN, "data": {**DRAWN["data"], "store_dir": str(tmp_path / ".store")}}
    config = small_config(digits, **sections, training={"max_updates": 6, "average_checkpoints": 0})
    assert start_run(config, tmp_path / "whole")
    stop_and_resume(config, tmp_path / "stopped", 3)
    whole, stopped = (RunDir(tmp_path / name).checkpoint("step-00000006") for name in ("whole", "stopped"))
    assert whole.read_bytes() == stopped.read_bytes()
    (info,) = (tmp_path / ".store").glob("*/store.json")
    assert json.loads(info.read_text())["num_pairs"] == 240  # no drawn segmentation is stored


def test_micro_batches_add_up_to_the_update_of_the_whole(digits, run, tmp_path):
    """One update of two batches has the gradient of their union: the loss is divided by the tokens of both."""
    config = small_config(digits, training={"tokens_per_update": 900})
    prepared = prepare(config, run, tmp_path / ".store")
    setup = Setup(torch.device("cpu"), Precision("fp32", 1e9), ProcessGroup())
    training = Training(run, config, prepared, setup)
    update = training.batches.next_update()
    assert len(update.batches) > 1
    assert update.num_tokens == sum(batch.num_tgt_tokens for batch in update.batches) >= 900
    weight = training.model.output_proj.weight
    losses = []
    for batch in update.batches:
        logits = training.model(batch.src, batch.tgt_in)
        losses.append(
            torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=1, label_smoothing=0.1, reduction="sum"
            )
        )
    expected = torch.autograd.grad(sum(losses) / update.num_tokens, weight)[0]
    seen = {}
    training.optimizer.step = lambda lr, loss: seen.setdefault("grad", weight.grad.clone()).norm()
    training.step(update.batches, update.num_tokens, 1e-3, 0.1)
    assert torch.allclose(seen["grad"], expected, atol=1e-6)


@pytest.mark.parametrize(("size", "refused"), [({"batch_tokens": 512}, True), ({"batch_tokens": "auto"}, False)])
def test_an_update_larger_than_an_epoch_is_refused_before_there_is_a_run(tmp_path, size, refused):
    folder = write_digits(tmp_path / "corpus", num_train=60)
    training = {**size, "tokens_per_update": 10**8, "max_updates": 1, "warmup_updates": 0}
    config = small_config(folder, training=training)
    if not refused:  # one batch per update, of an epoch at most
        assert start_run(config, tmp_path / "run")
        return
    with pytest.raises(ConfigError, match=r"is 100,000,000, but an epoch has only \d+ target tokens"):
        start_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_update_may_have_all_tokens_of_an_epoch_and_no_more(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=60)
    config = small_config(folder)
    start_run(config, tmp_path / "run")
    run = RunDir(tmp_path / "run")
    store = TokenStore(find_store_root(config, run.path) / run.info().data_fingerprint)
    batches = UpdateBatches(store, config, ProcessGroup())
    num_tokens = 0
    while batches.position.epoch == 0:
        rows = batches.next_indices()
        num_tokens += rows.num_tgt_tokens if batches.position.epoch == 0 else 0
    for tokens in (num_tokens, num_tokens + 1):
        training = config.training.model_copy(update={"tokens_per_update": tokens})
        wanted = config.model_copy(update={"training": training})
        if tokens == num_tokens:
            refuse_beyond_epoch(wanted, store)
            continue
        with pytest.raises(ConfigError, match=f"only {num_tokens:,} target tokens"):
            refuse_beyond_epoch(wanted, store)


@pytest.fixture
def pairs():
    return some_pairs()


def epoch_of(batches, number=0):
    found = []
    while True:
        batch = batches.next_indices().indices
        if batches.position.epoch != number:
            return found
        found.append(batch)


@pytest.mark.parametrize("pool", [64, 1 << 16])
def test_an_epoch_holds_every_pair_once(pairs, pool, monkeypatch):
    monkeypatch.setattr(batches_module, "POOL_PAIRS", pool)
    assert sorted(i for batch in epoch_of(batches_of(pairs)) for i in batch.tolist()) == list(range(501))


def test_batches_stay_within_the_budget_and_are_well_filled(pairs):
    batches = epoch_of(batches_of(pairs))
    costs = []
    for indices in batches:
        longest = np.maximum(pairs.src.lengths(indices).clip(max=24), pairs.tgt.lengths(indices).clip(max=30)).max() + 1
        costs.append(len(indices) * longest)
    assert max(costs) <= 200
    assert np.mean(costs) > 150


def test_epochs_differ_and_seeds_differ(pairs):
    first, other_seed = batches_of(pairs), batches_of(pairs, seed=6)
    one, two = epoch_of(first, 0), [first.next_indices().indices for _ in range(3)]
    assert [b.tolist() for b in one[:3]] != [b.tolist() for b in two]
    assert [b.tolist() for b in one] != [b.tolist() for b in epoch_of(other_seed)]


@pytest.mark.parametrize("pool", [64, 1 << 16])
@pytest.mark.parametrize("num_before", [0, 1, 17, 60, 140])
def test_a_sequence_of_batches_goes_on_from_any_position(pairs, pool, num_before, monkeypatch):
    monkeypatch.setattr(batches_module, "POOL_PAIRS", pool)
    whole = batches_of(pairs)
    for _ in range(num_before):
        whole.next_indices()
    resumed = batches_of(pairs)
    resumed.seek(DataPosition(whole.position.epoch, whole.position.pool, whole.position.batch))
    assert [whole.next_indices().indices.tolist() for _ in range(40)] == [
        resumed.next_indices().indices.tolist() for _ in range(40)
    ]


def test_a_batch_read_from_the_store_equals_the_collated_sentences(pairs):
    draw = np.random.default_rng(8)
    for side in (pairs.src, pairs.tgt):
        side.tokens[:] = draw.integers(4, 1000, len(side.tokens))
    one = batches_of(pairs)
    for _ in range(30):
        rows = one.next_indices()
        batch = read_batch(rows)
        sources, targets = ([side[i].tolist() for i in rows.indices] for side in (pairs.src, pairs.tgt))
        for read, collated in zip(batch[:5], collate(sources, targets, 25, 31)[:5], strict=True):
            assert torch.equal(torch.as_tensor(read), torch.as_tensor(collated))


def test_in_both_directions_half_of_the_pairs_are_swapped_in_an_epoch_and_the_others_in_the_next(pairs):
    one, swapped = batches_of(pairs, both_directions=True), ({}, {})
    while one.position.epoch < 2:
        rows = one.next_indices()
        if one.position.epoch < 2:
            swapped[one.position.epoch].update(zip(rows.indices.tolist(), rows.swapped.tolist(), strict=True))
    assert sorted(swapped[0]) == sorted(swapped[1]) == list(range(501))
    assert all(swapped[0][i] != swapped[1][i] for i in range(501))
    assert 200 < sum(swapped[0].values()) < 300
    again = batches_of(pairs, both_directions=True)
    again.seek(DataPosition(1, 0, 2))
    rows = again.next_indices()
    assert rows.swapped.tolist() == [swapped[1][i] for i in rows.indices.tolist()]


def test_a_batch_with_swapped_pairs_equals_the_collated_sentences(pairs):
    draw = np.random.default_rng(8)
    for side in (pairs.src, pairs.tgt):
        side.tokens[:] = draw.integers(4, 1000, len(side.tokens))
    one = batches_of(pairs, both_directions=True)
    for _ in range(30):
        rows = one.next_indices().share(0, 2)
        chosen = zip(rows.indices.tolist(), rows.swapped.tolist(), strict=True)
        both = [(pairs.tgt[i], pairs.src[i]) if swap else (pairs.src[i], pairs.tgt[i]) for i, swap in chosen]
        sources, targets = ([side.tolist() for side in sides] for sides in zip(*both, strict=True))
        found = read_batch(rows)[:5]
        for read, collated in zip(found, collate(sources, targets, 25, 31)[:5], strict=True):
            assert torch.equal(torch.as_tensor(read), torch.as_tensor(collated))


def test_the_shares_of_a_batch_are_its_rows_dealt_out(pairs):
    rows = batches_of(pairs).next_indices()
    shares = [rows.share(rank, 3) for rank in range(3)]
    assert sorted(i for share in shares for i in share.indices.tolist()) == sorted(rows.indices.tolist())
    assert sum(share.num_tgt_tokens for share in shares) == rows.num_tgt_tokens
    assert max(len(share.indices) for share in shares) - min(len(share.indices) for share in shares) <= 1


def test_a_share_without_rows_is_a_batch_that_counts_nothing(pairs):
    rows = batches_of(pairs).next_indices()
    batch = read_batch(rows.share(len(rows.indices), len(rows.indices) + 1))
    assert batch.num_tgt_tokens == 0
    assert batch.src.shape == batch.tgt_in.shape == batch.tgt_out.shape == (1, 1)
    assert (batch.tgt_out == PAD_ID).all()


@pytest.mark.parametrize("both_directions", [False, True])
def test_a_budget_for_real_target_tokens_gives_about_so_many_a_batch(both_directions):
    draw = np.random.default_rng(3)
    pairs = Pairs(draw.integers(10, 30, 2000).tolist(), draw.integers(4, 16, 2000).tolist())
    batches = batches_of(pairs, batch_tokens="auto", tokens_per_update=400, both_directions=both_directions)
    sizes = [batches.next_indices().num_tgt_tokens for _ in range(100)]
    assert 0.85 * 400 < np.mean(sizes) < 1.1 * 400


def corpus_of(index):
    return int(np.searchsorted(np.cumsum(MIXED_SIZES), index, side="right"))


@pytest.mark.parametrize("pool", [64, 1 << 16])
def test_an_epoch_holds_each_corpus_exactly_by_its_quota(pairs, pool, monkeypatch):
    monkeypatch.setattr(batches_module, "POOL_PAIRS", pool)
    one = batches_of(pairs, order_of(MIXED_SIZES, MIXED_WEIGHTS, 5))
    for epoch in range(3):
        counts = Counter()
        while True:
            rows = one.next_indices()
            if one.position.epoch != epoch:
                one.seek(DataPosition(epoch + 1))
                break
            counts.update(corpus_of(index) for index in rows.indices)
        assert [counts[corpus] for corpus in range(10)] == quotas(MIXED_SIZES, MIXED_WEIGHTS)


@pytest.mark.parametrize("pool", [64, 1 << 16])
@pytest.mark.parametrize("num_before", [1, 60, 140])
def test_a_mixture_goes_on_from_any_position(pairs, pool, num_before, monkeypatch):
    monkeypatch.setattr(batches_module, "POOL_PAIRS", pool)
    whole, resumed = (batches_of(pairs, order_of(MIXED_SIZES, MIXED_WEIGHTS, 5)) for _ in range(2))
    for _ in range(num_before):
        whole.next_indices()
    resumed.seek(DataPosition(whole.position.epoch, whole.position.pool, whole.position.batch))
    assert [whole.next_indices().indices.tolist() for _ in range(40)] == [
        resumed.next_indices().indices.tolist() for _ in range(40)
    ]


def test_without_weights_the_order_is_what_it_was_before_there_were_any(pairs):
    assert isinstance(order_of(MIXED_SIZES, None, 5), ShuffledOrder)
    one = batches_of(pairs, order_of(MIXED_SIZES, None, 5))
    listed = json.dumps([one.next_indices().indices.tolist() for _ in range(300)])
    assert hashlib.sha256(listed.encode()).hexdigest()[:16] == "1e425cd4a7c3bcfb"
