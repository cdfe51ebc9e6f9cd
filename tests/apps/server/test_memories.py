"""A server with translation memories: one for all clients, and those of API keys."""

from __future__ import annotations

import json

import pytest

from nmt.base.errors import DataError

pytest.importorskip("rapidfuzz", reason="needs rapidfuzz")

QUESTION = {"source": "en", "target": "de"}


def write_tmx(path, *units):
    """Write a memory of units such as {"en": "12", "de": "known"}."""
    written = [
        "<tu>" + "".join(f'<tuv xml:lang="{c}"><seg>{text}</seg></tuv>' for c, text in unit.items()) + "</tu>"
        for unit in units
    ]
    path.write_text(f'<tmx version="1.4"><header/><body>{"".join(written)}</body></tmx>', encoding="utf-8")
    return str(path)


@pytest.fixture
def server(configure, tmp_path):
    units = {"en": "12 345", "de": "known", "fr": "connu"}, {"de": "98", "en": "eight"}, {"es": "1", "it": "2"}
    return configure(tm=write_tmx(tmp_path / "all.tmx", *units))


def test_a_text_that_the_memory_has_is_answered_from_it_and_a_similar_one_is_offered(server, running):
    known = server.translate(q="\n12 345 ", **QUESTION, flags=True, alternatives=2).json()
    pair = {"source": "12 345", "target": "known", "similarity": 1.0}
    assert known == {
        "translatedText": "\nknown ",
        "alternatives": [],
        "flags": {"from_memory": True},
        "memory": pair,
    }
    texts = ["12 346", "777 777", "12 345"]
    answer, plain = (each.translate(q=texts, **QUESTION).json() for each in (server, running))
    assert answer["translatedText"] == [*plain["translatedText"][:2], "known"]
    similar, *rest = answer["memory"]
    assert (similar["target"], similar["similarity"], rest) == ("known", pytest.approx(5 / 6), [None, pair])
    assert "memory" not in plain
    assert "memory" not in server.translate(q="777 777", **QUESTION).json()
    assert server.translate(q="12 345", source="en", target="fr").json()["translatedText"] == "connu"
    assert server.translate(q="98", source="de", target="en").json()["translatedText"] == "eight"


def test_a_known_text_is_found_behind_the_marker_of_a_list_and_keeps_it(configure, tmp_path):
    server = configure(tm=write_tmx(tmp_path / "all.tmx", {"en": "Good day.", "de": "Tag."}))
    known = server.translate(q=["\n7. Good day. ", "a) Good day.\n\n- Good day."], **QUESTION, flags=True).json()
    assert known["translatedText"] == ["\n7. Tag. ", "a) Tag.\n\n- Tag."]
    assert known["memory"][0] == {"source": "7. Good day.", "target": "7. Tag.", "similarity": 1.0}


def test_similar_texts_get_the_same_answers_as_without_a_memory(server, running):
    for text in ("12 346", "12 345 7", "12\n344", "<p>12 346</p>", "12 %d 345"):
        for options in ({}, {"alternatives": 2}, {"format": "html"}, {"flags": True}):
            with_memory, plain = (each.translate(q=text, **QUESTION, **options).json() for each in (server, running))
            with_memory.pop("memory", None)
            assert with_memory == plain, (text, options)


def test_a_stream_tells_the_pair_in_the_first_line_of_its_text(server):
    answer = server.translate(q=["12 34\n5", "12 345"], **QUESTION, stream=True, details=True)
    lines = {}
    for line in map(json.loads, answer.text.splitlines()[:-1]):
        lines.setdefault(line["index"], []).append(line)
    assert [line["text"] for line in lines[1]] == ["known"]
    assert lines[1][0]["memory"]["similarity"] == 1
    assert "details" in lines[0][0]
    assert [line.get("memory", {}).get("target") for line in lines[0]] == ["known", None]


def test_every_interface_takes_known_texts_from_the_memory(server):
    page = server.translate(q="<p>12 345</p><p>1</p>", **QUESTION, format="html", flags=True).json()
    assert page["translatedText"].startswith("<p>known</p><p>")
    body = {"text": ["12 345"], "target_lang": "DE", "source_lang": "EN", "flags": True}
    (answer,) = server.client.post("/v2/translate", json=body).json()["translations"]
    assert (answer["text"], answer["flags"]) == ("known", {"from_memory": True})
    chat = {"model": "en-de", "messages": [{"role": "user", "content": "12 345"}]}
    (choice,) = server.client.post("/v1/chat/completions", json=chat).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("known", "stop")
    sent = {"file": ("a.html", b"<p>12 345</p><p>1</p>")}
    found = server.client.post("/translate_file", data=QUESTION, files=sent).json()
    path = found["translatedFileUrl"].removeprefix("http://test")
    assert server.client.get(path).text == page["translatedText"]


def test_a_known_text_is_not_taken_from_the_memory_if_it_has_tags(server, running):
    asked = {"q": "<p>12 <b>345</b></p>", **QUESTION, "format": "html"}
    assert server.translate(**asked).json() == running.translate(**asked).json()


def test_a_text_that_leads_through_a_third_language_is_looked_up_in_its_own_direction(configure, tmp_path):
    units = {"de": "12 345", "fr": "connu"}, {"de": "1", "en": "one"}
    server = configure(tm=write_tmx(tmp_path / "a.tmx", *units))
    answer = server.translate(q=["12 345", "12 346", "1"], source="de", target="fr").json()
    plain = configure().translate(q=["12 345", "12 346", "1"], source="de", target="fr").json()
    assert answer["translatedText"] == ["connu", *plain["translatedText"][1:]]
    assert [each and each["target"] for each in answer["memory"]] == ["connu", "connu", None]


def test_a_key_may_have_its_own_memory_instead(configure, tmp_path):
    own = write_tmx(tmp_path / "own.tmx", {"en": "12 345", "de": "of Ann"})
    (tmp_path / "keys").write_text(f"key-of-ann\t{own}  # Ann\nkey-of-bob # Bob\n")
    server = configure(keys=tmp_path / "keys", tm=write_tmx(tmp_path / "all.tmx", {"en": "12 345", "de": "of all"}))
    for key, text in (("key-of-ann", "of Ann"), ("key-of-bob", "of all")):
        answer = server.translate(q="12 345", **QUESTION, api_key=key)
        assert answer.json()["translatedText"] == text
        headers = {"Authorization": f"DeepL-Auth-Key {key}"}
        body = {"text": "12 345", "target_lang": "DE", "source_lang": "EN"}
        answer = server.client.post("/v2/translate", json=body, headers=headers).json()
        assert answer["translations"][0]["text"] == text
    assert server.translate(q="12 345", **QUESTION).status_code == 403


def test_long_texts_are_looked_up_in_a_thread_with_the_same_result(server):
    text = "12 345 " * 400
    assert server.translate(q=[text, "12 345"], **QUESTION).json()["memory"][1]["similarity"] == 1


@pytest.mark.parametrize(
    ("name", "units", "message"),
    [
        ("a.tsv", (), "a.tsv: this is not TMX"),
        ("a.tmx", ({"es": "1", "it": "2"},), "no unit has both en and de"),
        ("a.tmx", ({"en": "1"}, {"de": "2"}), "no unit has both en and de"),
    ],
)
def test_a_file_that_is_no_memory_for_the_models_stops_the_server_at_its_start(
    configure, tmp_path, name, units, message
):
    with pytest.raises(DataError, match=message):
        configure(tm=write_tmx(tmp_path / name, *units))
    with pytest.raises(DataError, match="no such file"):
        configure(tm=str(tmp_path / "none.tmx"))
