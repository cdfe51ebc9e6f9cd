"""Sorted hashes in a file answer as they do in memory, leave nothing behind, and take no memory there."""

from __future__ import annotations

import random
import tempfile

import numpy as np
import pytest

from nmt.data.check import repeats
from nmt.data.check.repeats import SeenHashes, SortedHashes

DRAW = np.random.default_rng(7)
VALUES = np.unique(DRAW.integers(0, 2**64, 997, dtype=np.uint64))
IS_FIRST = DRAW.random(len(VALUES)) < 0.7


@pytest.fixture
def halves(tmp_path, monkeypatch) -> tuple[SortedHashes, SortedHashes]:
    """Return two runs whose union is too large for the memory."""
    monkeypatch.setattr(repeats, "_MAX_IN_MEMORY", 101)
    monkeypatch.setattr(repeats, "_BLOCK", 13)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return SortedHashes(VALUES[IS_FIRST]), SortedHashes(VALUES[~IS_FIRST])


def test_a_merge_in_a_file_holds_the_hashes_of_both_in_order(halves, tmp_path):
    first, second = halves
    merged = first.merged(second)
    assert merged.hashes.tolist() == second.merged(first).hashes.tolist() == VALUES.tolist()
    assert not merged.hashes.flags.owndata, "the hashes are in memory"
    assert list(tmp_path.iterdir()) == []  # the file has no name


def test_hashes_in_a_file_are_found_and_others_are_not(halves):
    first, second = halves
    merged = first.merged(second)
    values = np.sort(np.concatenate((VALUES[::3], VALUES[::5] + np.uint64(1))))
    assert merged.contains(values).tolist() == np.isin(values, VALUES).tolist()
    assert merged.contains(values[:0]).tolist() == []


def test_hashes_stay_in_memory_if_there_is_no_folder_for_temporary_files(halves, tmp_path, monkeypatch):
    first, second = halves
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    merged = first.merged(second)
    assert merged.hashes.tolist() == VALUES.tolist()
    assert merged.contains(VALUES[::7]).all()


def test_an_empty_run_contains_nothing():
    assert SortedHashes(VALUES[:0]).contains(VALUES[:3]).tolist() == [False] * 3


@pytest.mark.parametrize("max_in_memory", [200, 1 << 20])
def test_it_knows_what_was_added_before_and_earlier_in_the_same_array(monkeypatch, max_in_memory):
    monkeypatch.setattr(repeats, "_MIN_RUN", 64)
    monkeypatch.setattr(repeats, "_MAX_IN_MEMORY", max_in_memory)
    monkeypatch.setattr(repeats, "_BLOCK", 17)
    draw, seen, known = random.Random(2), SeenHashes(), set()
    for _ in range(60):
        values = [draw.randrange(1500) for _ in range(draw.randrange(60))]
        expected = []
        for value in values:
            expected.append(value in known)
            known.add(value)
        assert seen.add(np.array(values, dtype=np.uint64)).tolist() == expected
        assert len(seen) == len(known)
