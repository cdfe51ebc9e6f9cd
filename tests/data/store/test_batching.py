"""Batches are filled and padded, and the order of pairs is a permutation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
from nmt.data.store.batching import collate, fill_batches
from nmt.data.store.mixing import permute


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
