"""Outputs in another script or language than asked are told from names and from what is right."""

from __future__ import annotations

import pytest

from nmt.base.languages import Direction
from nmt.data.check.scripts import can_identify_languages
from nmt.translation.translation import Translation
from nmt.translation.wrong_language import is_in_wrong_language

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
    monkeypatch.setattr("nmt.translation.wrong_language.can_identify_languages", lambda: False)
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
