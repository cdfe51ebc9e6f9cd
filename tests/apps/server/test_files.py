"""Documents that are uploaded come back translated, their structure kept."""

from __future__ import annotations

import threading
import zipfile
from io import BytesIO

import pytest

from nmt.apps.documents import markup
from nmt.apps.documents.blocks import Template
from nmt.apps.server import files
from nmt.apps.server.files import Kept
from nmt.apps.server.requests import RequestError
from tests.words import WORDS

ONE, TWO, THREE, *_ = WORDS
PAGE = b"<!doctype html><p>12 <b>34</b></p><ul><li>5</ul>"


def send(running, name="a.html", content=PAGE, **fields):
    fields = {"source": "de", "target": "en", **fields}
    return running.client.post("/translate_file", data=fields, files={"file": (name, content)})


def test_a_document_is_translated_as_its_blocks_are(running):
    answer = send(running)
    assert answer.status_code == 200, answer.text
    assert answer.json()["translatedFileUrl"].startswith(running.url + "/download_file/")
    found = running.client.get(answer.json()["translatedFileUrl"])
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''a.en.html"
    page = running.translate(q=PAGE.decode(), source="de", target="en", format="html").json()["translatedText"]
    assert found.text == page


@pytest.mark.parametrize(("lines", "texts"), [("keep", [ONE, TWO]), ("join", [f"{ONE} {TWO}"])])
def test_the_lines_of_a_text_are_kept_or_joined_as_the_client_says(running, lines, texts):
    answer = send(running, "a.txt", f"{ONE}\n{TWO}\n".encode(), lines=lines)
    assert answer.status_code == 200, answer.text
    found = running.client.get(answer.json()["translatedFileUrl"]).text
    expected = [running.translate(q=text, source="de", target="en").json()["translatedText"] for text in texts]
    assert found.split() == " ".join(expected).split()
    assert send(running, "a.html", lines=lines).status_code == 400
    assert send(running, "a.txt", b"12", lines="both").status_code == 400


def test_a_document_names_the_language_of_its_translation(running):
    page = b'<html lang="de"><p>12</p></html>'
    found = running.client.get(send(running, content=page).json()["translatedFileUrl"])
    assert found.text.startswith('<html lang="en"><p>')


def test_slides_are_translated_and_their_other_files_stay(running):
    content, xml = BytesIO(), "<p:sld xmlns:p='p' xmlns:a='a'><a:p><a:r><a:t>12</a:t></a:r></a:p></p:sld>"
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("ppt/slides/slide1.xml", xml)
        archive.writestr("ppt/theme.xml", "<a>34</a>")
    answer = send(running, "a.pptx", content.getvalue())
    assert answer.status_code == 200, answer.text
    found = running.client.get(answer.json()["translatedFileUrl"])
    text = running.translate(q="12", source="de", target="en").json()["translatedText"]
    with zipfile.ZipFile(BytesIO(found.content)) as archive:
        assert archive.read("ppt/slides/slide1.xml").decode() == xml.replace("12", text)
        assert archive.read("ppt/theme.xml") == b"<a>34</a>"


def test_the_language_of_a_document_is_detected_and_its_name_is_made_safe(running):
    answer = send(running, name="../../a b\u00e9\n.html", source="auto", target="en")
    answer = answer if answer.status_code == 200 else send(running, name="../../a b.html", source="auto", target="de")
    found = running.client.get(answer.json()["translatedFileUrl"])
    assert ".." not in found.headers["content-disposition"]


@pytest.mark.parametrize(
    ("text", "language", "is_known"),
    [
        ("Ich habe nicht das Buch, das ist in dem Haus.", "de", True),
        ("She has the book in the house.", "en", True),
        ("Я не знаю, что это такое", "en", False),
        ("我不知道这是什么", "en", False),
    ],
)
def test_the_language_that_a_document_is_in_is_told(running, text, language, is_known):
    answer = send(running, "a.txt", text.encode(), source="auto", target="de").json()
    found = answer["detectedLanguage"]
    assert (found["confidence"] >= 1) == is_known
    assert found["language"] == language or not is_known
    translated = running.client.get(answer["translatedFileUrl"]).text
    named = running.translate(q=text, source="en", target="de").json()["translatedText"]
    assert translated == (named if is_known and language == "en" else text)
    assert "detectedLanguage" not in send(running, "a.txt", text.encode(), source="en", target="de").json()


def test_two_documents_in_one_request_are_refused(running):
    twice = [("file", ("a.html", PAGE)), ("file", ("b.html", PAGE))]
    answer = running.client.post("/translate_file", data={"source": "de", "target": "en"}, files=twice)
    assert (answer.status_code, answer.json()["error"][:27]) == (400, "Invalid request: file: Input should"[:27])


NAMES = [("upload", "a.html", 200), ("a.exe", "a.html", 200), ("a.html", "a.exe", 400)]


@pytest.mark.parametrize(("sent", "name", "status"), NAMES)
def test_the_name_of_a_document_may_be_a_field_of_its_own(running, sent, name, status):
    fields, file = {"source": "de", "target": "en", "filename": name}, {"file": (sent, PAGE)}
    assert running.client.post("/translate_file", data=fields, files=file).status_code == status


@pytest.mark.parametrize(("sent", "name", "status"), NAMES)
def test_the_name_of_a_document_may_be_a_field_of_its_own_for_deepl(running, sent, name, status):
    fields, file = {"source_lang": "de", "target_lang": "en", "filename": name}, {"file": (sent, PAGE)}
    handle = running.client.post("/v2/document", data=fields, files=file).json()
    told = "translating"
    while told == "translating":
        key = {"document_key": handle["document_key"]}
        told = running.client.post(f"/v2/document/{handle['document_id']}", json=key).json()["status"]
    assert told == ("done" if status == 200 else "error")


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        ({"name": "a.exe"}, 400, "Invalid file extension: send one of .arb, .docx"),
        ({"content": b"\xff"}, 400, "neither UTF-8 nor UTF-16"),
        ({"name": "a.docx"}, 400, "not a .docx file"),
        ({"name": "a.xlsx"}, 400, "Invalid file extension: send one of .arb, .docx"),
        ({"name": "a.pptx", "content": b"\xd0\xcf\x11\xe0"}, 400, "encrypted, or in an old format"),
        ({"name": "a.odt", "content": b"PK\x03\x04 truncated"}, 400, "not a .odt file"),
        ({"name": "a.pdf", "content": b"%PDF-1.4"}, 400, "Invalid file extension: send one of .arb, .docx"),
        ({"name": "a.xlf", "content": b'<!DOCTYPE x [<!ENTITY a "b">]><xliff/>'}, 400, "it declares entities"),
        ({"name": "a.json", "content": b"[" * 9999}, 400, "not JSON"),
        ({"name": "a.xml", "content": b"<x/>"}, 400, "not a known format: it starts with <x>"),
        ({"target": "xx"}, 400, "target or target_lang: xx is not supported"),
        ({"source": "x" * 36}, 400, "Invalid request: source: String should have at most 35 characters"),
        ({"target": "de-" + "x" * 33}, 400, "Invalid request: target: String should have at most 35 characters"),
        ({"name": "a.srt", "content": b"a"}, 400, "not subtitles"),
        ({"content": b"x" * 2_100_000}, 413, "the body is larger than 2,000,000 bytes"),
    ],
)
def test_what_is_no_document_is_refused(running, sent, status, message):
    answer = send(running, **sent)
    assert (answer.status_code, answer.json()["error"][: len(message)]) == (status, message)


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [(b"x", "text/plain", 415), (b"x", "multipart/form-data; boundary=b", 400), (b"x", "multipart/form-data", 400)],
)
def test_what_is_no_form_is_refused(running, content, kind, status):
    answer = running.client.post("/translate_file", content=content, headers={"content-type": kind})
    assert answer.status_code == status, answer.text
    assert running.client.get("/download_file/none").status_code == 404


def test_a_document_is_sent_only_to_clients_with_a_key(configure, tmp_path):
    (tmp_path / "keys").write_text("secret-key\n")
    server = configure(keys=tmp_path / "keys")
    url = send(server, source="en", target="de", api_key="secret-key").json()["translatedFileUrl"]
    assert server.client.get(url).json() == {"error": "this server needs an API key"}
    assert server.client.get(url, headers={"Authorization": "Bearer secret"}).status_code == 403
    assert server.client.get(url, headers={"Authorization": "Bearer secret-key"}).status_code == 200
    assert server.client.get(url, params={"api_key": "secret-key"}).status_code == 200


def test_a_glossary_is_a_field_or_a_file_of_the_form(words_run, start):
    server = start([words_run])
    page = f"<p>{ONE} {TWO}</p>".encode()
    lines = f"# of the customer\n{ONE}\txyzzy\tnote\r\n{THREE}\tmoon\n"
    wanted = {"q": page.decode(), "source": "de", "target": "en", "format": "html"}
    expected = server.translate(**wanted, glossary={ONE: "xyzzy", THREE: "moon"}).json()
    field = send(server, content=page, glossary=lines).json()
    assert field["terms_missed"] == expected["terms_missed"]
    assert server.client.get(field["translatedFileUrl"]).text == expected["translatedText"]
    files = {"file": ("a.html", page), "glossary": ("terms.tsv", lines.encode("utf-8-sig"))}
    uploaded = server.client.post("/translate_file", data={"source": "de", "target": "en"}, files=files).json()
    assert uploaded["terms_missed"] == expected["terms_missed"]
    assert server.client.get(uploaded["translatedFileUrl"]).text == expected["translatedText"]
    assert "terms_missed" not in send(server, content=page).json()


@pytest.mark.parametrize(
    ("glossary", "message"),
    [
        ("a\tb\n\nc", "Invalid request: glossary: line 3: this line has no tab"),
        ("a\tb\na\tc", "Invalid request: glossary: line 2: "),
        ("# none", "Invalid request: glossary: this glossary has no terms"),
        ("".join(f"a{number}\tb\n" for number in range(1001)), "1,001 terms in one glossary; the limit is 1,000"),
    ],
)
def test_a_glossary_that_cannot_be_used_is_refused(running, glossary, message):
    answer = send(running, glossary=glossary)
    assert (answer.status_code, answer.json()["error"][: len(message)]) == (400, message)


def test_a_glossary_that_is_not_utf_8_is_refused_and_counts_for_the_limit(running):
    files = {"file": ("a.html", PAGE), "glossary": ("terms.tsv", b"\xff\tb")}
    message = "Input should be a valid string, unable to parse raw data as a unicode string"
    answer = running.client.post("/translate_file", data={"source": "de", "target": "en"}, files=files)
    assert (answer.status_code, answer.json()) == (400, {"error": f"Invalid request: glossary: {message}"})


def test_a_small_file_of_too_many_elements_is_refused_before_it_is_parsed(running, monkeypatch):
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"<w:body>" + b"<w:p/>" * 1_000_001)
    monkeypatch.setattr(markup, "check_xml", None)
    answer = send(running, "a.docx", packed.getvalue())
    assert len(packed.getvalue()) < 100_000
    assert (answer.status_code, answer.json()) == (400, {"error": "more than 1,000,000 elements and attributes"})


def test_a_document_that_takes_too_long_to_save_gets_503(configure, monkeypatch):
    server, go = configure(timeout=1), threading.Event()
    monkeypatch.setattr(Template, "join", lambda template, translations: f"{go.wait(10)}")
    answer = send(server, source="en", target="de")
    go.set()
    assert answer.status_code == 503, answer.text
    assert answer.json()["error"].startswith("this took longer than 1 seconds")


def test_a_term_within_a_protected_span_of_a_document_is_not_missed(running):
    content = b"<p>http://a.org/34 <b>12</b></p>"
    too_long = "x" * 60
    answer = send(running, content=content, glossary=f"34\txyzzy\n12\t{too_long}\n").json()
    assert answer["terms_missed"] == [["12", too_long]]


def test_a_server_may_translate_no_documents(configure):
    server = configure(file_limit=0)
    assert send(server).json() == {"error": "this server does not translate documents"}
    assert server.client.get("/frontend/settings").json()["supportedFilesFormat"] == []


def test_documents_are_forgotten_after_ten_minutes():
    now = 0.0
    kept = Kept(clock=lambda: now)
    key = kept.add("a", 60_000_000)
    assert kept.find(key) == "a"
    now = 601.0
    with pytest.raises(RequestError, match="does not exist or has expired"):
        kept.find(key)


def test_the_oldest_documents_are_forgotten_if_all_are_too_large():
    kept = Kept()
    keys = [kept.add(number, 60_000_000) for number in range(2)]
    assert kept.find(keys[1]) == 1
    with pytest.raises(RequestError, match="does not exist or has expired"):
        kept.find(keys[0])


@pytest.mark.parametrize("encoding", ["Shift_JIS", "GB18030", "Big5", "EUC-KR", "nonsense", "UTF-7", "base64"])
@pytest.mark.parametrize("path", ["/translate_file", "/v2/document"])
def test_an_xml_document_in_any_encoding_is_translated_or_refused(running, path, encoding):
    unit = '<trans-unit id="1"><source>12</source></trans-unit>'
    content = (
        f'<?xml version="1.0" encoding="{encoding}"?><xliff version="1.2"><file source-language="en" '
        f'target-language="de" datatype="plaintext" original="a"><body>{unit}</body></file></xliff>'
    )
    fields = {"source": "en", "target": "de", "source_lang": "EN", "target_lang": "DE"}
    answer = running.client.post(path, data=fields, files={"file": ("a.xlf", content.encode())})
    assert answer.status_code in (200, 400)
    if path == "/v2/document":
        about = answer.json()
        status = running.client.post(
            f"/v2/document/{about['document_id']}", json={"document_key": about["document_key"]}
        )
        assert "see the server's log" not in status.json().get("error_message", "")
        assert status.json()["status"] in ("done", "error")


def test_a_parser_that_fails_on_a_document_is_a_fault_of_the_document(running, monkeypatch):
    def fail(*_):
        raise LookupError("unknown encoding")

    monkeypatch.setattr(files, "read_document", fail)
    answer = running.client.post(
        "/translate_file", data={"source": "en", "target": "de"}, files={"file": ("a.txt", b"12")}
    )
    assert (answer.status_code, answer.json()) == (400, {"error": "this document cannot be read"})
