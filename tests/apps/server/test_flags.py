"""Clients and readers are told what looks wrong with a translation."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest

from nmt.translation import Translation
from nmt.translation.translation import FLAGS, merge
from tests.translation.test_confidence import calibrate

QUESTION = {"source": "en", "target": "de"}


def test_the_flags_that_are_set_are_those_of_the_translation():
    assert Translation("a").flags == {}
    translation = Translation("a", loop_unresolved=True, protected_lost=["%d"])
    assert translation.flags == {"loop_unresolved": True, "protected_lost": ["%d"]}
    parts = [{}, {"protected_lost": ["b", "a"]}, {"protected_lost": ["a"], "truncated": True}]
    assert merge(parts) == {"truncated": True, "protected_lost": ["b", "a"]}


def test_pages_and_documents_keep_protected_spans_whatever_the_model_learned(running):
    pages = ["<p>12 %d</p>", "<p>3</p>"]
    answer = running.translate(q=pages, **QUESTION, format="html", flags=True).json()
    assert "%d" in answer["translatedText"][0]
    assert all("protected_lost" not in flags for flags in answer.get("flags", []))
    sent = {"file": ("a.html", pages[0].encode())}
    answer = running.client.post("/translate_file", data=QUESTION, files=sent).json()
    assert "protected_lost" not in answer.get("flags", {})


def test_every_interface_hands_out_the_flags_if_the_request_asks_for_them(running, monkeypatch):
    looping = {"loop_unresolved": True}
    monkeypatch.setattr(Translation, "flags", looping)
    asked = {**QUESTION, "flags": True}
    assert running.translate(q="12", **asked).json()["flags"] == looping
    assert running.translate(q="<b>12</b>", **asked, format="html").json()["flags"] == looping
    assert running.translate(q=["12", "3"], **asked).json()["flags"] == [looping, looping]
    lines = running.translate(q="12\n3", **asked, stream=True).text.splitlines()
    assert [json.loads(line).get("flags") for line in lines] == [looping, looping, None]
    body = {"model": "en-de", "messages": [{"role": "user", "content": "12"}], "n": 2, "flags": True}
    chosen = running.client.post("/v1/chat/completions", json=body).json()["choices"]
    assert [choice.get("flags") for choice in chosen] == [looping, None]
    events = running.client.post("/v1/chat/completions", json={**body, "stream": True}).text.split("\n\n")
    chunks = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events if "{" in event]
    assert [chunk["flags"] for chunk in chunks if "flags" in chunk] == [looping]
    assert running.client.get("/frontend/settings").json()["flags"] == FLAGS


def test_no_translation_is_checked_unless_the_request_asks_for_it(running, monkeypatch):
    monkeypatch.setattr(Translation, "flags", property(lambda _: 1 / 0))
    for options in ({}, {"format": "html"}, {"stream": True}):
        answer = running.translate(q="12 %d", **QUESTION, **options)
        assert answer.status_code == 200
        assert "flags" not in answer.text
        assert "error" not in answer.text
    body = {"model": "en-de", "messages": [{"role": "user", "content": "12"}]}
    assert "flags" not in running.client.post("/v1/chat/completions", json=body).json()["choices"][0]


@pytest.mark.parametrize("flag", FLAGS)
def test_the_page_takes_what_the_flags_mean_from_the_server_alone(flag):
    script = (files("nmt.apps.server") / "static" / "app.js").read_text(encoding="utf-8")
    assert "settings.flags" in script
    assert not re.search(rf"\b{flag}\b", script)


def test_a_calibrated_model_tells_the_expected_chrf_through_every_interface(start, words_run, tmp_path):
    server = start([calibrate(words_run, tmp_path / "run").path])
    src, tgt = next(iter(server.models.directions))
    languages = {"source": src, "target": tgt}
    text = "tipu rube. lalo vavulu."
    whole = server.translate(q=text, **languages, flags=True).json()["expected_chrf"]
    lines = server.translate(q=text, **languages, flags=True, stream=True).text.splitlines()
    each = [line["expected_chrf"] for line in map(json.loads, lines) if "text" in line]
    assert len(each) == 2
    assert min(each) <= whole <= max(each)
    assert server.translate(q=[text, "!!!"], **languages, flags=True).json()["expected_chrf"] == [whole, None]
    assert "expected_chrf" not in server.translate(q="!!!", **languages, flags=True).json()
    body = {"model": f"{src}-{tgt}", "messages": [{"role": "user", "content": text}], "flags": True}
    (choice,) = server.client.post("/v1/chat/completions", json=body).json()["choices"]
    assert choice["expected_chrf"] == whole
    assert "expected_chrf" not in server.translate(q=text, **languages).json()


def test_a_model_without_calibration_tells_none(running):
    assert "expected_chrf" not in running.translate(q="12", **QUESTION, flags=True).text
