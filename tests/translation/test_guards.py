"""Loops, copies and other languages are told from what is right, and unusual sources from usual ones."""

from __future__ import annotations

import pytest

from nmt.base.languages import Direction
from nmt.data.check.scripts import can_identify_languages
from nmt.data.text.text_statistics import TextStatistics
from nmt.translation.guards import (
    count_copied,
    find_loop,
    find_unusual,
    is_in_wrong_language,
    is_mostly_copied,
    longest_run,
)
from nmt.translation.segments import SegmentTranslation
from nmt.translation.translation import Translation

USUAL = TextStatistics(pairs=1000, src_sentences=[1000], tgt_sentences=[1000], chars_per_token=2.0)


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
    assert find_loop([7, 7, 7, 7], [1, 2, 3])
    assert find_loop([7, 7, 7], [1, 2, 3]) is None
    assert find_loop([7, 8] * 5, [1, 2, 1, 2]) == 4
    assert find_loop([7, 8] * 8, [1, 1, 1, 1]) is None
    assert find_loop([7, 8] * 9, [1, 1, 1, 1]) == 16


def test_the_forbidden_ngram_breaks_the_loop_and_spares_what_the_source_repeats():
    assert [find_loop([5, 6, 7, 8][:unit] * 9, []) for unit in (1, 2, 3, 4)] == [2, 4, 6, 8]
    assert find_loop([7] * 20, [1] * 7) == 14


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
    assert is_mostly_copied(*count_copied(source, output)) == copied


SOUND = [
    ("我来自中国。", "zh"),
    ("Tom帮Mary买了点果汁。", "zh"),
    ("Twitter", "zh"),
    ("New York City", "zh"),
    ("iPhone 13 Pro", "ja"),
    ("I am from China.", "en"),
    ("Ein Mann geht mit seinem Hund.", "de"),
    ("这个国家没有问题。", "zh"),
    ("這個國家沒有問題。", "zh-Hant"),
    ("Где мой дом?", "ru"),
    ("12 345", "zh"),
    ("", "de"),
    ("Dobar dan, kako ste danas?", "sr"),  # written in two scripts
]


@pytest.mark.parametrize(("text", "language"), SOUND)
def test_what_is_right_or_a_name_has_no_flag(text, language):
    assert not is_in_wrong_language(text, language)


WRONG_SCRIPT = [
    ("I am from China.", "zh"),
    ("我来自中国。", "en"),
    ("Где мой дом?", "de"),
    ("這個國家沒有問題。", "zh-CN"),
    ("The dog runs 快 across the street", "zh"),
]


@pytest.mark.parametrize(("text", "language"), WRONG_SCRIPT)
def test_another_script_is_found_without_a_package(text, language, monkeypatch):
    monkeypatch.setattr("nmt.data.check.scripts.can_identify_languages", lambda: False)
    assert is_in_wrong_language(text, language)


@pytest.mark.skipif(not can_identify_languages(), reason="needs the extra langid")
def test_another_language_is_found_in_texts_longer_than_names():
    german = "Ein Mann geht mit seinem schwarzen Hund durch die Straße."
    assert is_in_wrong_language(german, "en")
    assert is_in_wrong_language(german, "fr")
    assert not is_in_wrong_language("Angela Merkel", "fr")


def test_a_translation_knows_the_language_that_was_asked_for():
    asked = {"without_spans": ("Good morning, everyone here", "Good morning, everyone here")}
    into_chinese = Translation("Good morning, everyone here", direction=Direction("en", "zh"), **asked)
    assert (into_chinese.wrong_language, into_chinese.copied_source) == (True, True)
    into_english = Translation("Good morning, everyone here", direction=Direction("en", "en"), **asked)
    assert (into_english.wrong_language, into_english.copied_source) == (False, False)
    assert not Translation("").wrong_language


@pytest.mark.parametrize(
    ("text", "num_tokens", "reasons"),
    [
        ("Ein Mann fährt Fahrrad.", 6, []),
        ("Я живу в большом городе.", 8, ["language"]),
        ("EIN MANN FÄHRT FAHRRAD", 8, ["capitals"]),
        ("NATO", 3, []),
        ("Hund " * 6, 6, ["repetition"]),
        ("sehr sehr gut", 4, []),
        ("qx zv kj wp", 11, ["noise"]),
        ("Nguyễn", 5, []),
        ("", 0, []),
    ],
)
def test_each_reason_has_its_rule(text, num_tokens, reasons):
    assert find_unusual(text, num_tokens, "de", USUAL) == reasons


def test_capitals_and_noise_need_the_statistics_of_the_training_text():
    assert find_unusual("EIN MANN FÄHRT FAHRRAD", 22, "de", None) == []
    assert find_unusual("EIN MANN FÄHRT FAHRRAD", 8, "de", USUAL.model_copy(update={"in_capitals": 10})) == []
    # A model that has learned capitals spells them in more tokens than other text.
    assert find_unusual("EIN MANN FÄHRT FAHRRAD", 20, "de", USUAL.model_copy(update={"in_capitals": 10})) == []
    assert find_unusual("EIN MANN FÄHRT FAHRRAD", 20, "de", USUAL) == ["capitals", "noise"]
    assert find_unusual("Ein Mann fährt Quux.", 8, "de", USUAL.model_copy(update={"words": ["ein mann"]})) == []
    assert find_unusual("Ein Mann fährt Quux.", 8, "de", USUAL.model_copy(update={"words": ["ein"]})) == ["vocabulary"]
    assert find_unusual("Quux", 2, "de", USUAL.model_copy(update={"words": ["ein"]})) == ["vocabulary"]


def test_a_search_that_writes_nothing_is_flagged_but_a_blank_text_is_not():
    segment = SegmentTranslation("", -1.0, [7, 8], [], truncated=False, finished=True)
    assert Translation("", -1.0, [segment]).flags["empty"]
    assert Translation(" ", -1.0, [segment]).empty
    assert "empty" not in Translation("").flags
    assert "empty" not in Translation("a", -1.0, [segment]).flags


@pytest.mark.parametrize(
    ("text", "language", "is_wrong"),
    [
        ("Это совсем другой язык, а не перевод.", "bam", True),  # in Latin and N'Ko
        ("I ni ce, i ka kɛnɛ wa? N bɛ taa so.", "bam", False),
        ("ߊ߬ ߞߵߊ߬ ߝߐ߫ ߞߏ ߊ߬ ߕߍ߫ ߛߐ߲߬", "bam", False),
        ("这是一个中文句子，不是翻译。", "sr", True),
        ("Это совсем другой язык, а не перевод.", "sr", False),
        ("Ovo je sasvim drugi jezik.", "sr", False),
        ("Это совсем другой язык, а не перевод.", "qaa", False),  # nobody knows
    ],
)
def test_of_a_language_in_several_scripts_others_are_wrong(text, language, is_wrong):
    assert is_in_wrong_language(text, language, identify=False) is is_wrong
