"""What libretranslatepy and deep-translator offer, against `nmt serve`; `scripts/client_suites.py` runs them.

Packages and repositories of the two have no tests that ask a server.
"""

from __future__ import annotations

import os
from urllib.error import HTTPError

import pytest
import requests
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from libretranslatepy import LibreTranslateAPI

URL, KEY = os.environ["NMT_URL"], os.environ["DEEPL_AUTH_KEY"]
TEXT = "12345 & 678"


def expected(text: str, source: str = "en", target: str = "de") -> str:
    body = {"q": text, "source": source, "target": target, "api_key": KEY}
    return requests.post(f"{URL}/translate", json=body, timeout=60).json()["translatedText"]


@pytest.fixture
def libretranslatepy():
    return LibreTranslateAPI(URL, KEY)


def deep_translator(key: str = KEY, source: str = "en", target: str = "German"):
    return LibreTranslator(source=source, target=target, custom_url=f"{URL}/", api_key=key)


def test_libretranslatepy_translates(libretranslatepy):
    assert libretranslatepy.translate(TEXT, "en", "de", timeout=60) == expected(TEXT)
    assert libretranslatepy.translate("a\n\nÄ+%", "en", "fr") == expected("a\n\nÄ+%", target="fr")


def test_libretranslatepy_detects_the_language(libretranslatepy):
    (first, *_) = libretranslatepy.detect("Wo ist bitte der nächste Bahnhof?")
    assert first["language"] == "de"
    assert first["confidence"] > 50
    assert isinstance(libretranslatepy.translate("Wo ist bitte der nächste Bahnhof?", "auto", "en"), str)


def test_libretranslatepy_lists_languages_with_their_targets(libretranslatepy):
    english = next(each for each in libretranslatepy.languages() if each["code"] == "en")
    assert english["name"] == "English"
    assert "de" in english["targets"]


def test_libretranslatepy_is_told_of_a_wrong_key_and_an_unknown_language(libretranslatepy):
    with pytest.raises(HTTPError, match="403"):
        LibreTranslateAPI(URL, "wrong").translate(TEXT, "en", "de")
    with pytest.raises(HTTPError, match="400"):
        libretranslatepy.translate(TEXT, "en", "xx")


def test_deep_translator_translates_texts_batches_and_files(tmp_path):
    client = deep_translator()
    assert client.translate(TEXT) == expected(TEXT)
    assert client.translate_batch([TEXT, "12", "Zeile\n3"]) == [expected(text) for text in (TEXT, "12", "Zeile\n3")]
    file = tmp_path / "a.txt"
    file.write_text("12 34\n56", encoding="utf-8")
    assert client.translate_file(str(file)) == expected("12 34\n56")


def test_deep_translator_translates_a_text_of_an_unknown_language():
    assert deep_translator(source="auto", target="en").translate("Wo ist bitte der nächste Bahnhof?")


def test_deep_translator_is_told_of_a_wrong_key_and_of_a_direction_that_is_not_served():
    with pytest.raises(AuthorizationException):
        deep_translator(key="wrong").translate(TEXT)
    with pytest.raises(ServerException):
        deep_translator(target="Irish").translate(TEXT)
