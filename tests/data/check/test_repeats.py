"""A growing set of hashes answers as a set does."""

from __future__ import annotations

import random

import numpy as np

from nmt.data.check.repeats import SeenHashes


def test_it_knows_what_was_added_before_and_earlier_in_the_same_array():
    draw, seen, known = random.Random(2), SeenHashes(), set()
    for _ in range(60):
        values = [draw.randrange(1500) << 53 for _ in range(draw.randrange(60))]
        expected = []
        for value in values:
            expected.append(value in known)
            known.add(value)
        assert seen.add(np.array(values, dtype=np.uint64)).tolist() == expected
