"""Noise on the source of synthetic pairs follows from a key, and stays within its limits."""

from __future__ import annotations

import pytest

from nmt.apps.recipes.source_noise import EDUNOV, SourceNoise

WORDS = [f"w{number}" for number in range(2000)]
TEXT = " ".join(WORDS)


def test_without_noise_nothing_changes():
    assert not SourceNoise()
    assert SourceNoise().apply("a b  c", (1,)) == "a b c"


def test_noise_follows_from_its_key():
    assert EDUNOV.apply(TEXT, (1, 5, 0)) == EDUNOV.apply(TEXT, (1, 5, 0))
    assert len({EDUNOV.apply(TEXT, key) for key in ((1, 5, 0), (1, 6, 0), (2, 5, 0), (1, 5, 1))}) == 4


def test_words_are_dropped_and_blanked_in_their_shares():
    dropped = SourceNoise(drop=0.1).apply(TEXT, (3,)).split()
    assert dropped == [word for word in WORDS if word in set(dropped)]
    assert 0.07 < 1 - len(dropped) / len(WORDS) < 0.13
    blanked = SourceNoise(blank=0.2, blank_token="<x>").apply(TEXT, (3,)).split()
    assert all(after in (before, "<x>") for before, after in zip(WORDS, blanked, strict=True))
    assert 0.16 < blanked.count("<x>") / len(WORDS) < 0.24


@pytest.mark.parametrize("limit", [1, 3])
def test_no_word_moves_further_than_its_limit(limit):
    moved = SourceNoise(shuffle=limit).apply(TEXT, (4,)).split()
    places = [abs(place - WORDS.index(word)) for place, word in enumerate(moved)]
    assert sorted(moved) == sorted(WORDS)
    assert max(places) == limit


def test_one_word_stays():
    for line in range(50):
        assert SourceNoise(drop=0.9).apply("a b", (1, line)) in ("a", "b", "a b")


def test_words_with_protected_spans_are_neither_dropped_nor_blanked():
    for line in range(30):
        words = SourceNoise(drop=0.5, blank=0.4).apply("see https://a.de/b, {name} or x", (1, line)).split()
        assert "https://a.de/b," in words
        assert "{name}" in words


def test_a_span_with_spaces_stays_whole():
    tag = '<a href="https://x.org/a" class="b">'
    for line in range(50):
        assert tag in EDUNOV.apply(f"click {tag}here</a> please, now", (1, line))


def test_a_language_without_spaces_is_changed_by_characters():
    text = "我们在GitHub上 https://a.de/b 见"
    assert SourceNoise(shuffle=0, drop=0.0001).apply(text, (1,), spaces=False) == "我们在GitHub上https://a.de/b见"
    blanked = {SourceNoise(blank=0.9).apply(text, (1, line), spaces=False) for line in range(20)}
    assert all("https://a.de/b" in each and "[BLANK]" in each for each in blanked)
    moved = SourceNoise(shuffle=3).apply("一二三四五六七八九", (1,), spaces=False)
    assert sorted(moved) == sorted("一二三四五六七八九")
    assert moved != "一二三四五六七八九"


def test_a_blank_text_stays_blank():
    assert EDUNOV.apply("  ", (1,)) == ""
