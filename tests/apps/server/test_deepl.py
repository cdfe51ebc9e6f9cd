"""DeepL's interface: its own client, unchanged, and what other programs send."""

from __future__ import annotations

import time
from html import escape

import pytest

from nmt import Translator
from nmt.apps.server.deepl import read_xml
from nmt.training.run import start_run
from tests.tiny import small_config, write_digits

PAGE = b"<!doctype html><p>12 <b>34</b></p>"


@pytest.fixture(scope="module")
def two(two_run):
    return Translator.load(two_run, device="cpu", precision="fp32")


@pytest.fixture
def deepl(running):
    package = pytest.importorskip("deepl", reason="needs deepl")
    client = package.DeepLClient("any", server_url=running.url)
    yield client
    client.close()


def ask(server, path="translate", key="", **body):
    headers = {"Authorization": f"DeepL-Auth-Key {key}"} if key else {}
    return server.client.post(f"/v2/{path}", json=body, headers=headers)


@pytest.mark.parametrize(("code", "language", "name"), [("de", "DE", "German"), ("wol", "WOL", "Wolof")])
def test_a_formality_is_a_tag_that_the_model_learned(start, tmp_path, monkeypatch, code, language, name):
    write_digits(tmp_path, num_train=20, num_held_out=2)
    train = [{"tsv": str(tmp_path / "train.tsv"), "tag": tag} for tag in ("<formal>", "<informal>")]
    config = small_config(tmp_path, data={"tgt_lang": code, "train": train}, training={"max_updates": 4})
    assert start_run(config, tmp_path / "run")
    server = start([tmp_path / "run"])
    expected, read = Translator.load(tmp_path / "run", device="cpu", precision="fp32"), []
    translator = server.models.served[0].translator
    segment = translator.segment
    monkeypatch.setattr(translator, "segment", lambda texts, asked: read.extend(texts) or segment(texts, asked))
    for formality, tag in {"more": "<formal> ", "prefer_less": "<informal> ", "default": ""}.items():
        answer = ask(server, text=["12", "34"], target_lang=language, source_lang="EN", formality=formality).json()
        found = [each["text"] for each in answer["translations"]]
        assert found == [each.text for each in expected.translate([f"{tag}12", f"{tag}34"])]
        assert read[-2:] == [f"{tag}12", f"{tag}34"]
    languages = server.client.get("/v2/languages?type=target").json()
    assert languages == [{"language": language, "name": name, "supports_formality": True}]


def test_deepls_client_translates_texts(deepl, two):
    texts = ["12345", "", "12\n345", " 6 "]
    expected = [translation.text for translation in two.translate(texts, to="de")]
    found = deepl.translate_text(texts, source_lang="EN", target_lang="DE", context="ignored", split_sentences="0")
    assert [each.text for each in found] == expected
    assert {each.detected_source_lang for each in found} == {"EN"}
    assert deepl.translate_text("12345", target_lang="FR").text == two.translate(["12345"], to="fr")[0].text


def test_a_text_that_is_in_the_target_language_already_comes_back_as_it_is(running, two):
    language = pytest.importorskip("py3langid", reason="needs py3langid") and "de"
    german = "Das ist ein langer deutscher Satz, den hier jeder lesen kann, und nichts anderes."
    english = "This is a long English sentence that anyone can read here, and nothing else at all."
    assert running.client.post("/detect", json={"q": german}).json()[0]["language"] == language
    answer = ask(running, text=[german, english], target_lang="DE").json()["translations"]
    assert [each["detected_source_language"] for each in answer] == ["DE", "EN"]
    assert answer[0]["text"] == german
    assert answer[1]["text"] == two.translate([english], to="de")[0].text
    for source, target in (("DE", "DE"), ("EN", "EN-US"), ("en-GB", "en")):
        for options in ({}, {"tag_handling": "xml"}, {"formality": "more"}):
            named = ask(running, text=[german], target_lang=target, source_lang=source, **options)
            assert named.json()["translations"][0]["text"] == german
    unknown = ask(running, text=[german], target_lang="XX", source_lang="XX")
    assert unknown.status_code == 400


def test_deepls_client_keeps_tags(deepl, running):
    written = deepl.translate_text('12 <x id="1"></x> 34', source_lang="DE", target_lang="EN-US", tag_handling="xml")
    assert written.text.count('<x id="1"></x>') == 1
    page = deepl.translate_text(PAGE.decode(), source_lang="DE", target_lang="EN-GB", tag_handling="html").text
    known = running.translate(q=PAGE.decode(), source="de", target="en", format="html").json()
    assert page == known["translatedText"]
    kept = deepl.translate_text(
        "<p>12</p><p><k>3 4</k> 5</p>",
        source_lang="DE",
        target_lang="EN-GB",
        tag_handling="xml",
        ignore_tags="k",
        splitting_tags=["p"],
    ).text
    assert kept.startswith("<p>")
    assert kept.count("</p><p>") == kept.count("<k>3 4</k>") == 1


def test_deepls_client_translates_a_document(deepl, running, tmp_path):
    known = running.translate(q=PAGE.decode(), source="de", target="en", format="html").json()["translatedText"]
    (tmp_path / "a.html").write_bytes(PAGE)
    paths = tmp_path / "a.html", tmp_path / "b.html"
    status = deepl.translate_document_from_filepath(*paths, source_lang="DE", target_lang="EN-US")
    assert (status.done, status.ok, status.billed_characters) == (True, True, len(PAGE))
    assert paths[1].read_text() == known
    handle = deepl.translate_document_upload(b"\xff", filename="a.html", source_lang="DE", target_lang="EN-US")
    status = deepl.translate_document_wait_until_done(handle)
    assert (status.ok, status.error_message) == (False, "neither UTF-8 nor UTF-16")
    import deepl as package

    with pytest.raises(package.DeepLException, match="Bad request"):
        deepl.translate_document_download(handle)
    with pytest.raises(package.DeepLException, match="this document does not exist"):
        deepl.translate_document_get_status(package.DocumentHandle(handle.document_id, "wrong"))


def test_deepls_client_keeps_glossaries_and_translates_with_them(deepl):
    import deepl as package

    glossary = deepl.create_glossary("of a test", "DE", "EN", {"#34": "xyzzy", "5 6": "plugh"})
    assert (glossary.entry_count, glossary.ready, glossary.source_lang) == (2, True, "DE")
    assert deepl.get_glossary(glossary.glossary_id).name == "of a test"
    assert glossary.glossary_id in [each.glossary_id for each in deepl.list_glossaries()]
    assert deepl.get_glossary_entries(glossary) == {"#34": "xyzzy", "5 6": "plugh"}
    assert ("de", "en") in [(pair.source_lang, pair.target_lang) for pair in deepl.get_glossary_languages()]
    deepl.translate_text("12 34", source_lang="DE", target_lang="EN-US", glossary=glossary)
    with pytest.raises(package.DeepLException, match="this glossary is for de-en"):
        deepl.translate_text("12", source_lang="EN", target_lang="DE", glossary=glossary.glossary_id)
    deepl.delete_glossary(glossary)
    with pytest.raises(package.GlossaryNotFoundException):
        deepl.get_glossary(glossary.glossary_id)
    table = deepl.create_glossary_from_csv("csv", "DE", "EN", 'a,"b, c",de,en\n')
    assert deepl.get_glossary_entries(table) == {"a": "b, c"}


def test_deepls_client_lists_languages_and_usage(deepl):
    assert [each.code for each in deepl.get_source_languages()] == ["EN", "DE"]
    assert [each.code for each in deepl.get_target_languages()] == ["DE", "FR", "EN-GB", "EN-US"]
    before = deepl.get_usage().character.count
    deepl.translate_text("12345", source_lang="EN", target_lang="DE")
    assert deepl.get_usage().character.count == before + 5
    assert not deepl.get_usage().any_limit_reached


def test_a_form_may_repeat_the_text(running):
    content = "text=12&text=345&target_lang=de&source_lang=en&split_sentences=1"
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = running.client.post("/v2/translate", content=content, headers=form).json()
    same = ask(running, text=["12", "345"], target_lang="DE", source_lang="en").json()
    assert answer == same
    one = running.client.post("/v2/translate", data={"text": "12", "target_lang": "DE", "source_lang": "EN"}).json()
    assert one["translations"] == same["translations"][:1]


def test_fields_in_the_query_string_count_as_those_of_the_form_as_libreoffice_sends_them(configure, tmp_path):
    (tmp_path / "keys").write_text("secret-key\n")
    server = configure(keys=tmp_path / "keys")
    fields = {"auth_key": "secret-key", "target_lang": "EN-US", "source_lang": "DE", "text": PAGE.decode()}
    answer = server.client.post("/v2/translate?tag_handling=html", data=fields)
    assert answer.json()["translations"][0]["text"].startswith("<!doctype html><p>")


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"target_lang": "DE"}, 400, "Invalid request: missing text parameter"),
        ({"text": [], "target_lang": "DE"}, 400, "Invalid request: missing text parameter"),
        ({"text": ["1"]}, 400, "Invalid request: missing target_lang parameter"),
        (
            {"text": ["1"], "target_lang": "XX"},
            400,
            "target or target_lang: XX is not supported; this server translates into German (de)",
        ),
        ({"text": ["1"], "target_lang": "DE", "formality": "more"}, 400, "'formality' is not supported for given"),
        ({"text": ["1"], "target_lang": "DE", "tag_handling": "pdf"}, 400, "Invalid request: tag_handling: Input"),
        (
            {"text": ["1"], "target_lang": "DE", "source_lang": "EN", "glossary_id": "none"},
            404,
            "there is no such glos",
        ),
        ({"text": ["1"], "target_lang": "DE", "glossary_id": "none"}, 400, "a glossary needs source_lang"),
        ({"text": ["1", "<a>"], "target_lang": "DE", "tag_handling": "xml"}, 400, "Invalid request: line 1: not well-"),
        ({"text": ["1"], "target_lang": "DE", "style_id": "x"}, 400, "Invalid request: style_id: not supported"),
        ({"text": ["1" * 20_001], "target_lang": "DE"}, 400, "20,001 characters in one request"),
    ],
)
def test_what_is_wrong_with_a_request_is_told_as_deepl_does(running, body, status, message):
    answer = ask(running, **body)
    assert (answer.status_code, answer.json()["message"][: len(message)]) == (status, message)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("", "0 terms"),
        ("a", "no translation of a"),
        ("a\tb\na\tc", '"a" has two translations'),
        ("".join(f"a{number}\tb\n" for number in range(10_001)), "10,001 terms"),
    ],
)
def test_a_glossary_that_cannot_be_used_is_refused(running, entries, message):
    answer = ask(running, "glossaries", name="x", source_lang="en", target_lang="de", entries=entries)
    assert answer.status_code == 400
    assert f"Invalid glossary entries provided: {message}" in answer.json()["message"]


def test_a_glossary_of_several_directions_is_kept_changed_and_used(running):
    terms = {"source_lang": "DE", "target_lang": "EN", "entries": "#34\txyzzy", "entries_format": "tsv"}
    back = terms | {"source_lang": "EN", "target_lang": "DE", "entries": "a,b", "entries_format": "csv"}
    client, at = running.client, "/v3/glossaries"
    made = client.post(at, json={"name": "two", "dictionaries": [terms, back]}).json()
    assert [each["entry_count"] for each in made["dictionaries"]] == [1, 1]
    one, number = f"{at}/{made['glossary_id']}", made["glossary_id"]
    listed = {version: client.get(f"/{version}/glossaries").json()["glossaries"] for version in ("v2", "v3")}
    assert [number in [each["glossary_id"] for each in found] for found in listed.values()] == [False, True]
    more = client.patch(
        one, json={"name": "more", "dictionaries": [terms | {"entries": "#34\tmoon\n5 6\tplugh"}]}
    ).json()
    assert (more["name"], [each["entry_count"] for each in more["dictionaries"]]) == ("more", [2, 1])
    query = {"source_lang": "de", "target_lang": "en"}
    (found,) = client.get(f"{one}/entries", params=query).json()["dictionaries"]
    assert found["entries"] == "#34\tmoon\n5 6\tplugh"
    assert ask(running, "translate", text=["#34"], glossary_id=number, **query).status_code == 200
    assert client.put(f"{one}/dictionaries", json=terms).json()["entry_count"] == 1
    assert client.delete(f"{one}/dictionaries", params=query).status_code == 204
    for answer in (
        client.delete(f"{one}/dictionaries", params=query),
        client.get(f"{one}/entries"),
        client.patch(f"{one}x", json={"name": "no"}),
    ):
        assert answer.status_code == 404
    assert client.patch(one, json={"dictionaries": [terms | {"target_lang": "xx"}]}).status_code == 400
    assert client.get(one).json()["source_lang"] == "en"  # of the one direction that is left, for version 2
    assert client.delete(one).status_code == 204


def test_a_glossary_may_come_in_the_fields_of_a_form_as_deepls_node_client_sends_it(running):
    client, at = running.client, "/v3/glossaries"
    there = {"source_lang": "DE", "target_lang": "EN", "entries": "#34\txyzzy"}
    back = {"source_lang": "EN", "target_lang": "DE", "entries": 'a,"b, c"', "entries_format": "csv"}
    fields = {f"dictionaries[{i}].{key}": each[key] for i, each in ((1, there), (0, back)) for key in each}
    parts = {name: (None, value) for name, value in {**fields, "name": "form"}.items()}  # of multipart/form-data
    for made in (client.post(at, data={**fields, "name": "form"}), client.post(at, files=parts)):
        one = f"{at}/{made.json()['glossary_id']}"
        assert {each["source_lang"] for each in made.json()["dictionaries"]} == {"de", "en"}
        (found,) = client.get(f"{one}/entries?source_lang=en&target_lang=de").json()["dictionaries"]
        assert found["entries"] == "a\tb, c"
    changed = client.patch(one, data={"dictionaries[0].source_lang": "de", "dictionaries[0].target_lang": "en"})
    assert changed.json()["message"] == "Invalid request: missing dictionaries.0.entries parameter"
    empty = client.post(at, data={"name": "none yet"})
    assert (empty.status_code, empty.json()["dictionaries"]) == (201, [])
    assert client.patch(f"{at}/{empty.json()['glossary_id']}", data=fields).status_code == 200


def test_changes_of_a_glossary_stay_within_the_limits(running, monkeypatch):
    client, at = running.client, "/v3/glossaries"
    terms = {"source_lang": "de", "target_lang": "en", "entries": "a\tb\nc\td"}
    one = f"{at}/{client.post(at, json={'name': 'small', 'dictionaries': [terms]}).json()['glossary_id']}"
    monkeypatch.setattr("nmt.apps.server.deepl._MAX_TERMS", 2)
    for change, message in (
        ({"entries": "e\tf"}, "3 terms; 1 to 2 fit"),
        ({"entries": ""}, None),
        ({"source_lang": "xx"}, "xx is not supported"),
        ({"target_lang": "EN-GB", "entries": "a\tx"}, None),  # a region makes no other direction
    ):
        answer = client.patch(one, json={"dictionaries": [terms | change]})
        assert (answer.status_code == 400) == (message is not None), answer.text
        assert message is None or message in answer.json()["message"]
    (found,) = client.get(f"{one}/entries?source_lang=DE&target_lang=EN").json()["dictionaries"]
    assert (found["entries"], found["entry_count"]) == ("a\tx\nc\td", 2)
    monkeypatch.setattr("nmt.apps.server.deepl.MAX_GLOSSARIES", 1)
    back = terms | {"source_lang": "en", "target_lang": "de"}
    assert client.patch(one, json={"dictionaries": [back]}).status_code == 456
    assert client.put(f"{one}/dictionaries", json=back).status_code == 456
    twice = [terms, terms | {"target_lang": "en-us"}]
    for body in (
        {"dictionaries": [terms]},
        {"name": "x", "dictionaries": twice},
        {"name": "", "dictionaries": [terms]},
    ):
        assert client.post(at, json=body).status_code == 400
    assert client.delete(f"{one}/dictionaries?source_lang=de&target_lang=en").status_code == 204
    number = one.rpartition("/")[2]
    refused = ask(running, "translate", text=["1"], source_lang="de", target_lang="en", glossary_id=number)
    assert (refused.status_code, "glossary is for none" in refused.json()["message"]) == (400, True)
    for dictionaries in ([terms], []):
        assert client.post(at, json={"name": "more", "dictionaries": dictionaries}).status_code == 456
    assert client.delete(one).status_code == 204


def test_more_glossaries_than_fit_are_a_quota_exceeded(running, monkeypatch):
    monkeypatch.setattr("nmt.apps.server.deepl.MAX_GLOSSARIES", 0)
    answer = ask(running, "glossaries", name="x", source_lang="en", target_lang="de", entries="a\tb")
    assert (answer.status_code, answer.json()) == (456, {"message": "the limit is 0 glossaries; delete some"})


def test_keys_are_asked_for_and_tell_the_glossaries_of_clients_apart(configure, tmp_path):
    (tmp_path / "keys").write_text("secret-key-1\nsecret-key-2\n")
    server = configure(keys=tmp_path / "keys")
    asked = {"text": ["12"], "target_lang": "DE"}
    assert ask(server, **asked).json() == {"message": "this server needs an API key"}
    refused = ask(server, key="secret-key", **asked)
    assert (refused.status_code, refused.json()) == (403, {"message": "unknown API key"})
    assert ask(server, key="secret-key-1", **asked).status_code == 200
    terms = {"name": "x", "source_lang": "en", "target_lang": "de", "entries": "a\tb"}
    number = ask(server, "glossaries", "secret-key-1", **terms).json()["glossary_id"]
    for key, status in (("secret-key-1", 200), ("secret-key-2", 404)):
        headers = {"Authorization": f"DeepL-Auth-Key {key}"}
        assert server.client.get(f"/v2/glossaries/{number}", headers=headers).status_code == status
        assert len(server.client.get("/v2/glossaries", headers=headers).json()["glossaries"]) == (status == 200)
        at = f"/v3/glossaries/{number}"
        for method, path, body in (("PATCH", at, {}), ("PUT", f"{at}/dictionaries", terms), ("GET", at, None)):
            assert server.client.request(method, path, json=body, headers=headers).status_code == status


def test_a_document_is_not_sent_before_it_is_translated_and_too_many_wait(running, monkeypatch):
    monkeypatch.setattr("nmt.apps.server.deepl.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("nmt.apps.server.deepl.MAX_DOCUMENTS", 1)
    served = running.models.served[1].batcher
    translate, pause = served.translate, []
    monkeypatch.setattr(served, "translate", lambda batch: (pause.append(time.sleep(0.3)), translate(batch))[1])
    form = {"data": {"source_lang": "DE", "target_lang": "EN"}, "files": {"file": ("a.html", PAGE)}}
    sent = running.client.post("/v2/document", **form).json()
    key = {"document_key": sent["document_key"]}
    assert ask(running, f"document/{sent['document_id']}", **key).json()["status"] == "translating"
    early = ask(running, f"document/{sent['document_id']}/result", **key)
    assert (early.status_code, early.json()["message"]) == (503, "this document is still being translated")
    assert running.client.post("/v2/document", **form).status_code == 429
    monkeypatch.setattr("nmt.apps.server.deepl.PATIENCE_SECONDS", 60.0)
    assert ask(running, f"document/{sent['document_id']}", **key).json()["status"] == "done"
    assert ask(running, f"document/{sent['document_id']}/result", **key).status_code == 200
    assert running.client.post("/v2/document", **form).status_code == 200


def test_a_document_that_is_none_is_refused_at_once(running, configure):
    def sent(server, name="a.html", **fields):
        answer = server.client.post("/v2/document", data=fields, files={"file": (name, PAGE)})
        return answer.status_code, answer.json()["message"]

    assert sent(running, target_lang="xx", source_lang="de")[1].startswith("target or target_lang: xx is not supported")
    assert sent(configure(file_limit=0), target_lang="en") == (403, "this server does not translate documents")
    assert running.client.post("/v2/none").json() == {"message": "Not Found"}


@pytest.mark.parametrize(
    ("sent", "text", "written"),
    [
        ("Salt & pepper", "Salt & pepper", "Salt &amp; pepper"),
        ("1&nbsp;2 &eacute; &amp; &#38; 3", "1\xa02 é & & 3", "1\xa02 é &amp; &amp; 3"),
        ("AT&T; &unknown; 1", "AT&T; &unknown; 1", "AT&amp;T; &amp;unknown; 1"),
        ("<!DOCTYPE html>12", "12", "<!DOCTYPE html>12"),
        ('<?xml version="1.0"?>\n<!DOCTYPE x SYSTEM "a">1', "1", '<?xml version="1.0"?>\n<!DOCTYPE x SYSTEM "a">1'),
    ],
)
def test_xml_is_read_as_programs_write_it(running, sent, text, written):
    template = read_xml(sent, (), ())
    assert [block.plain() for block in template.blocks] == [text]
    assert template.join([escape(block.plain(), quote=False) for block in template.blocks]) == written
    options = {"target_lang": "EN", "source_lang": "DE", "tag_handling": "xml"}
    assert ask(running, text=[sent], **options).status_code == 200
    assert ask(running, text=["<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"], **options).status_code == 400


def test_options_that_deepl_refuses_are_refused_and_the_kind_of_model_is_named(running):
    asked = {"text": ["12"], "target_lang": "DE", "source_lang": "EN"}
    assert ask(running, **asked, split_sentences="invalid").status_code == 400
    assert ask(running, **asked, model_type="fast").status_code == 400
    for split in ("0", "1", "nonewlines", None):
        assert ask(running, **asked, split_sentences=split).status_code == 200
    for kind in ("latency_optimized", "prefer_quality_optimized"):
        (answer,) = ask(running, **asked, model_type=kind).json()["translations"]
        assert answer["model_type_used"] == kind.removeprefix("prefer_")
    assert "model_type_used" not in ask(running, **asked).json()["translations"][0]


def test_short_texts_in_several_languages_are_each_detected(running, two):
    texts = ["Ich habe nicht das Buch", "She has the book", "Я не знаю", "12", "Elle est dans la maison"]
    answer = ask(running, text=texts, target_lang="DE").json()["translations"]
    assert [each["detected_source_language"] for each in answer[:2]] == ["DE", "EN"]
    expected = [texts[0], two.translate([texts[1]], to="de")[0].text, texts[2], two.translate(["12"], to="de")[0].text]
    assert [each["text"] for each in answer[:4]] == expected
    assert (answer[4]["detected_source_language"], answer[4]["text"]) == ("FR", texts[4])  # no model reads French


def test_what_only_deepl_has_is_refused_and_not_left_out(running):
    for field in ("style_id", "translation_memory_id", "custom_instructions", "glossary_ids"):
        answer = ask(running, text="12", source_lang="EN", target_lang="DE", **{field: "3a"})
        assert (answer.status_code, field in answer.json()["message"]) == (400, True)
        assert ask(running, text="12", source_lang="EN", target_lang="DE", **{field: None}).status_code == 200


def test_tags_may_come_in_repeated_fields_of_a_form(running):
    fields = {"text": "<a>1 <b>2</b> <c>3</c></a>", "source_lang": "DE", "target_lang": "EN", "tag_handling": "xml"}
    joined = running.client.post("/v2/translate", data={**fields, "ignore_tags": "b,c"}).json()
    assert running.client.post("/v2/translate", data={**fields, "ignore_tags": ["b", "c"]}).json() == joined
    assert "<b>2</b>" in joined["translations"][0]["text"]
    assert "<c>3</c>" in joined["translations"][0]["text"]


@pytest.mark.parametrize(("wanted", "status"), [("", 200), ("docx", 400)])
def test_a_document_in_another_format_is_refused(running, wanted, status):
    fields = {"source_lang": "DE", "target_lang": "EN", "output_format": wanted}
    answer = running.client.post("/v2/document", data=fields, files={"file": ("a.html", PAGE)})
    assert answer.status_code == status, answer.text
