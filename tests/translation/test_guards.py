"""Loops and copies are told from what is right."""

from __future__ import annotations

import pytest

from nmt.translation.guards import Loop, find_loop, is_copy, longest_run


@pytest.mark.parametrize(
    ("ids", "run"),
    [
        ([], (0, 0)),
        ([5], (1, 1)),
        ([5, 6, 7], (1, 1)),
        ([5, 5, 5], (1, 3)),
        ([1, 5, 6, 5, 6, 5, 6, 5, 6, 2], (2, 4)),
        ([1, 2, 3, 4] * 4, (4, 4)),
        ([1, 2, 3, 4, 5] * 9, (1, 1)),  # longer units are not looked for
        ([1, 2, 3, 1, 2, 3, 1, 2], (3, 2)),
    ],
)
def test_the_longest_run_is_found(ids, run):
    assert longest_run(ids) == run


def test_four_in_a_row_are_a_loop_unless_the_source_does_so():
    assert find_loop([7, 7, 7, 7], [1, 2, 3]) == (1, 4, 3)
    assert find_loop([7, 7, 7], [1, 2, 3]) is None
    assert find_loop([7, 8] * 5, [1, 2, 1, 2]) == (2, 5, 3)
    assert find_loop([7, 8] * 8, [1, 1, 1, 1]) is None
    assert find_loop([7, 8] * 9, [1, 1, 1, 1]) == (2, 9, 8)


def test_the_forbidden_ngram_breaks_the_loop_and_spares_what_the_source_repeats():
    assert [Loop(unit, 9, 3).forbidden_ngram for unit in (1, 2, 3, 4)] == [2, 4, 6, 8]
    assert Loop(1, 20, 14).forbidden_ngram == 14


@pytest.mark.parametrize(
    ("source", "output", "copied"),
    [
        ("The house is old.", "The house is old.", True),
        ("The house is old.", "Das Haus ist alt.", False),
        ("The house is very old.", "The house ist sehr alt.", False),
        ("Paris Berlin", "Paris Berlin", False),
        ("12 34 56 78", "12 34 56 78", False),
        ("我来自中国", "我来自中国", True),
        ("我来自中国", "I am from China", False),
        ("", "", False),
    ],
)
def test_a_copy_is_over_half_of_the_words(source, output, copied):
    assert is_copy(source, output) == copied
