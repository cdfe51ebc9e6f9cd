"""`nmt translate` with texts of any structure, and as part of a pipe."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.artifacts.checkpoint import read_weights, save_weights
from nmt.artifacts.rundir import RunDir
from nmt.base.partial_file import PartialFile
from tests.command_line import nmt
from tests.long_stream import check, holds
from tests.translation.test_confidence import calibrate
from tests.words import WORDS

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "NMT_MODEL"}, "PYTHONPATH": str(ROOT)}


def test_a_long_line_is_split_or_cut_as_asked(digits_run):
    text = b"1234567. " * 8 + b"\n12\n"
    done = nmt("translate", "-m", digits_run, stdin=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1] == "21"
    done = nmt("translate", "-m", digits_run, "--set", "decoding.split=never", stdin=text)
    assert done.stderr == "warning: line 1: longer than the model's limit: its end is not translated\n"
    assert len(done.stdout.splitlines()) == 2


def test_jsonl_has_the_flags(digits_run):
    done = nmt("translate", "-m", digits_run, "--format", "jsonl", stdin=b"1234567. " * 8 + b"\n\n123\n")
    long, blank, short = map(json.loads, done.stdout.splitlines())
    assert (long["num_segments"], long["truncated"], long["sentence_split"]) == (8, False, False)
    assert (blank["text"], blank["num_segments"], blank["length_ratio"], blank["mean_log_prob"]) == ("", 0, 0.0, 0.0)
    assert short["length_ratio"] == 1.0
    assert short["mean_log_prob"] == pytest.approx(short["score"] / len(short["token_scores"]), abs=1e-5)
    flags = {"loop_retried": False, "loop_unresolved": False, "copied_source": False, "wrong_language": False}
    flags |= {"num_protected": 0}
    assert {name: short[name] for name in flags} == flags
    assert short["protected_translated_around"] == short["protected_lost"] == []
    assert "expected_chrf" not in short  # nothing was calibrated


def test_a_calibrated_model_expects_a_chrf_of_each_line_and_hypothesis(words_run, tmp_path):
    run = calibrate(words_run, tmp_path / "run").path
    options = ("--format", "jsonl", "--beam", 3, "--n-best", 2)
    done = nmt("translate", "-m", run, *options, stdin=b"tipu rube.\n\n!!!\n")
    translated, *others = map(json.loads, done.stdout.splitlines())
    assert 0 < translated["expected_chrf"] < 100
    assert translated["hypotheses"][0]["expected_chrf"] == translated["expected_chrf"]
    assert all("expected_chrf" not in each for each in others)
    assert nmt("translate", "-m", run, "tipu rube.").stdout == nmt("translate", "-m", words_run, "tipu rube.").stdout


def test_protected_spans_are_kept_unless_that_is_turned_off(letters_run):
    kept = nmt("translate", "-m", letters_run, "--format", "jsonl", "12 {user_name}.")
    assert json.loads(kept.stdout)["num_protected"] == 1
    assert "{user_name}" in json.loads(kept.stdout)["text"]
    plain = nmt(
        "translate", "-m", letters_run, "--format", "jsonl", "--set", "decoding.protect=false", "12 {user_name}."
    )
    assert json.loads(plain.stdout)["num_protected"] == 0


def test_what_is_lost_is_warned_of_with_its_line(letters_run):
    many = " ".join(f"{{n{i}}}" for i in range(9)) + " 12."
    done = nmt("translate", "-m", letters_run, "--precision", "fp32", "--set", "decoding.split=never", "12.", many)
    lost = "warning: line 2: protected text is missing or changed: {n8}\n"
    assert done.stderr == f"{lost}warning: line 2: the text is unlike the model's training text: noise\n"
    options = ("--precision", "fp32", "--set", "decoding.split=never")
    assert nmt("translate", "-m", letters_run, *options, stdin=f"12.\n{many}\n".encode()).stderr == lost


def test_what_nmt_guesses_of_a_text_is_said_of_arguments_but_not_of_each_line_of_a_file(letters_run):
    foreign = "我来自中国，这是一个很长的句子。"
    guess = "warning: line 1: the text is unlike the model's training text: language"
    assert nmt("translate", "-m", letters_run, foreign).stderr.startswith(guess)
    assert guess not in nmt("translate", "-m", letters_run, stdin=f"{foreign}\n".encode()).stderr


def test_a_glossary_is_checked_line_by_line(words_run, tmp_path):
    (tmp_path / "terms.tsv").write_text(f"{WORDS[0]}\txyzzy\n", encoding="utf-8")
    lines = f"{WORDS[1]}\n{WORDS[0]}\n".encode()
    command = ("translate", "-m", words_run, "--glossary", tmp_path / "terms.tsv", "--engine")
    done = nmt(*command, "torch", "--format", "jsonl", stdin=lines)  # it cannot require a term
    assert f"warning: line 2: glossary terms are missing: {WORDS[0]} = xyzzy\n" in done.stderr
    without, with_term = map(json.loads, done.stdout.splitlines())
    assert (without["num_terms"], without["terms_missed"]) == (0, [])
    assert (with_term["num_terms"], with_term["terms_missed"]) == (1, [[WORDS[0], "xyzzy"]])
    required = nmt(*command, "native", stdin=lines)
    assert ("xyzzy" in required.stdout, required.stderr) == (True, "")
    page = tmp_path / "page.html"
    page.write_text(f"<p>{WORDS[0]} <b>{WORDS[1]}</b></p>", encoding="utf-8")
    done = nmt(*command, "torch", page, "-o", tmp_path / "out.html")
    assert f"1 paragraph: glossary terms are missing: {WORDS[0]} = xyzzy" in done.stderr
    assert (tmp_path / "out.html").is_file()


def test_a_faulty_glossary_is_refused_with_its_line(words_run, tmp_path):
    (tmp_path / "terms.tsv").write_text("a = b\n", encoding="utf-8")
    done = nmt("translate", "-m", words_run, "--glossary", tmp_path / "terms.tsv", "x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path / 'terms.tsv'}:1: this line has no tab\n")


def test_an_output_is_not_continued_with_weights_that_were_trained_anew(digits_run, tmp_path):
    run, out, source = Path(shutil.copytree(digits_run, tmp_path / "run")), tmp_path / "out", tmp_path / "in"
    source.write_bytes(b"12\n" * 40 + b"9" * 1_000_001 + b"\n")  # the last line stops the command
    command = ("translate", "-m", run, "-i", source, "-o", out)
    assert nmt(*command).returncode == 1
    path = RunDir(run).usable_checkpoint()
    before = path.read_bytes()
    save_weights(path, {name: tensor + 1e-6 for name, tensor in read_weights(path).items()})
    done = nmt(*command, "--resume")
    assert done.returncode == 1
    assert "was written with weights" in done.stderr
    path.write_bytes(before)
    source.write_bytes(b"21\n" + b"12\n" * 39)
    done = nmt(*command, "--resume")
    assert done.returncode == 1
    assert re.search(rf"error: {source}: its first \d+ lines are not those that were translated\n", done.stderr)
    assert done.stderr.endswith("  resume with the same input, or delete the .partial file to start over\n")
    source.write_bytes(b"12\n" * 40)
    assert nmt(*command, "--resume").returncode == 0
    assert out.read_text() == "21\n" * 40


@pytest.mark.parametrize("option", ["--glossary", "--tm"])
def test_an_output_is_not_continued_with_other_terms_or_another_memory(digits_run, tmp_path, option):
    pytest.importorskip("rapidfuzz", reason="needs the extra tm")
    pairs, out, source = tmp_path / "pairs.tsv", tmp_path / "out", tmp_path / "in"
    pairs.write_text("345\t678\n")
    source.write_bytes(b"12\n" * 40 + b"9" * 1_000_001 + b"\n")  # the last line stops the command
    command = ("translate", "-m", digits_run, "-i", source, "-o", out, option, pairs)
    assert nmt(*command).returncode == 1
    before = (tmp_path / "out.partial").read_bytes()
    pairs.write_text("345\t876\n")
    done = nmt(*command, "--resume")
    assert done.returncode == 1
    assert f"was written with {'glossary' if option == '--glossary' else 'memory'}" in done.stderr
    assert (tmp_path / "out.partial").read_bytes() == before


def test_output_comes_while_the_input_is_still_open(digits_run):
    command = [sys.executable, "-m", "nmt", "translate", "-m", str(digits_run)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)
    assert process.stdin is not None
    assert process.stdout is not None
    for line in (b"123\n", b"45\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline() == line.strip()[::-1] + b"\n"
    process.stdin.close()
    assert process.stdout.read() == b""
    assert process.wait() == 0
    process.stdout.close()


def test_a_pipe_closed_early_ends_quietly_though_the_input_stays_open(digits_run):
    command = [sys.executable, "-m", "nmt", "translate", "-m", str(digits_run)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:
        process.stdin.write(b"12\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"21\n"
        process.stdout.close()
        process.stdin.write(b"34\n")
        process.stdin.flush()
        assert process.wait(600) == 0
        assert process.stderr.read() == b""


def test_a_line_without_end_is_refused_by_its_number(digits_run):
    done = nmt("translate", "-m", digits_run, stdin=b"12\n" + b"x" * 1_000_001)
    assert (done.returncode, done.stdout) == (1, "21\n")
    assert done.stderr == (
        "error: standard input:2: this line is longer than 1 MB\n"
        "  write one sentence per line, each line ending in LF\n"
    )


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_stream_stays_in_order_and_memory_is_bounded(digits_run):
    found = check(str(digits_run), 1500, 1000)
    assert holds(found), found
    assert found["given_when_first_output_came"] < 1000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_stream_of_a_hundred_thousand_lines_takes_no_more_memory(digits_run):
    found = check(str(digits_run), 100_000, 10_000)
    assert holds(found), found


def test_an_output_never_replaces_its_input(digits_run, tmp_path):
    for name, content in (("in.txt", "12\n"), ("page.html", "<p>12</p>")):
        (tmp_path / name).write_text(content)
        (tmp_path / f"link-{name}").symlink_to(tmp_path / name)
    for arguments in (
        ("-i", tmp_path / "in.txt", "-o", tmp_path / "in.txt"),
        ("-i", tmp_path / "in.txt", "-o", tmp_path / "link-in.txt"),
        (tmp_path / "page.html", "-o", tmp_path / "link-page.html"),
    ):
        done = nmt("translate", "-m", digits_run, *arguments)
        assert done.returncode == 1
        assert done.stderr == f"error: {arguments[-1]}: this file is the input\n  choose another name for the output\n"
    assert (tmp_path / "in.txt").read_text() == "12\n"
    assert (tmp_path / "page.html").read_text() == "<p>12</p>"
    done = nmt("translate", "-m", digits_run, "-o", tmp_path / "o.svg", "--attention", tmp_path / "o.svg", "12")
    assert "two outputs have this name" in done.stderr
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("12\t34\n")
    done = nmt("translate", "-m", digits_run, "--glossary", glossary, "-o", glossary, "12")
    assert done.stderr == f"error: {glossary}: this file is the input\n  choose another name for the output\n"
    assert glossary.read_text() == "12\t34\n"


TABLE = "; nmt translate {} --output NEW.{} translates column 2 of a table"


@pytest.mark.parametrize(
    ("name", "form", "how"),
    [
        ("a b.tsv", "tsv", TABLE.format("'a b.tsv#2'", "tsv")),
        ("a.tsv.gz", "tsv", ""),
        ("a.tmx", "tmx", ""),
        *((f"a.{form}", form, TABLE.format(f"'a.{form}#2'", form)) for form in ("csv", "xlsx")),
    ],
)
def test_a_parallel_corpus_is_not_translated_as_plain_lines(name, form, how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("12\t34\n")
    error = CliRunner().invoke(app, ["translate", "-i", name, "-o", "out"]).exception
    assert str(error) == (
        f"{name}: a {form} file is not plain text with one sentence per line\n"
        f"  write the texts to translate into a file with one per line{how}"
    )


def test_the_fields_of_json_lines_are_handed_through(digits_run, tmp_path):
    lines = [{"id": 7, "src": "12", "note": {"a": [1]}}, {"id": "x", "src": "34 5", "text": "old"}]
    written = "\n\n".join(map(json.dumps, lines))
    (tmp_path / "in.jsonl").write_text(written.replace("src", "source") + "\n")
    source, output = f"{tmp_path / 'in.jsonl'}#source", tmp_path / "out.jsonl"
    assert nmt("translate", "-m", digits_run, "-i", source, "-o", output).returncode == 0
    translated = [json.loads(line) for line in output.read_text().splitlines()]
    alone = [
        json.loads(line)
        for line in nmt("translate", "-m", digits_run, "--format", "jsonl", "12", "34 5").stdout.splitlines()
    ]
    for record, line, expected in zip(translated, lines, alone, strict=True):
        assert record == {
            "id": line["id"],
            "source": line["src"],
            **({"note": line["note"]} if "note" in line else {}),
            **expected,
        }
    assert list(translated[0])[:3] == ["id", "source", "note"]
    texts = nmt("translate", "-m", digits_run, "-i", source, "--format", "text").stdout.splitlines()
    assert texts == [record["text"] for record in alone]


def test_scores_of_lines_that_were_killed_within_a_block_are_those_of_a_command_that_was_not(letters_run, tmp_path):
    (tmp_path / "in").write_text("".join(f"{number * 7919 % 10 ** (number % 7 + 1)}\n" for number in range(120)))
    command = ("translate", "-m", letters_run, "-i", tmp_path / "in", "--engine", "torch", "--format", "jsonl", "-o")
    assert nmt(*command, tmp_path / "whole").returncode == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartialFile, "finish", PartialFile.interrupt)
        nmt(*command, tmp_path / "out")
    settings = tmp_path / "out.partial.json"  # as after kill -9: nothing says which lines were translated
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "sources": None}))
    partial = tmp_path / "out.partial"
    partial.write_text("".join(partial.read_text().splitlines(keepends=True)[:50]) + "{")
    done = nmt(*command, tmp_path / "out", "--resume")
    assert done.stderr.startswith("resuming after 48 lines")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_json_lines_that_were_resumed_are_those_of_a_command_that_was_not(digits_run, tmp_path):
    lines = [json.dumps({"id": number, "src": str(number)}) + "\n" for number in range(20)]
    (tmp_path / "in.jsonl").write_text("".join(lines) + "{\n")
    command = ["translate", "-m", digits_run, "-i", tmp_path / "in.jsonl", "-o"]
    assert nmt(*command, tmp_path / "out.jsonl").returncode == 1
    assert len((tmp_path / "out.jsonl.partial").read_text().splitlines()) == 16
    (tmp_path / "in.jsonl").write_text("".join(lines))
    assert nmt(*command, tmp_path / "out.jsonl", "--resume").returncode == 0
    assert nmt(*command, tmp_path / "whole.jsonl").returncode == 0
    assert (tmp_path / "out.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("12", "no text in the field 'src'"),
        ('{"id": 1, "tgt": "a"}', "no text in the field 'src'\n  it has 'id', 'tgt'; name the field with the text"),
        ('{"src": 12}', "no text in the field 'src'"),
        (
            "{",
            "this line is not JSON\n  each line is to be an object with a text in the field 'src'; "
            "all strings of a JSON document: nmt translate FILE.json --output NAME.json",
        ),
    ],
)
def test_json_lines_without_a_text_are_told_by_their_line(digits_run, tmp_path, line, message):
    (tmp_path / "in.jsonl").write_text(json.dumps({"src": "1"}) + f"\n{line}\n")
    done = nmt("translate", "-m", digits_run, "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl")
    assert done.returncode == 1
    assert f"{tmp_path / 'in.jsonl'}:2: {message}" in done.stderr


@pytest.mark.parametrize(("name", "content"), [("a.csv", "id,text\n1,12\n"), ("a.tsv", "id\ttext\n1\t12\n")])
def test_a_table_gets_a_column_of_translations(digits_run, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    done = nmt("translate", "-m", digits_run, tmp_path / name, "-o", tmp_path / f"b{name}")
    assert done.returncode == 2
    assert "is a table; name the column to translate: nmt translate" in " ".join(done.stderr.split())
    done = nmt("translate", "-m", digits_run, f"{tmp_path / name}#text", "-o", tmp_path / f"b{name}")
    assert done.returncode == 0, done.stderr
    twelve = nmt("translate", "-m", digits_run, "12").stdout.strip()
    with open(tmp_path / f"b{name}", newline="") as file:
        rows = [*csv.reader(file, delimiter=content[2])]  # the new column may be in quotation marks
    assert [row[:2] for row in rows] == [["id", "text"], ["1", "12"]]
    assert rows[1][2] == twelve
    done = nmt("translate", "-m", digits_run, f"{tmp_path / name}#none", "-o", tmp_path / f"c{name}")
    assert (
        f"error: {tmp_path / name}: no column 'none'\n  the columns are 1 to 2, or by name: 'id', 'text'" in done.stderr
    )


def test_options_that_have_no_meaning_for_documents_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("page.html").write_text("<p>12</p>")
    options = ["--attention", "a.svg", "--format", "jsonl", "--beam", "3", "--n-best", "3"]
    done = CliRunner().invoke(app, ["translate", "page.html", "-o", "out.html", *options], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "--attention needs one text: it draws one text" in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["translate", "page.html", "-o", "out.html", "--n-best", "3", "--prefix", "a"])
    message = "a document cannot be used with --n-best, --prefix: it is written as a whole"
    assert message in " ".join(done.output.replace("│", " ").split())
    done = CliRunner().invoke(app, ["translate", "page.html", "-o", "out.html", "--format", "jsonl"])
    assert "JSON lines; name them NAME.jsonl" in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("name", ["a.txt.gz", "a.xz", "a.zst"])
def test_an_output_with_the_name_of_compressed_data_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["translate", "--output", name, "12"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    message = f"--output {name}: this command writes plain text; write {name.rpartition('.')[0]}, then compress it"
    assert message in " ".join(done.output.split())
    assert list(tmp_path.iterdir()) == []


def test_a_dash_is_standard_input_and_output(digits_run, tmp_path):
    done = nmt("translate", "-m", digits_run, "-i", "-", "-o", "-", stdin=b"12\n345\n", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "21\n543\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="arguments are no bytes there")
def test_arguments_are_utf_8_where_the_locale_cannot_decode_them(letters_run):
    ascii_only = {**ENVIRONMENT, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "nmt", "translate", "-m", str(letters_run), "--format", "jsonl", "ab\u00e9"]
    expected = nmt("translate", "-m", letters_run, "--format", "jsonl", "ab\u00e9").stdout
    assert subprocess.run(command, capture_output=True, env=ascii_only).stdout.decode("utf-8") == expected != ""


def test_the_name_of_a_file_is_not_translated_as_a_text(digits_run, tmp_path):
    (tmp_path / "my report.log").write_text("12\n")
    (tmp_path / "page.html").write_text("<p>12</p>")
    done = nmt("translate", "-m", digits_run, tmp_path / "my report.log")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"is a file, not a text: --input '{tmp_path / 'my report.log'}' translates its lines" in done.stderr
    assert "to keep its form, save or convert it as .docx, .html, .md, .po, .pptx, .srt or .xlsx" in done.stderr
    (tmp_path / "notes").write_text("12\n")
    done = nmt("translate", "-m", digits_run, tmp_path / "notes")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / 'notes'} is a file, not a text" in done.stderr
    done = nmt("translate", "-m", digits_run, tmp_path / "page.html", tmp_path / "page.html")
    assert "give one document at a time" in done.stderr
    for path in (tmp_path, os.devnull):
        done = nmt("translate", "-m", digits_run, path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "is a folder, a pipe or a device" in done.stderr
    tables = (["none.csv"], ["none.tsv#2"], ["none.xlsx#B", "-o", tmp_path / "out.xlsx"])
    for arguments in (["none.docx"], ["no such.html", "-o", tmp_path / "out.html"], *tables):
        done = nmt("translate", "-m", digits_run, *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            f"error: {arguments[0].partition('#')[0]}: no such file\n  paths are relative to "
        )
    assert not [*tmp_path.glob("out.*")]
    assert nmt("translate", "-m", digits_run, "1 a.html").returncode == 0


@pytest.mark.parametrize(
    ("text", "is_warned"), [("12.log", True), ("1.txt.gz", True), ("12.LOG", True), ("1.2", False), ("1 2.", False)]
)
def test_a_text_that_may_be_the_name_of_a_missing_file_is_told(digits_run, text, is_warned):
    done = nmt("translate", "-m", digits_run, text)
    assert done.returncode == 0
    assert (f"{text}: there is no such file; this is translated as a text" in done.stderr) == is_warned


@pytest.mark.parametrize("name", ["out.docx", "out.xlsx", "out.PDF"])
def test_plain_text_is_not_written_under_the_name_of_another_format(digits_run, tmp_path, name):
    done = nmt("translate", "-m", digits_run, "12", "-o", tmp_path / name)
    assert done.returncode == 2
    assert "are written as plain text; name a .txt file" in " ".join(done.stderr.split())
    assert [*tmp_path.iterdir()] == []


def test_a_document_given_as_lines_is_warned_of(digits_run, tmp_path):
    (tmp_path / "a b.srt").write_text("12\n")
    done = nmt("translate", "-m", digits_run, "--input", "a b.srt", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "21\n")
    assert done.stderr == (
        "warning: a b.srt: this document is translated line by line, markup included; "
        "nmt translate 'a b.srt' --output NAME.srt keeps its format\n"
    )


def test_attention_is_drawn_when_the_output_is_complete(digits_run, tmp_path):
    (tmp_path / "a.svg").mkdir()
    done = nmt("translate", "-m", digits_run, "12", "--attention", tmp_path / "a.svg", "-o", tmp_path / "out.txt")
    assert (done.returncode, "--resume" in done.stderr) == (1, False)
    assert (tmp_path / "out.txt").read_text() == "21\n"
    done = nmt("translate", "-m", digits_run, "12", "--attention", "b.svg", "-o", tmp_path / "out.txt", "--resume")
    assert (done.returncode, "cannot be used with --attention" in " ".join(done.stderr.split())) == (2, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_named_pipe_whose_reader_has_read_enough_ends_quietly(digits_run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["head", "-n", "1", tmp_path / "pipe"], stdout=subprocess.PIPE)
    done = nmt("translate", "-m", digits_run, "-o", tmp_path / "pipe", stdin=b"12\n" * 5000)
    assert (done.returncode, done.stderr, reader.communicate()[0]) == (0, "", b"21\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_device_that_is_full_is_named(digits_run):
    done = nmt("translate", "-m", digits_run, "-o", "/dev/full", stdin=b"12\n")
    message = "error: /dev/full: cannot be written (No space left on device)"
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, message)


@pytest.mark.parametrize("text", ["- one", "-5 degrees", "-- one", "-?"])
def test_an_unknown_option_that_may_begin_a_text_names_the_way_to_write_such_a_text(text, words_run):
    refused = nmt("translate", "--model", words_run, text)
    assert refused.returncode == 2
    assert 'Write -- before a text that begins with a dash: -- "- text"' in refused.stderr
    assert nmt("translate", "--model", words_run, "--", text).returncode == 0


def test_an_unknown_long_option_is_told_as_one():
    refused = nmt("translate", "--beem")
    assert (refused.returncode, "Write --" in refused.stderr) == (2, False)


def test_a_warning_lists_few_of_many_items(letters_run, tmp_path):
    numbers = range(10, 40)
    (tmp_path / "terms.tsv").write_text("".join(f"{number}\tx{number}\n" for number in numbers))
    wild = ("--n-best", "2", "--set", "decoding.sample=true", "--set", "decoding.temperature=3")
    text = " ".join(map(str, numbers))
    done = nmt("translate", "-m", letters_run, "--glossary", tmp_path / "terms.tsv", *wild, text)
    (warning,) = (line for line in done.stderr.splitlines() if "glossary terms are missing" in line)
    assert warning.count(" = ") == 20
