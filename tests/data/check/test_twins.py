"""Near-twins: the index finds what comparing all pairs of texts finds."""

from __future__ import annotations

import random

import pytest

from nmt.data.check.features import Side
from nmt.data.check.twins import SIMILARITY, TwinFinder


def grams(folded: str) -> set[str]:
    padded = f"...{folded}..."
    return {padded[start : start + 4] for start in range(len(folded) + 3)} if folded else set()


def similarity(first: str, second: str) -> float:
    ours, theirs = grams(first), grams(second)
    return len(ours & theirs) / max(1, len(ours | theirs))


def sentences(count: int, seed: int, words: str) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(words.split(), k=draw.randint(0, 9))) for _ in range(count)]


@pytest.mark.parametrize(
    "words", ["ein hund springt über die wiese und das wasser", "我 们 不 知道 他 今天 去 哪里", "a"]
)
def test_the_index_finds_what_comparing_all_pairs_finds(words):
    held_out, texts = sentences(41, 1, words), sentences(311, 2, words)
    expected = {
        (row, number)
        for row, text in enumerate(texts)
        for number, other in enumerate(held_out)
        if similarity(text, other) >= SIMILARITY
    }
    found = list(TwinFinder(held_out).find(texts))
    assert set(found) == expected
    assert len(found) == len(expected) > 0


def test_texts_without_letters_have_no_twins():
    assert list(TwinFinder([]).find(["einhund"])) == []
    assert list(TwinFinder(["", ""]).find(["einhund", ""])) == []
    assert list(TwinFinder(["einhund"]).find([])) == []


@pytest.mark.parametrize(
    ("first", "second", "are_twins"),
    [
        ("A brown dog is jumping over a hurdle.", "A black dog is jumping over a hurdle!", True),
        ("How do you go to school?", "How do you get to school?", True),
        ("他在1990年来到北京。", "他在2015年来到北京", True),
        ("How do you go to school?", "How do you play the violin?", False),
        ("Yes.", "No.", False),
    ],
)
def test_a_changed_word_leaves_a_twin_and_another_sense_does_not(first, second, are_twins):
    found = list(TwinFinder([Side(first).folded]).find([Side(second).folded]))
    assert found == [(0, 0)] * are_twins
