"""Mistakes of typing: in words only, never in what is protected, as many as asked for."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from nmt.data.text.spans import Span, find_spans
from nmt.data.text.typos import Typist, neighbors

TEXT = "Please send the signed document to info@example.com before the next meeting {name}."


def distance(one: str, two: str) -> int:
    """Edits from `one` to `two`; exchanging two neighbors is one edit (Damerau 1964)."""
    rows = [list(range(len(two) + 1))]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(two, 1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b)))
            if i > 1 and j > 1 and (a, one[i - 2]) == (two[j - 2], b):
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


@pytest.mark.parametrize("language", ["en", "de", "ru"])
def test_a_typo_is_one_edit_in_a_word(language):
    text = {"ru": "Собака бежит по траве"}.get(language, "The dogs are running over the grass")
    typist = Typist(language, 1e-9)  # so that one word is changed
    changed = {typist.mistype(text, [], random.Random(seed)) for seed in range(300)}
    assert len(changed) > 60
    assert all(distance(text, other) == 1 for other in changed - {text})
    assert all(sum(a != b for a, b in zip(text.split(), other.split(), strict=True)) <= 1 for other in changed)


def test_about_the_given_share_of_words_has_a_typo():
    text = " ".join(["elephant"] * 1000)
    words = Typist("en", 0.2).mistype(text, [], random.Random(1)).split()
    assert 150 < sum(word != "elephant" for word in words) < 250


@pytest.mark.parametrize("change", ["mistype", "disturb"])
def test_protected_spans_are_never_touched(change):
    typist, spans = Typist("en", 0.9), find_spans(TEXT)
    assert len(spans) == 2
    for seed in range(200):
        changed = getattr(typist, change)(TEXT, spans, random.Random(seed))
        assert "info@example.com" in changed
        assert "{name}" in changed
        assert changed != TEXT


def test_text_without_spaces_loses_or_swaps_characters():
    text = "我明天去北京看朋友。"
    typist = Typist("zh", 1e-9)
    for seed in range(200):
        changed = typist.mistype(text, [], random.Random(seed))
        assert not Counter(changed) - Counter(text)
        assert len(text) - len(changed) in (0, 1)
        assert changed.endswith("。")


def test_noise_swaps_repeats_and_drops_words_and_adds_spaces_and_punctuation():
    text = "one of the biggest dogs"
    seen = {Typist("en", 1e-9).disturb(text, [], random.Random(seed)) for seed in range(400)}
    swapped, repeated, dropped = "of one the biggest dogs", "one of of the biggest dogs", "one the biggest dogs"
    assert {swapped, repeated, dropped, "of the biggest dogs", "one  of the biggest dogs"} <= seen
    assert any("," in other for other in seen)
    assert text not in seen


def test_noise_leaves_out_no_word_that_the_translation_needs():
    for text in ("Tom reads three old books today", "我明天去北京看朋友。"):
        letters = Counter(filter(str.isalpha, text)) - Counter("old")
        for seed in range(300):
            language = "en" if text.isascii() else "zh"
            assert not letters - Counter(Typist(language, 0.3).disturb(text, [], random.Random(seed)))


def test_text_without_words_stays():
    typist = Typist("en", 0.5)
    for text in ("", "...", " "):
        assert typist.mistype(text, [], random.Random(1)) == text
    assert typist.disturb("<b>", [Span(0, 3)], random.Random(1)) == "<b>"


def test_neighbors_are_those_of_the_keyboard():
    assert set(neighbors("en")["g"]) == set("fhtyvb")
    assert "z" in neighbors("de-AT")["t"]
    assert "y" in neighbors("en")["t"]
    assert set(neighbors("fr")["a"]) == set("zq")
