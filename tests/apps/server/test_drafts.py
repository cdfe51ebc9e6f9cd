"""A request may have a draft, a translation to expect; no answer depends on it."""

from __future__ import annotations

import json

import pytest

QUESTION = {"source": "en", "target": "de"}
TEXTS = ["12", "12 3 45", "1 2\n3 4 5\n\n6", "see %d at http://a.b/c 12"]


def answers(running, text: str, **options: object) -> list[str]:
    """The bodies of the answer, of the same with alternatives, and of the stream."""
    bodies = [{}, {"alternatives": 2}, {"stream": True, "details": True, "flags": True}]
    headers = {"Content-Type": "application/json"}  # with escapes, so that lone surrogates arrive
    contents = [json.dumps({"q": text, **QUESTION, **body, **options}) for body in bodies]
    found = [running.client.post("/translate", content=content, headers=headers) for content in contents]
    assert [answer.status_code for answer in found] == [200] * len(bodies)
    return [answer.text for answer in found]


@pytest.mark.parametrize("text", TEXTS)
def test_no_answer_depends_on_the_draft(running, text):
    expected = answers(running, text)
    own = running.translate(q=text, **QUESTION).json()["translatedText"]
    hostile = [
        "",
        " ",
        "\n\n\n",
        "\x00",
        "\ud800",
        "</s>",
        "<2fr> <pad>",
        "{h0} %d",
        "7 " * 5000,
        "漢" * 3000,
        "." * 9999,
    ]
    for draft in [own, own[:-1], own + " 9", own[::-1], *hostile]:
        assert answers(running, text, draft=draft) == expected, draft[:20]


def test_lists_and_pages_ignore_drafts_and_limits_count_them(running):
    for options in ({"q": ["12", "3"]}, {"q": "<p>12</p>", "format": "html"}):
        with_draft = running.translate(**options, **QUESTION, draft="9 9 9")
        assert with_draft.text == running.translate(**options, **QUESTION).text
    refused = running.translate(q="12", **QUESTION, draft="9" * 1_000_000)
    assert refused.status_code in (400, 413)
