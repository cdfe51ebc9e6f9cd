"""What to review in the translation of a document, and the document with the corrected translations."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from nmt import Translator
from nmt.apps.cli import app
from nmt.apps.documents.blocks import Block, Item
from nmt.apps.documents.formats import read_document
from nmt.apps.documents.review import SUFFIXES, Entry, entry_of, read_reviewed, write_review
from nmt.apps.documents.translation import TranslatedBlock, foreign_numbers, repetitions, with_losses
from nmt.base.errors import DataError
from nmt.base.languages import Direction
from nmt.translation.request import Request

PAGE = b"<p>12 <b>34</b> 56</p>\n<p>7</p>\n<p>=8 &lt; 9</p>"
READABLE = [suffix for suffix in SUFFIXES if suffix != ".html"]


def read_list(path, blocks):
    return read_reviewed(path.read_bytes(), path, blocks)


def entries() -> list[Entry]:
    blocks = read_document(PAGE, "a.html").blocks
    translations = [
        TranslatedBlock(["x"], "x", {}, marked="a {h0}b{h1}\u202f\xa0c", expected_chrf=90.04),
        TranslatedBlock(["x"], "x", {"numbers_missed": ["7"], "doubtful": True}, marked="d", expected_chrf=12.0),
        TranslatedBlock(["x"], "x", {"from_memory": True}, marked="=e < f", expected_chrf=80.0, similarity=1.0),
    ]
    return [entry_of(number, *pair) for number, pair in enumerate(zip(blocks, translations, strict=True), 1)]


@pytest.mark.parametrize("suffix", READABLE)
def test_a_list_that_nobody_changed_gives_the_translations_and_a_corrected_one_the_corrections(suffix, tmp_path):
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl", reason="needs openpyxl")
    blocks = read_document(PAGE, "a.html").blocks
    write_review(tmp_path / f"a{suffix}", entries(), Direction("en", "de"))
    assert read_list(tmp_path / f"a{suffix}", blocks) == ["a <b>b</b>\u202f\xa0c", "d", "=e &lt; f"]
    corrected = [entry._replace(translation=entry.translation.upper().replace("{H", "{h")) for entry in entries()]
    write_review(tmp_path / f"b{suffix}", corrected, Direction("en", "de"))
    assert read_list(tmp_path / f"b{suffix}", blocks) == ["A <b>B</b>\u202f\xa0C", "D", "=E &lt; F"]


def test_what_most_needs_a_review_comes_first_with_its_faults_in_words(tmp_path):
    write_review(tmp_path / "a.html", entries(), Direction("en", "de"))
    rows = (tmp_path / "a.html").read_text().partition("<table>")[2].split("<tr>")[2:]
    assert [row[4:5] for row in rows] == ["2", "3", "1"]
    assert "numbers are missing or added: 7\nthe model expects" in rows[0]
    assert "memory, exact" in rows[1]
    assert "=e &lt; f" in rows[1]
    assert "90.0" in rows[2]
    assert "machine" in rows[2]
    block = Block(
        [Item("a "), Item("<code>b</code>", "!"), Item(" c "), Item("<b>", "b"), Item("d"), Item("</b>", "/b")]
    )
    block.line = 3
    similar = entry_of(1, block, TranslatedBlock(["x"], "x", {}, similarity=0.853))
    assert (similar.origin, similar.place, similar.marks) == ("machine; memory 85%", "line 3", "{h0} = b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"translation": "a b c"}, r"number 1: the translation needs the marks \{h0\} \{h1\}, each once"),
        ({"translation": "a {h1}b{h0} c"}, "number 1: the translation needs the marks"),
        ({"source": "other"}, r"number 1 has 'other'; the document has '12 \{h0\}34\{h1\} 56'"),
        ({"number": 9}, "number 1 is missing"),
    ],
)
@pytest.mark.parametrize("suffix", READABLE)
def test_a_list_that_does_not_fit_the_document_is_refused(change, message, suffix, tmp_path):
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl", reason="needs openpyxl")
    first, *others = entries()
    write_review(tmp_path / f"a{suffix}", [first._replace(**change), *others], Direction("en", "de"))
    with pytest.raises(DataError, match=message):
        read_list(tmp_path / f"a{suffix}", read_document(PAGE, "a.html").blocks)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".xlsx", b"no zip"),
        (".tmx", b"<tmx"),
        (".xlf", b'<!DOCTYPE x [<!ENTITY a "b">]><xliff>&a;</xliff>'),
        (".tmx", b"<x/>"),
        (".tmx", b""),
        (".xlsx", b""),
        (".tmx", b'<!DOCTYPE x [<!ENTITY a "b">]><resources><tu tuid="1"/></resources>'),
        (".html", b"<!doctype html><p>x"),
    ],
)
def test_what_is_no_list_is_refused(suffix, content, tmp_path):
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl", reason="needs openpyxl")
    (tmp_path / f"a{suffix}").write_bytes(content)
    with pytest.raises(DataError):
        read_list(tmp_path / f"a{suffix}", read_document(PAGE, "a.html").blocks)


@pytest.mark.parametrize("suffix", READABLE)
def test_a_list_of_a_longer_document_that_begins_alike_is_refused(suffix, tmp_path):
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl", reason="needs openpyxl")
    write_review(tmp_path / f"a{suffix}", entries(), Direction("en", "de"))
    with pytest.raises(DataError, match="not the list of this document: it has no number 3"):
        read_list(tmp_path / f"a{suffix}", read_document(PAGE, "a.html").blocks[:2])


def test_a_workbook_from_a_stranger_takes_little_memory(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl")
    path = tmp_path / "a.xlsx"
    blocks = read_document(PAGE, "a.html").blocks
    write_review(path, entries(), Direction("en", "de"))
    book = openpyxl.load_workbook(path)
    book.active["XFD2"] = "a note in the last column"
    book.save(path)
    assert read_list(path, blocks)[1] == "d"
    with pytest.raises(DataError, match="larger than 1,000 bytes when unpacked"):
        read_reviewed(path.read_bytes(), path, blocks, limit=1000)


def test_the_command_writes_the_list_and_the_document_that_it_gives(letters_run, tmp_path):
    (tmp_path / "in.html").write_bytes(PAGE)
    command = ["translate", str(tmp_path / "in.html"), "-m", str(letters_run), "--device", "cpu", "-o"]
    done = CliRunner().invoke(app, [*command, str(tmp_path / "a.html"), "--review", str(tmp_path / "a.tmx")])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, [*command, str(tmp_path / "b.html"), "--reviewed", str(tmp_path / "a.tmx")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "b.html").read_bytes() == (tmp_path / "a.html").read_bytes()
    for wrong in (["--review", "a.docx"], ["--review", "a.tmx", "--format", "jsonl"], ["--reviewed", "none.tmx"]):
        assert CliRunner().invoke(app, [*command, str(tmp_path / "c.html"), *wrong]).exit_code == 2
    text = ["translate", "12", "-m", str(letters_run), "--review", str(tmp_path / "c.tmx")]
    assert CliRunner().invoke(app, text).exit_code == 2


@pytest.mark.parametrize("suffix", [".xlsx", ".html", ".tmx", ".xlf"])
def test_pictures_with_titles_and_signs_without_a_letter_do_not_break_a_list(suffix, tmp_path):
    """A mark may stand for an element with texts of its own, and a text may hold a control character."""
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl", reason="needs openpyxl")
    page = b"<p>12 <svg><title>7</title></svg> 34\x1b[0m</p>"
    document = read_document(page, "a.html")
    listed = [
        entry_of(number, block, TranslatedBlock([""], "", {}, marked=block.with_marks().replace("\x1b", "")))
        for number, block in enumerate(document.blocks, 1)
    ]
    write_review(tmp_path / f"a{suffix}", listed, Direction("en", "de"))
    content = (tmp_path / f"a{suffix}").read_bytes()
    assert suffix == ".xlsx" or not {b"\0", b"\x1b"} & {bytes([each]) for each in content}
    if suffix in READABLE:
        written = document.content_with(read_list(tmp_path / f"a{suffix}", document.blocks))
        assert b"<title>7</title></svg> 34" in written


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("12.450,50 € and 3,5 % on 3.5.2020", "en", ["12.450,50", "3,5"]),
        ("€ 3,50, 12 450,50 zł, 1.000 km", "zh", ["3,50", "12 450,50"]),
        ("12.450,50 €, 3,5 %", "de", []),
        ("$12,450.50, 3.5 kg, 1,000 km, Python 3.11 at 7.30", "fr", ["12,450.50", "3.5"]),
        ("1,000.5 m", "en", []),
        ("3,5 %", "tlh", []),
    ],
)
def test_numbers_that_stay_in_the_format_of_another_language_are_found(text, language, found):
    assert foreign_numbers(text, text, language) == found
    assert foreign_numbers("", text, language) == []


def test_the_command_names_numbers_in_the_format_of_the_source_once(two_run, tmp_path):
    price = "12,450.50 €"
    (tmp_path / "in.html").write_text(f"<p>{price}</p><p>{price}</p>")
    (tmp_path / "tm.tsv").write_text(f"{price}\t{price}\n")
    command = ["translate", str(tmp_path / "in.html"), "-m", str(two_run), "--device", "cpu", "--to", "de"]
    written = ["-o", str(tmp_path / "a.html"), "--review", str(tmp_path / "b.html"), "--tm", str(tmp_path / "tm.tsv")]
    done = CliRunner().invoke(app, [*command, *written])
    assert done.exit_code == 0, done.output
    assert done.stderr.count("2 paragraphs: numbers are not written as in this language: 12,450.50") == 1
    assert (tmp_path / "b.html").read_text().count("not written as in this language: 12,450.50") == 2


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("a dance performance performance performance in a park", ["performance performance performance"]),
        ("picture of the park of the park", ["of the park of the park"]),
        ("我的我的我的看电视", ["我的我的我的"]),
        ("I hope that that will do, zaman zaman, 休息休息, ha ha", []),
        ("a performance, performance, performance", []),
    ],
)
def test_words_that_only_the_translation_repeats_are_found(output, found):
    assert repetitions("ein Text", output) == found
    assert repetitions(output, output) == []


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("It costs 1,000,000,000 dollars.", "Cela coûte 1 000 000 000 dollars."),
        ("Call 20-20-20.", "Appelez le 20 20 20."),
        ("Well...", "嗯。。。。。。"),
        ("Huh?", "えーーーーーーー？"),
        ("Go, go, go!", "加油加油加油！"),
        ("Bang! Bang! Bang!", "ドンドンドン"),
        ("Hahahahaha!", "哈哈哈哈哈哈"),
    ],
)
def test_groups_of_digits_marks_and_what_the_source_repeats_in_another_form_are_no_repetitions(source, output):
    assert repetitions(source, output) == []


def test_what_a_translation_repeats_stands_in_the_list_to_review(letters_run):
    translator = Translator.load(letters_run, device="cpu")
    (block,) = read_document(b"<p>ein Text", "a.html").blocks
    translated = TranslatedBlock(["x"], "of the text of the text", {})
    (checked,) = with_losses([block], [translated], translator.segmenter, Request(translator.options), ())
    assert "words are repeated: of the text of the text" in entry_of(1, block, checked).review.splitlines()
