"""An epoch holds of each corpus what its weight asks for, and every pair of a corpus is seen equally often."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from nmt.base.errors import ConfigError
from nmt.config.data import DataConfig
from nmt.data.store.mixing import MixedOrder, corpus_weights, order_of, quotas

SIZES = [1, 2, 3, 5, 11, 40, 97, 100, 113, 129]  # 501 in all
WEIGHTS = [1.0, 5.0, 0.5, 2.0, 7.0, 1.0, 3.0, 0.1, 30.0, 9.0]


def test_quotas_are_the_exact_shares_rounded_by_largest_remainder():
    assert quotas([7, 3], [1, 1]) == [5, 5]
    assert quotas([4, 4, 3], [1, 1, 1]) == [4, 4, 3]
    assert quotas([10, 10, 10], [0.5, 0.25, 0.25]) == [15, 8, 7]
    assert sum(quotas(SIZES, WEIGHTS)) == 501
    exact = [weight / sum(WEIGHTS) * 501 for weight in WEIGHTS]
    assert all(abs(quota - share) < 1 for quota, share in zip(quotas(SIZES, WEIGHTS), exact, strict=True))


def test_a_weight_that_gives_a_corpus_nothing_is_an_error():
    with pytest.raises(ConfigError, match=r"corpus 2 of data.train gets none of the 10 pairs of an epoch"):
        quotas([5, 5], [1000.0, 1.0])
    with pytest.raises(ConfigError, match=r"corpus 2 of data.train gets none of the 5 pairs of an epoch"):
        quotas([5, 0], [1.0, 1.0])
    assert quotas([5, 5], [1.0, 0.0]) == [10, 0]


def test_a_temperature_makes_the_shares_more_equal():
    def weights(temperature: float) -> list[float] | None:
        corpora = [{"tsv": "a.tsv"}, {"tsv": "b.tsv"}]
        return corpus_weights(
            DataConfig(src_lang="de", tgt_lang="en", train=corpora, temperature=temperature), [900, 100]
        )

    assert weights(1.0) is None
    assert quotas([900, 100], weights(2.0)) == [750, 250]
    assert quotas([900, 100], weights(100.0)) == [505, 495]


def test_over_epochs_each_pair_of_a_corpus_is_drawn_equally_often():
    order = order_of(SIZES, WEIGHTS, 5)
    seen = np.zeros(501, dtype=int)
    for epoch in range(7):
        seen += np.bincount(order.indices(np.arange(501), epoch), minlength=501)
        start = 0
        for size, quota in zip(SIZES, quotas(SIZES, WEIGHTS), strict=True):
            mine = seen[start : start + size]
            assert mine.sum() == (epoch + 1) * quota
            assert mine.max() - mine.min() <= 1
            start += size


def test_the_passes_through_a_corpus_differ_and_so_do_the_corpora():
    order = MixedOrder([50, 50], [50, 50], seed=1)
    passes = [order._drawn(np.arange(50) + 50 * number, corpus) for number in (0, 1) for corpus in (0, 1)]
    assert all(sorted(drawn.tolist()) == list(range(50)) for drawn in passes)
    assert len({tuple(drawn.tolist()) for drawn in passes}) == 4
    other_seed = MixedOrder([50, 50], [50, 50], seed=2)
    assert order.indices(np.arange(100), 0).tolist() != other_seed.indices(np.arange(100), 0).tolist()


def test_an_index_is_computed_alone_as_among_others():
    order = order_of(SIZES, WEIGHTS, 5)
    whole = order.indices(np.arange(501), 3)
    assert [int(order.indices(np.array([rank]), 3)[0]) for rank in range(0, 501, 7)] == whole[::7].tolist()


def test_memory_does_not_grow_with_the_corpora():
    order = order_of([10**12, 3 * 10**12], [3.0, 1.0], 5)
    ranks = np.arange(10**12, 10**12 + 1000)
    order.indices(ranks, 0)
    tracemalloc.start()
    indices = order.indices(ranks, 10**6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert 0 <= indices.min() < 10**12 <= indices.max() < 4 * 10**12
