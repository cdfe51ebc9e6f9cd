"""Batches hold every pair once an epoch, within the budget, and their order can be taken up anywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
from nmt.data.store import batching
from nmt.data.store.batching import DataPosition, TokenBudgetSampler, collate, fill_batches, tokens_for
from nmt.data.store.mixing import ShuffledOrder, permute
from nmt.data.store.store import Side


class Pairs:
    """A store in memory, of pairs with the given lengths."""

    def __init__(self, src_lens, tgt_lens):
        self.src, self.tgt = (
            Side(np.full(sum(lens), 9, dtype=np.uint16), np.cumsum([0, *lens], dtype=np.int64), 1000, Path())
            for lens in (src_lens, tgt_lens)
        )

    def __len__(self):
        return len(self.src.offsets) - 1


@pytest.fixture
def pairs():
    draw = np.random.default_rng(3)
    return Pairs(draw.integers(1, 30, 501).tolist(), draw.integers(1, 40, 501).tolist())


def sampler(pairs, seed=5, **options):
    settings = {"batch_tokens": 200, "max_src_len": 25, "max_tgt_len": 31}
    return TokenBudgetSampler(pairs, ShuffledOrder(len(pairs), seed), **{**settings, **options})


def epoch_of(sampler, number=0):
    batches = []
    while True:
        batch = sampler.next_indices().indices
        if sampler.position.epoch != number:
            return batches
        batches.append(batch)


@pytest.mark.parametrize("pool", [64, 1 << 16])
def test_an_epoch_holds_every_pair_once(pairs, pool, monkeypatch):
    monkeypatch.setattr(batching, "POOL_PAIRS", pool)
    assert sorted(i for batch in epoch_of(sampler(pairs)) for i in batch.tolist()) == list(range(501))


def test_batches_stay_within_the_budget_and_are_well_filled(pairs):
    batches = epoch_of(sampler(pairs))
    costs = []
    for indices in batches:
        longest = np.maximum(pairs.src.lengths(indices).clip(max=24), pairs.tgt.lengths(indices).clip(max=30)).max() + 1
        costs.append(len(indices) * longest)
    assert max(costs) <= 200
    assert np.mean(costs) > 150


def test_epochs_differ_and_seeds_differ(pairs):
    first, other_seed = sampler(pairs), sampler(pairs, seed=6)
    one, two = epoch_of(first, 0), [first.next_indices().indices for _ in range(3)]
    assert [b.tolist() for b in one[:3]] != [b.tolist() for b in two]
    assert [b.tolist() for b in one] != [b.tolist() for b in epoch_of(other_seed)]


@pytest.mark.parametrize("pool", [64, 1 << 16])
@pytest.mark.parametrize("num_before", [0, 1, 17, 60, 140])
def test_a_sampler_goes_on_from_any_position(pairs, pool, num_before, monkeypatch):
    monkeypatch.setattr(batching, "POOL_PAIRS", pool)
    whole = sampler(pairs)
    for _ in range(num_before):
        whole.next_indices()
    resumed = sampler(pairs)
    resumed.seek(DataPosition(whole.position.epoch, whole.position.pool, whole.position.batch))
    assert [whole.next_indices().indices.tolist() for _ in range(40)] == [
        resumed.next_indices().indices.tolist() for _ in range(40)
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 64, 65, 1000])
def test_permute_is_a_permutation(size):
    there = permute(np.arange(size), size, key=(1, 2))
    assert sorted(there.tolist()) == list(range(size))


def test_permute_depends_on_its_key_and_mixes():
    ranks = np.arange(10_000)
    one, two = permute(ranks, 10_000, key=(1, 0)), permute(ranks, 10_000, key=(1, 1))
    assert (one == two).mean() < 0.01
    assert abs(np.corrcoef(ranks, one)[0, 1]) < 0.05


def test_a_sentence_over_the_budget_is_a_batch_of_its_own():
    assert [b.tolist() for b in fill_batches(np.array([3, 3, 50, 60]), 12)] == [[0, 1], [2], [3]]


def test_collate_pads_on_the_right_and_keeps_eos_on_truncation():
    batch = collate([[5, 6, 7, 8, 9], [5]], [[4], [4, 5, 6, 7]], max_src_len=4, max_tgt_len=3)
    assert batch.src.tolist() == [[5, 6, 7, EOS_ID], [5, EOS_ID, PAD_ID, PAD_ID]]
    assert batch.tgt_in.tolist() == [[BOS_ID, 4, PAD_ID], [BOS_ID, 4, 5]]
    assert batch.tgt_out.tolist() == [[4, EOS_ID, PAD_ID], [4, 5, EOS_ID]]
    assert batch.num_tgt_tokens == 5
    assert batch.src.dtype == torch.int64


def test_a_batch_read_from_the_store_equals_the_collated_sentences(pairs):
    draw = np.random.default_rng(8)
    for side in (pairs.src, pairs.tgt):
        side.tokens[:] = draw.integers(4, 1000, len(side.tokens))
    one = sampler(pairs)
    for _ in range(30):
        rows = one.next_indices()
        batch = batching.read_batch(pairs, rows)
        sources, targets = ([side[i].tolist() for i in rows.indices] for side in (pairs.src, pairs.tgt))
        for read, collated in zip(batch[:5], collate(sources, targets, 25, 31)[:5], strict=True):
            assert torch.equal(torch.as_tensor(read), torch.as_tensor(collated))


def in_both_directions(pairs, **options):
    one = sampler(pairs, **options)
    one.both_directions = True
    return one


def test_in_both_directions_half_of_the_pairs_are_swapped_in_an_epoch_and_the_others_in_the_next(pairs):
    one, swapped = in_both_directions(pairs), ({}, {})
    while one.position.epoch < 2:
        rows = one.next_indices()
        if one.position.epoch < 2:
            swapped[one.position.epoch].update(zip(rows.indices.tolist(), rows.swapped.tolist(), strict=True))
    assert sorted(swapped[0]) == sorted(swapped[1]) == list(range(501))
    assert all(swapped[0][i] != swapped[1][i] for i in range(501))
    assert 200 < sum(swapped[0].values()) < 300
    again = in_both_directions(pairs)
    again.seek(DataPosition(1, 0, 2))
    rows = again.next_indices()
    assert rows.swapped.tolist() == [swapped[1][i] for i in rows.indices.tolist()]


def test_a_batch_with_swapped_pairs_equals_the_collated_sentences(pairs):
    draw = np.random.default_rng(8)
    for side in (pairs.src, pairs.tgt):
        side.tokens[:] = draw.integers(4, 1000, len(side.tokens))
    one = in_both_directions(pairs)
    for _ in range(30):
        rows = one.next_indices().share(0, 2)
        chosen = zip(rows.indices.tolist(), rows.swapped.tolist(), strict=True)
        both = [(pairs.tgt[i], pairs.src[i]) if swap else (pairs.src[i], pairs.tgt[i]) for i, swap in chosen]
        sources, targets = ([side.tolist() for side in sides] for sides in zip(*both, strict=True))
        found = batching.read_batch(pairs, rows)[:5]
        for read, collated in zip(found, collate(sources, targets, 25, 31)[:5], strict=True):
            assert torch.equal(torch.as_tensor(read), torch.as_tensor(collated))


def test_the_shares_of_a_batch_are_its_rows_dealt_out(pairs):
    rows = sampler(pairs).next_indices()
    shares = [rows.share(rank, 3) for rank in range(3)]
    assert sorted(i for share in shares for i in share.indices.tolist()) == sorted(rows.indices.tolist())
    assert sum(share.num_tgt_tokens for share in shares) == rows.num_tgt_tokens
    assert max(len(share.indices) for share in shares) - min(len(share.indices) for share in shares) <= 1


def test_a_share_without_rows_is_a_batch_that_counts_nothing(pairs):
    rows = sampler(pairs).next_indices()
    batch = batching.read_batch(pairs, rows.share(len(rows.indices), len(rows.indices) + 1))
    assert batch.num_tgt_tokens == 0
    assert batch.src.shape == batch.tgt_in.shape == batch.tgt_out.shape == (1, 1)
    assert (batch.tgt_out == PAD_ID).all()


def test_tokens_of_a_batch_are_the_batch_without_the_padding_they_need_not():
    whole = collate([[5] * n for n in (2, 3, 7, 9)], [[6] * n for n in (1, 4, 3, 8)], 32, 32)
    first, second = whole.cut(2)
    assert [tuple(token.src.shape) for token in (first, second)] == [(2, 4), (2, 10)]
    assert [tuple(token.tgt_in.shape) for token in (first, second)] == [(2, 5), (2, 9)]
    for side in ("src", "tgt_in", "tgt_out"):
        for rows, token in zip(getattr(whole, side).tensor_split(2), (first, second), strict=True):
            width = getattr(token, side).size(1)
            assert torch.equal(rows[:, :width], getattr(token, side))
            assert rows[:, width:].eq(PAD_ID).all()
    assert first.num_tgt_tokens + second.num_tgt_tokens == whole.num_tgt_tokens


@pytest.mark.parametrize("both_directions", [False, True])
def test_a_budget_for_real_target_tokens_gives_about_so_many_a_batch(both_directions):
    draw = np.random.default_rng(3)
    pairs = Pairs(draw.integers(10, 30, 2000).tolist(), draw.integers(4, 16, 2000).tolist())
    order = ShuffledOrder(len(pairs), seed=0)
    budget = tokens_for(400, pairs, 25, 31, order, both_directions)
    one_by_one = sampler(pairs, batch_tokens=budget)
    one_by_one.both_directions = both_directions
    sizes = [one_by_one.next_indices().num_tgt_tokens for _ in range(100)]
    assert 0.85 * 400 < np.mean(sizes) < 1.1 * 400
