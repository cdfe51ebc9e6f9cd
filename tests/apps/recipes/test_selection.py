"""Pairs are selected by faults, length ratio and score; every pair that is dropped is counted once."""

from __future__ import annotations

import random

import pytest

from nmt.apps.recipes.candidates import Candidate, Candidates
from nmt.apps.recipes.selection import Limits, Selection


def select(candidates: list[Candidates], **limits) -> tuple[list[tuple[int, int]], Selection]:
    """Return (line, rank) of the pairs that are kept, and the selection."""
    selection = Selection(lambda: iter(candidates), Limits(**limits))
    kept = list(selection.pairs())
    return [(pair.line, candidates[pair.line - 1].outputs.index(pair.candidate)) for pair in kept], selection


def scored(*scores: float | None) -> list[Candidates]:
    return [Candidates("text", [Candidate("text", score)]) for score in scores]


def test_faults_are_counted_and_may_be_allowed():
    candidates = [
        Candidates("a b", [Candidate("c", None, ("copied",)), Candidate("d", None)]),
        Candidates("e f", [Candidate("g", None, ("looped",))]),
        Candidates("", [Candidate("", None, ("blank",))]),
    ]
    kept, selection = select(candidates)
    assert kept == [(1, 1)]
    assert selection.describe() == "kept 1 of 4 pairs from 3 lines; dropped: 1 blank, 1 looped, 1 copied"
    assert select(candidates, allowed={"copied", "blank"})[0] == [(1, 0), (1, 1)]


def test_an_allowed_fault_does_not_excuse_the_others():
    faults = [("unfinished", "looped"), ("unfinished",), ("copied", "protected_lost"), ("unfinished", "copied")]
    candidates = [Candidates("a b", [Candidate("c", None, found)]) for found in faults]
    kept, selection = select(candidates, allowed={"unfinished"})
    assert kept == [(2, 0)]
    assert selection.dropped == {"looped": 1, "copied": 2}
    kept, selection = select(candidates, allowed={"unfinished", "copied"})
    assert kept == [(2, 0), (4, 0)]
    assert selection.dropped == {"looped": 1, "protected_lost": 1}
    assert select(candidates)[1].dropped == {"unfinished": 3, "copied": 1}


def test_an_output_that_is_allowed_to_be_blank_is_dropped_all_the_same():
    candidates = [Candidates("a b", [Candidate("", None, ("empty",))])]
    assert select(candidates, allowed={"empty"})[1].dropped == {"empty": 1}


def words(number: int) -> str:
    return " ".join("abcdefghij"[int(digit)] * 3 for digit in str(number))


def test_an_output_of_many_different_lines_translates_none_of_them():
    same = [Candidates(f"{words(n)}.", [Candidate("a man", -1.0)]) for n in range(600)]
    other = [Candidates(words(n), [Candidate(f"out {words(n)}", -1.0)]) for n in range(600, 620)]
    kept, selection = select([*same, *other], length_ratio=None)
    assert [line for line, _ in kept] == [*range(601, 621)]
    assert selection.dropped == {"repeated": 600}
    assert len(select([*same, *other], length_ratio=None, allowed={"repeated"})[0]) == 620


@pytest.mark.parametrize(
    "sources",
    [
        ["OK", "Ok.", "ok!", "OK?", "„ok“", "OK …", " ok", "OK 1"],  # the same words
        ["yes", "yep", "yeah", "yup"],  # too few
        ["one"] * 20,  # the same line
    ],
)
def test_lines_that_say_the_same_may_have_the_same_output(sources):
    candidates = [Candidates(source, [Candidate("ja", -1.0)]) for source in sources]
    others = [Candidates(words(n), [Candidate(words(n), -1.0)]) for n in range(50)]
    assert len(select([*candidates, *others], length_ratio=None)[0]) == len(sources) + 50


def test_a_phrase_that_is_frequent_in_a_large_corpus_may_be_the_output_of_several_lines():
    phrase = [Candidates(words(n), [Candidate("I do not know.", -1.0)]) for n in range(6)]
    others = [Candidates(words(n), [Candidate(words(n), -1.0)]) for n in range(100, 2000)]
    assert select([*phrase, *others], length_ratio=None)[1].dropped == {}
    assert select([*phrase, *others[:100]], length_ratio=None)[1].dropped == {"repeated": 6}


def test_lengths_and_scores_may_be_allowed_like_faults():
    usual = [Candidates("x" * n, [Candidate("y" * n, -1.0)]) for n in range(20, 60)]
    candidates = [*usual, Candidates("x" * 50, [Candidate("y" * 400, -3.0)])]
    assert select(candidates, keep=0.5)[1].dropped == {"length_ratio": 1, "not_best": 20}
    assert select(candidates, keep=0.5, allowed={"length_ratio"})[1].dropped == {"not_best": 21}
    assert len(select(candidates, keep=0.5, allowed={"length_ratio", "not_best"})[0]) == 41


def test_lengths_that_differ_from_the_usual_ratio():
    draw = random.Random(1)
    usual = [Candidates("x" * n, [Candidate("y" * (2 * n + draw.randint(-2, 2)), None)]) for n in range(20, 120)]
    odd = [Candidates("x" * 50, [Candidate("y" * 10, None)]), Candidates("x" * 50, [Candidate("y" * 400, None)])]
    kept, selection = select([*usual, *odd])
    assert kept == [(line, 0) for line in range(1, 101)]
    assert selection.dropped == {"length_ratio": 2}
    assert len(select([*usual, *odd], length_ratio=None)[0]) == 102
    assert len(select([*usual[:10], *odd])[0]) == 12  # too few to say what is usual


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.77, 0.999])
def test_the_best_share_is_exact_and_in_order(share):
    draw = random.Random(2)
    scores = [round(-draw.random() * 60, 1) for _ in range(200)]  # with ties
    kept, selection = select(scored(*scores), keep=share)
    assert kept == sorted(kept)
    assert len(kept) == round(share * 200)
    assert selection.dropped["not_best"] == 200 - len(kept)
    worst = min((scores[line - 1] for line, _ in kept), default=0.0)
    assert all(score <= worst for line, score in enumerate(scores, 1) if (line, 0) not in kept)


def test_of_equal_scores_the_first_ones_are_kept():
    assert select(scored(-1.0, -1.0, -1.0, -1.0), keep=0.5)[0] == [(1, 0), (2, 0)]


def test_the_best_share_is_one_of_the_pairs_that_are_sound():
    candidates = [*scored(-1.0, -3.0), Candidates("text", [Candidate("text", -0.1, ("looped",))])]
    assert select(candidates, keep=0.5)[0] == [(1, 0)]
