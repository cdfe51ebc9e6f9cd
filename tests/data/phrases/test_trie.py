"""Numbers and keys of sequences of tokens."""

from __future__ import annotations

import numpy as np

from nmt.data.phrases.trie import HashedKeys


def test_keys_are_found_by_their_hashes_and_others_are_not():
    keys = np.unique(np.random.default_rng(2).integers(0, 1 << 20, 500))
    wanted = np.arange(1 << 20)
    expected = np.full(len(wanted), -1)
    expected[keys] = np.arange(len(keys))
    assert np.array_equal(HashedKeys.of(keys).find(wanted), expected)


def test_nothing_is_found_among_no_keys():
    assert HashedKeys.of(np.zeros(0, np.int64)).find(np.array([0, 5])).tolist() == [-1, -1]
