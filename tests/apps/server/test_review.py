"""Documents that are uploaded come back with lists to review, and the lists, corrected, give documents."""

from __future__ import annotations

import io
import re
import zipfile

import pytest

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
PAGE = b"# 12\n\nab **34** 56\n"
LISTS = ["xlsx", "html", "tmx", "xlf"]


def word_document() -> bytes:
    paragraphs = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in ("12", "34 ab"))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(
            "word/document.xml", f'<w:document xmlns:w="{WORD}"><w:body>{paragraphs}</w:body></w:document>'
        )
    return content.getvalue()


def text_of(content: bytes) -> str:
    if not content.startswith(b"PK"):
        return content.decode()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read("word/document.xml").decode()


def review(server, name="a.md", content=PAGE, **fields):
    fields = {"source": "de", "target": "en", "review": "tmx", **fields}
    fields = {field: value for field, value in fields.items() if value is not None}
    return server.client.post("/translate_document", data=fields, files={"file": (name, content)})


def correct(server, listed, name="a.md", content=PAGE, listname="a.tmx", **fields):
    files = {"file": (name, content), "reviewed": (listname, listed)}
    return server.client.post("/translate_document", data={"source": "de", "target": "en", **fields}, files=files)


def fetch(server, url: str) -> bytes:
    answer = server.client.get(url)
    assert answer.status_code == 200, answer.text
    return answer.content


def with_correction(listed: bytes, form: str) -> bytes:
    """Return a list in which a person has written "correct" in place of the translation of number 1."""
    if form != "xlsx":
        pattern = {"tmx": r'(tuid="1".*?</tuv>.*?<seg>)[^<]*', "xlf": r'(id="1".*?<target[^>]*>)[^<]*'}[form]
        return re.sub(pattern, r"\1correct", listed.decode(), count=1, flags=re.DOTALL).encode()
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl")
    book = openpyxl.load_workbook(io.BytesIO(listed))
    for row in book.active.iter_rows(min_row=2):
        if row[0].value == 1:
            row[3].value = "correct"
    changed = io.BytesIO()
    book.save(changed)
    return changed.getvalue()


@pytest.mark.parametrize("form", LISTS)
@pytest.mark.parametrize(("name", "content"), [("a.md", PAGE), ("a.docx", word_document())])
def test_a_document_comes_with_a_list_which_gives_it_again_and_corrected_the_corrections(running, form, name, content):
    if form == "xlsx":
        pytest.importorskip("openpyxl", reason="needs openpyxl")
    answer = review(running, name, content, review=form)
    assert answer.status_code == 200, answer.text
    plain = running.client.post(
        "/translate_file", data={"source": "de", "target": "en"}, files={"file": (name, content)}
    )
    assert {*answer.json()} == {*plain.json(), "reviewUrl"}
    translated = fetch(running, answer.json()["translatedFileUrl"])
    assert text_of(translated) == text_of(fetch(running, plain.json()["translatedFileUrl"]))
    found = running.client.get(answer.json()["reviewUrl"])
    assert found.headers["content-disposition"] == f"attachment; filename*=UTF-8''a.en.review.{form}"
    if form == "html":
        assert '<td lang="de">12<td lang="en">' in found.text
        return
    again = correct(running, found.content, name, content, f"list.{form}")
    assert again.status_code == 200, again.text
    written = text_of(fetch(running, again.json()["translatedFileUrl"]))
    assert written.split() == text_of(translated).split()  # a list has single spaces
    corrected = correct(running, with_correction(found.content, form), name, content, f"LIST.{form.upper()}")
    assert corrected.status_code == 200, corrected.text
    text = text_of(fetch(running, corrected.json()["translatedFileUrl"]))
    assert "correct" in text
    assert text != text_of(translated)


def test_a_document_in_the_language_of_the_target_comes_back_without_a_list(running):
    answer = review(running, source="en")
    assert "reviewUrl" not in answer.json()
    assert fetch(running, answer.json()["translatedFileUrl"]) == PAGE


def test_the_corrected_document_names_its_language(running):
    page = b'<html lang="de"><p>12</html>'
    listed = fetch(running, review(running, "a.html", page).json()["reviewUrl"])
    answer = running.client.get(correct(running, listed, "a.html", page).json()["translatedFileUrl"])
    assert answer.text.startswith('<html lang="en"><p>')
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''a.en.html"


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        (
            {"content": b"# 13\n"},
            400,
            "reviewed: not the list of this document: number 1 has '12'; the document has '13'",
        ),
        ({"content": PAGE + b"\nmore\n"}, 400, "reviewed: not the list of this document: number 3 is missing"),
        ({"content": b"# 12\n"}, 400, "reviewed: not the list of this document: it has no number 2"),
        ({"listname": "a.html"}, 400, "reviewed: not a list to be corrected: give one in .xlsx, .tmx or .xlf"),
        ({"listname": "a.md"}, 400, "reviewed: not a list to be corrected: give one in .xlsx, .tmx or .xlf"),
        ({"listname": "a.xlsx"}, 400, "reviewed: "),
        ({"listed": b""}, 400, "reviewed: line 1: not well-formed XML: no element found"),
        ({"listed": b"<tmx>"}, 400, "reviewed: line 1: not well-formed XML"),
        ({"listed": b"<x/>"}, 400, "reviewed: not a list of translations"),
        ({"listed": b'<!DOCTYPE t [<!ENTITY a "b">]><tmx>&a;</tmx>'}, 400, "reviewed: line 1: it declares entities"),
        ({"listed": b"", "listname": "a.xlsx"}, 400, "reviewed: "),
        ({"name": "a.exe"}, 400, "Invalid file extension: send one of .arb, .docx"),
        ({"name": "a.docx"}, 400, "not a .docx file"),
        ({"target": "xx"}, 400, "target or target_lang: xx is not supported"),
        ({"listed": b"x" * 2_100_000}, 413, "the body is larger than 2,000,000 bytes"),
    ],
)
def test_a_list_that_does_not_fit_is_refused_in_one_message(running, sent, status, message):
    listed = fetch(running, review(running).json()["reviewUrl"])
    answer = correct(running, **{"listed": listed, **sent})
    assert (answer.status_code, answer.json()["error"][: len(message)]) == (status, message)


def test_a_translation_without_its_marks_is_refused(running):
    listed = fetch(running, review(running).json()["reviewUrl"])
    answer = correct(running, re.sub(rb"(<tuv[^>]*en[^>]*><seg>)[^<]*\{h0\}", rb"\1", listed))
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "reviewed: number 2: the translation needs the marks {h0} {h1}, each once",
    )


def test_a_workbook_that_unpacks_to_more_than_the_limit_is_refused(running):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * 9_000_000)
    answer = correct(running, content.getvalue(), listname="a.xlsx")
    assert (answer.status_code, answer.json()["error"][:17]) == (400, "reviewed: larger ")


def test_without_a_list_the_answer_is_that_of_translate_file(running):
    answer = review(running, review=None)
    assert "reviewUrl" not in answer.json()
    assert review(running, review="docx").json()["error"].startswith("Invalid request: review: Input should be 'xlsx'")
    plain = running.client.post(
        "/translate_file", data={"source": "de", "target": "en", "review": "tmx"}, files={"file": ("a.md", PAGE)}
    )
    assert {*plain.json()} == {*answer.json()}


def test_lists_are_for_clients_with_a_key_and_servers_that_translate_documents(configure, tmp_path):
    (tmp_path / "keys").write_text("secret-key\n")
    server = configure(keys=tmp_path / "keys")
    assert review(server).status_code == 403
    assert correct(server, b"").status_code == 403
    url = review(server, api_key="secret-key").json()["reviewUrl"]
    assert server.client.get(url).status_code == 403
    assert server.client.get(url, headers={"Authorization": "Bearer secret-key"}).status_code == 200
    assert review(configure(file_limit=0)).status_code == 403
    assert correct(configure(file_limit=0), b"").status_code == 403


def test_the_specification_describes_lists(running):
    spec = running.client.get("/spec").json()
    fields = spec["components"]["schemas"]
    assert fields["DocumentBody"]["properties"]["review"]["anyOf"][0]["enum"] == LISTS
    assert {"reviewed", "reviewedname"} < {*fields["DocumentBody"]["properties"]}
    assert [*spec["paths"]["/translate_document"]["post"]["requestBody"]["content"]] == ["multipart/form-data"]
    assert "reviewUrl" in fields["TranslatedDocument"]["properties"]
    assert "reviewUrl" not in fields["TranslatedFile"]["properties"]
    assert "review" not in fields["FileBody"]["properties"]
