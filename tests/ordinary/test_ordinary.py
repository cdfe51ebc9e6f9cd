"""What people type, sent through every door: the same translation everywhere, and nothing lost, whatever the model.

`ordinary.jsonl` has a line of JSON per text: its category, language, the number of sentences that a person counts (each
line of the text by itself), and the text. It outlives every model: no assertion depends on what a model has learned.
Every fault that a user finds adds the text that shows it.
"""

from __future__ import annotations

import csv
import html
import json
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO, StringIO
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import uvicorn
from typer.testing import CliRunner

from nmt import Translator
from nmt.apps.cli import app
from nmt.apps.server.app import make_app
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models
from nmt.apps.server.run import address, bind, make_config
from nmt.apps.server.settings import Settings
from nmt.data.text.numbers import is_digit, numbers_in
from nmt.data.text.spans import find_spans, replace_spans
from nmt.translation import Translation
from nmt.translation.sentences import count_sentences, sentence_starts
from tests.quick import quick_and_slow


class Line(NamedTuple):
    category: str
    language: str
    sentences: int
    text: str


FILE = Path(__file__).with_name("ordinary.jsonl")
LINES = [Line(**json.loads(line)) for line in FILE.read_text(encoding="utf-8").splitlines()]
TEXTS = [line.text for line in LINES]
SINGLE = [text for text in TEXTS if "\n" not in text]  # for what reads a text per line
WITH_TEXT = [text for text in TEXTS if text.strip()]


def without_letters(text: str) -> bool:
    return not any(map(str.isalpha, text))


LETTERLESS = [text for text in WITH_TEXT if without_letters(text)]


@pytest.fixture(scope="module")
def translator(letters_run) -> Translator:
    """A model that keeps spans."""
    return Translator.load(letters_run, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def translations(translator) -> dict[str, Translation]:
    """The translation of every text, all translated at once."""
    return dict(zip(TEXTS, translator.translate(TEXTS), strict=True))


@pytest.fixture(scope="module")
def server(letters_run) -> Iterator[httpx.Client]:
    """A client of a server with the same model."""
    settings, metrics = Settings(port=0, char_limit=1_000_000, device="cpu", precision="fp32"), Metrics()
    models = Models([str(letters_run)], settings, metrics)
    running = uvicorn.Server(make_config(make_app(models, settings, {}, metrics)))
    listener = bind(settings)
    thread = threading.Thread(target=running.run, args=([listener],))
    thread.start()
    while not running.started:
        time.sleep(0.005)
    with httpx.Client(base_url=address(listener), timeout=60) as client:
        yield client
    running.should_exit = True
    thread.join()
    listener.close()


def differing(expected: dict[str, Translation], texts: Sequence[str], found: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each text whose translation is not the expected one, with both."""
    pairs = zip(texts, found, strict=True)
    return [(text, other, expected[text].text) for text, other in pairs if other != expected[text].text]


def test_the_texts_are_as_many_and_as_different_as_they_are_meant_to_be():
    assert len(set(TEXTS)) == len(TEXTS) >= 820
    assert len({line.category for line in LINES}) >= 20
    assert len({line.language for line in LINES}) >= 20
    assert len(LETTERLESS) >= 40


def test_the_sentences_of_a_text_are_those_that_a_person_counts():
    counts = [sum(count_sentences(each, line.language or "en") for each in line.text.split("\n")) for line in LINES]
    assert [(line, count) for line, count in zip(LINES, counts, strict=True) if count != line.sentences] == []


# Python


def test_each_text_gets_one_translation_and_blank_ones_a_blank_one(translations):
    for text, translation in translations.items():
        assert translation.text.count("\n") == text.count("\n"), text
        assert "⁇" not in translation.text
        if not text.strip():
            assert not translation.text.strip()


def test_a_text_alone_is_translated_as_among_others(translator, translations):
    some = TEXTS[::3]
    assert differing(translations, some, [translator.translate([text])[0].text for text in some]) == []


def test_spans_are_kept_or_reported_as_lost(translations):
    for text, translation in translations.items():
        for span in (text[start:end] for start, end in find_spans(text)):
            kept = translation.text.count(span) == text.count(span)
            assert kept or span in translation.protected_lost, (text, translation.text)


def test_numbers_are_kept_or_reported_as_missed(words_run):
    """For a model that was not trained to change them."""
    translated = Translator.load(words_run, device="cpu", precision="fp32").translate(TEXTS)
    for text, translation in zip(TEXTS, translated, strict=True):
        for number in numbers_in(replace_spans(text, spans := find_spans(text), ["x"] * len(spans))):
            said = is_digit(number) or number in (*numbers_in(translation.text), *translation.numbers_missed)
            assert said, (text, translation.text)


def test_every_sentence_is_a_segment_of_its_own(translator, translations):
    """Only one without words may be passed on instead, and only one that is longer than the model's limit is split."""
    language = translator.languages.direction(None, None).src
    num_compared = 0
    for text, translation in translations.items():
        if translation.sentence_split or translation.protected_translated_around:
            continue
        found = without_spans_by_sentence(text, language)
        num_with_words = sum(not without_letters(sentence) for sentence in found)
        assert num_with_words <= translation.num_segments <= len(found), text
        num_compared += num_with_words > 1
    assert num_compared > 20


def without_spans_by_sentence(text: str, language: str) -> list[str]:
    """Return the sentences of all lines of `text`, with spaces for their spans.

    No sentence ends inside a span, and one may begin with it.
    """
    spans = find_spans(text)
    first = "x" if text.islower() else "X"
    hidden = replace_spans(text, spans, [first + "x" * (end - at - 1) for at, end in spans])
    blanked = replace_spans(text, spans, [" " * (end - at) for at, end in spans])
    found, begin = [], 0
    for line in re.split(r"[\n\t]", hidden):  # a cell between tabs is a line of its own
        bounds = [0, *sentence_starts(line, language), len(line)]
        found += [blanked[begin + start : begin + end] for start, end in pairwise(bounds) if line.strip()]
        begin += len(line) + 1
    return found


def test_texts_without_letters_stay_as_they_are(words_run):
    """For a model that was not trained on such texts."""
    translated = Translator.load(words_run, device="cpu", precision="fp32").translate(LETTERLESS)
    assert [(text, found.text) for text, found in zip(LETTERLESS, translated, strict=True) if found.text != text] == []


# The command line


OPTIONS = ["--device", "cpu", "--precision", "fp32"]


def nmt(*arguments: object) -> bytes:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout_bytes


def as_lines(texts: Sequence[str]) -> bytes:
    return "".join(text + "\n" for text in texts).encode()


def test_a_file_is_translated_line_for_line(letters_run, translations, tmp_path):
    (tmp_path / "lines.txt").write_bytes(as_lines(SINGLE))
    found = nmt("translate", "-m", letters_run, *OPTIONS, "-i", tmp_path / "lines.txt").decode().split("\n")
    assert found.pop() == ""
    assert differing(translations, SINGLE, found) == []


def test_standard_input_is_translated_line_for_line(letters_run, translations):
    command = [sys.executable, "-m", "nmt", "translate", "-m", str(letters_run), *OPTIONS]
    done = subprocess.run(command, input=as_lines(SINGLE), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    found = done.stdout.decode().split("\n")
    assert found.pop() == ""
    assert differing(translations, SINGLE, found) == []


# The server


def ask_all(texts: Sequence[str], ask: Callable[[str], str]) -> list[str]:
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(ask, texts))


# Requests of a text each: three texts of each category by day, all by night. The lists and documents of every day have
# all.
each_share = pytest.mark.parametrize("most", [3, pytest.param(len(TEXTS), marks=pytest.mark.slow)])


def of_each_category(texts: Sequence[str], most: int) -> list[str]:
    """Return up to `most` of the texts of each category, from its beginning to its end."""
    chosen = set()
    for category in {line.category for line in LINES}:
        own = [line.text for line in LINES if line.category == category and line.text in texts]
        chosen.update(own[:: max(1, len(own) // most)][:most])
    return [text for text in texts if text in chosen]


def test_a_few_texts_are_of_every_category():
    few = of_each_category(WITH_TEXT, 3)
    assert {line.category for line in LINES if line.text in few} == {
        line.category for line in LINES if line.text.strip()
    }
    assert of_each_category(TEXTS, len(TEXTS)) == TEXTS


@each_share
def test_libretranslates_interface_translates_lists_and_single_texts(server, translations, most):
    def translate(q: object) -> object:
        answer = server.post("/translate", json={"q": q, "source": "de", "target": "en"})
        assert answer.status_code == 200, (q, answer.text)
        return answer.json()["translatedText"]

    halves = TEXTS[: len(TEXTS) // 2], TEXTS[len(TEXTS) // 2 :]  # a request may have 500 texts
    assert differing(translations, TEXTS, [text for half in halves for text in translate(half)]) == []
    some = of_each_category([text for text in TEXTS if text], most)  # without a q there is nothing to translate
    assert differing(translations, some, ask_all(some, translate)) == []


@each_share
def test_deepls_interface_translates_lists_and_single_texts(server, translations, most):
    def translate(texts: Sequence[str]) -> list[str]:
        body = {"text": [*texts], "source_lang": "DE", "target_lang": "EN"}
        answer = server.post("/v2/translate", json=body, headers={"Authorization": "DeepL-Auth-Key x"})
        assert answer.status_code == 200, (texts, answer.text)
        return [each["text"] for each in answer.json()["translations"]]

    lists = [WITH_TEXT[start : start + 50] for start in range(0, len(WITH_TEXT), 50)]  # as many as DeepL takes
    assert differing(translations, WITH_TEXT, [text for some in lists for text in translate(some)]) == []
    some = of_each_category(WITH_TEXT, most)
    assert differing(translations, some, ask_all(some, lambda text: translate([text])[0])) == []


@each_share
def test_openais_interface_translates_each_text(server, translations, most):
    def translate(text: str) -> str:
        body = {"model": "de-en", "messages": [{"role": "user", "content": text}]}
        answer = server.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, (text, answer.text)
        return answer.json()["choices"][0]["message"]["content"]

    texts = of_each_category(WITH_TEXT, most)
    assert differing(translations, texts, ask_all(texts, translate)) == []


@each_share
@pytest.mark.parametrize("alternatives", [0, 3])  # for long texts and for short ones
def test_the_page_streams_each_text_with_its_details(server, translator, translations, alternatives, most):
    def translate(text: str) -> str:
        body = {"q": text, "source": "de", "target": "en", "stream": True, "details": True}
        answer = server.post("/translate", json={**body, "alternatives": alternatives})
        assert answer.status_code == 200, (text, answer.text)
        *segments, last = [json.loads(line) for line in answer.text.split("\n") if line]
        assert last == {"done": True}, text
        return "".join(segment["before"] + segment["text"] + segment["after"] for segment in segments)

    texts, expected = of_each_category(WITH_TEXT, most), translations
    if alternatives:
        texts = texts[::3]
        options = translator.options.changed(beam_size=1 + alternatives, num_hypotheses=1 + alternatives)
        expected = dict(zip(texts, translator.translate(texts, options), strict=True))
    assert differing(expected, texts, ask_all(texts, translate)) == []


# Documents


# XML has no control characters, and formats give tabs, line ends and several spaces a meaning of their own.
IN_DOCUMENTS = [text for text in WITH_TEXT if not re.search(r"[\x00-\x1f\x7f-\x9f\u2028]|  |^ | $", text)]
CHOICE = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
MARKUP_IN_MARKDOWN = re.compile(r"[*_#<>\[\]{}`\\|&~$^:@=+]|//|www\.|^\W|^\w{1,9}[.)]")
MARKUP_IN_TEXT = re.compile(r"^(?:[-–#>]|\[.?\])|^1\. \w+$|\.{4}|&&")
MARKUP_IN_SUBTITLES = re.compile(r"[<>{}&]|^\W")


def to_html(texts: Sequence[str]) -> bytes:
    return b"<!doctype html>\n" + b"".join(f"<p>{html.escape(text)}</p>\n".encode() for text in texts)


def from_html(content: bytes) -> list[str]:
    return [html.unescape(text) for text in re.findall(r"<p>(.*?)</p>", content.decode(), re.DOTALL)]


def to_po(texts: Sequence[str]) -> bytes:
    polib = pytest.importorskip("polib", reason="needs polib")
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    file.extend(polib.POEntry(msgid=text) for text in texts)
    return str(file).encode()


def from_po(content: bytes) -> list[str]:
    polib = pytest.importorskip("polib", reason="needs polib")
    return [entry.msgstr for entry in polib.pofile(content.decode())]


def to_docx(texts: Sequence[str]) -> bytes:
    document = pytest.importorskip("docx", reason="needs python-docx").Document()
    for text in texts:
        document.add_paragraph(text)
    content = BytesIO()
    document.save(content)
    return content.getvalue()


def from_docx(content: bytes) -> list[str]:
    docx = pytest.importorskip("docx", reason="needs python-docx")
    return [paragraph.text for paragraph in docx.Document(BytesIO(content)).paragraphs]


def to_xliff(texts: Sequence[str]) -> bytes:
    units = "".join(
        f'<trans-unit id="{n}"><source>{html.escape(text)}</source></trans-unit>' for n, text in enumerate(texts)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
        f'<file original="a" source-language="de" target-language="en"><body>{units}</body></file></xliff>'
    ).encode()


def from_xliff(content: bytes) -> list[str]:
    etree = pytest.importorskip("lxml.etree", reason="needs lxml")
    targets = etree.fromstring(content).iter("{*}target")
    return ["".join(target.itertext()) for target in targets]


def to_srt(texts: Sequence[str]) -> bytes:
    time_of = "00:{:02}:{:02},000".format
    return "".join(
        f"{n + 1}\n{time_of(*divmod(n, 60))} --> {time_of(*divmod(n, 60))}\n{text}\n\n" for n, text in enumerate(texts)
    ).encode()


def from_srt(content: bytes) -> list[str]:
    srt = pytest.importorskip("srt", reason="needs srt")
    return [subtitle.content for subtitle in srt.parse(content.decode())]


def to_vtt(texts: Sequence[str]) -> bytes:
    cues = "".join(f"\n00:{n // 60:02}:{n % 60:02}.000 --> 01:00:00.000\n{text}\n" for n, text in enumerate(texts))
    return f"WEBVTT\n{cues}".encode()


def from_vtt(content: bytes) -> list[str]:
    return [text.strip("\n") for text in re.split(r"(?m)^.* --> .*$", content.decode())[1:]]


def to_json(texts: Sequence[str]) -> bytes:
    return json.dumps({f"text {n}": text for n, text in enumerate(texts)}, ensure_ascii=False).encode()


def from_json(content: bytes) -> list[str]:
    return [*json.loads(content).values()]


def to_csv(texts: Sequence[str]) -> bytes:
    written = StringIO()
    csv.writer(written).writerows([text, "x"] for text in ("source", *texts))
    return written.getvalue().encode()


def from_csv(content: bytes) -> list[str]:
    return [row[-1] for row in csv.reader(StringIO(content.decode()))][1:]  # beside the source


def to_xlsx(texts: Sequence[str]) -> bytes:
    book = pytest.importorskip("openpyxl", reason="needs openpyxl").Workbook()
    for text in texts:
        book.active.append([text])
        book.active.cell(book.active.max_row, 1).data_type = "s"  # = begins a text here, no formula
    content = BytesIO()
    book.save(content)
    return content.getvalue()


def from_xlsx(content: bytes) -> list[str]:
    sheet = pytest.importorskip("openpyxl", reason="needs openpyxl").load_workbook(BytesIO(content)).active
    return [str(row[-1] or "") for row in sheet.iter_rows(values_only=True)]  # beside the source


def zipped(name: str, content: str) -> bytes:
    """Return an archive with one file; its other files do not matter here."""
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(name, content)
    return written.getvalue()


def texts_in(content: bytes, name: str, pattern: str) -> list[str]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return [html.unescape(text) for text in re.findall(pattern, archive.read(name).decode(), re.DOTALL)]


def to_pptx(texts: Sequence[str]) -> bytes:
    paragraphs = "".join(f"<a:p><a:r><a:t>{html.escape(text)}</a:t></a:r></a:p>" for text in texts)
    return zipped("ppt/slides/slide1.xml", f'<p:sld xmlns:a="urn:a" xmlns:p="urn:p">{paragraphs}</p:sld>')


def from_pptx(content: bytes) -> list[str]:
    paragraphs = texts_in(content, "ppt/slides/slide1.xml", r"<a:p>(.*?)</a:p>")
    return [re.sub(r"<a:[^<>]*>|</a:[rt]>", "", text) for text in paragraphs]


def to_odt(texts: Sequence[str]) -> bytes:
    paragraphs = "".join(f"<text:p>{html.escape(text)}</text:p>" for text in texts)
    return zipped("content.xml", f'<office:text xmlns:office="urn:o" xmlns:text="urn:t">{paragraphs}</office:text>')


def from_odt(content: bytes) -> list[str]:
    return texts_in(content, "content.xml", r"<text:p>(.*?)</text:p>")


def to_epub(texts: Sequence[str]) -> bytes:
    return zipped("a.xhtml", f"<html><body>{to_html(texts).decode().partition(chr(10))[2]}</body></html>")


def from_epub(content: bytes) -> list[str]:
    return texts_in(content, "a.xhtml", r"<p>(.*?)</p>")


def to_arb(texts: Sequence[str]) -> bytes:
    return json.dumps({"@@locale": "de"} | {f"text{n}": text for n, text in enumerate(texts)}).encode()


def from_arb(content: bytes) -> list[str]:
    return [text for name, text in json.loads(content).items() if not name.startswith("@")]


def to_paragraphs(texts: Sequence[str]) -> bytes:
    return "\n\n".join(texts).encode() + b"\n"


def from_paragraphs(content: bytes) -> list[str]:
    return content.decode().rstrip("\n").split("\n\n")


DOCUMENTS = {
    "html": (to_html, from_html),
    "pptx": (to_pptx, from_pptx),
    "odt": (to_odt, from_odt),
    "odp": (to_odt, from_odt),
    "epub": (to_epub, from_epub),
    "arb": (to_arb, from_arb),
    "txt": (to_paragraphs, from_paragraphs),
    "md": (to_paragraphs, from_paragraphs),
    "vtt": (to_vtt, from_vtt),
    "json": (to_json, from_json),
    "csv": (to_csv, from_csv),
    "xlsx": (to_xlsx, from_xlsx),
    "po": (to_po, from_po),
    "docx": (to_docx, from_docx),
    "xliff": (to_xliff, from_xliff),
    "srt": (to_srt, from_srt),
}


# By day, HTML has all texts, and each other format three of each category.
@pytest.mark.parametrize(
    ("kind", "most"),
    quick_and_slow([*product(DOCUMENTS, (len(TEXTS), 3))], lambda _, case: (case[0] == "html") == (case[1] > 3)),
)
def test_the_paragraphs_of_a_document_are_translated_like_texts(letters_run, translations, tmp_path, kind, most):
    texts = [text for text in IN_DOCUMENTS if kind not in ("srt", "vtt") or not MARKUP_IN_SUBTITLES.search(text)]
    if kind in ("json", "arb"):  # a value of one word may be a name of programs
        texts = [text for text in texts if re.search(r"[^\W\d_]\S*\s", text)]
    if kind == "md":
        texts = [text for text in texts if not MARKUP_IN_MARKDOWN.search(text)]
    if kind == "txt":
        texts = [text for text in texts if not MARKUP_IN_TEXT.search(text)]
    if kind in ("xliff", "json", "arb"):  # the branches of a message of ICU are translated one by one
        texts = [text for text in texts if not CHOICE.search(text)]
    assert len(texts) > 200
    texts = of_each_category(texts, most)
    write, read = DOCUMENTS[kind]
    (tmp_path / f"in.{kind}").write_bytes(write(texts))
    column = "#1" if kind in ("csv", "xlsx") else ""
    nmt("translate", f"{tmp_path / f'in.{kind}'}{column}", "-o", tmp_path / f"out.{kind}", "-m", letters_run, *OPTIONS)
    found = read((tmp_path / f"out.{kind}").read_bytes())
    pairs = [(text, other, translations[text].text) for text, other in zip(texts, found, strict=True)]
    assert [each for each in pairs if each[1].split() != each[2].split()] == []
