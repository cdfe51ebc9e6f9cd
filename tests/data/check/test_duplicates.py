"""The set of hashes says what a Python set says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nmt.data.check import duplicates, sorted_hashes
from nmt.data.check.duplicates import SeenHashes


@pytest.mark.parametrize("max_in_memory", [200, 1 << 20])
def test_it_knows_what_was_added_before_and_earlier_in_the_same_array(monkeypatch, max_in_memory):
    monkeypatch.setattr(duplicates, "_SMALLEST", 64)
    monkeypatch.setattr(sorted_hashes, "_MAX_IN_MEMORY", max_in_memory)
    monkeypatch.setattr(sorted_hashes, "_BLOCK", 17)
    draw, seen, known = random.Random(2), SeenHashes(), set()
    for _ in range(60):
        values = [draw.randrange(1500) for _ in range(draw.randrange(60))]
        expected = []
        for value in values:
            expected.append(value in known)
            known.add(value)
        assert seen.add(np.array(values, dtype=np.uint64)).tolist() == expected
        assert len(seen) == len(known)
