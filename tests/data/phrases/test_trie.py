"""Numbers and keys of sequences of tokens."""

from __future__ import annotations

import numpy as np
import pytest

from nmt.data.phrases.trie import HashedKeys, distinct


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_distinct_numbers_are_those_of_numpy(count):
    numbers = np.random.default_rng(1).integers(0, 1 << 38, count) // 3**20
    for found, expected in zip(distinct(numbers), np.unique(numbers, return_inverse=True), strict=True):
        assert np.array_equal(found, expected)


def test_keys_are_found_by_their_hashes_and_others_are_not():
    keys = np.unique(np.random.default_rng(2).integers(0, 1 << 20, 500))
    wanted = np.arange(1 << 20)
    expected = np.full(len(wanted), -1)
    expected[keys] = np.arange(len(keys))
    assert np.array_equal(HashedKeys.of(keys).find(wanted), expected)


def test_nothing_is_found_among_no_keys():
    assert HashedKeys.of(np.zeros(0, np.int64)).find(np.array([0, 5])).tolist() == [-1, -1]
