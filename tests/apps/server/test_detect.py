"""The language of a text, among those that a server knows."""

from __future__ import annotations

import pytest

from nmt.apps.server import detect
from nmt.apps.server.detect import Detector


def test_the_letters_of_a_text_decide_between_scripts(monkeypatch):
    monkeypatch.setattr(detect, "can_identify_languages", lambda: False)
    detector = Detector(["en", "ru", "zh", "el"])
    found = {text: detector.detect(text)[0]["language"] for text in ("Hello", "Привет", "你好", "Γεια", "123", "")}
    assert found == {"Hello": "en", "Привет": "ru", "你好": "zh", "Γεια": "el", "123": "en", "": "en"}
    assert detector.detect("Привет")[0]["confidence"] == 100
    assert len(detector.detect("abc где")) == 4


def test_a_language_of_an_unknown_script_is_no_more_probable_than_others_unless_no_other_has_the_letters(monkeypatch):
    monkeypatch.setattr(detect, "can_identify_languages", lambda: False)
    detector = Detector(["en", "lus", "ru"])
    found = {text: detector.detect(text)[0]["language"] for text in ("Hello мир", "Привет", "བོད", "123")}
    assert found == {"Hello мир": "en", "Привет": "lus", "བོད": "lus", "123": "en"}
    assert {each["confidence"] for each in detector.detect("Привет")} == {50.0, 0.0}


def test_words_decide_between_languages_of_one_script():
    pytest.importorskip("py3langid", reason="needs the extra langid")
    detector = Detector(["eng_Latn", "de", "fr-CA"])
    texts = {
        "eng_Latn": "This is the house that my brother has built.",
        "de": "Das ist das Haus, das mein Bruder gebaut hat.",
        "fr-CA": "Voici la maison que mon frère a construite.",
    }
    for code, text in texts.items():
        best = detector.detect(text)[0]
        assert (best["language"], best["confidence"] > 50) == (code, True)
    assert sum(each["confidence"] for each in detector.detect("hat")) == pytest.approx(100, abs=0.5)
