"""`nmt translate`, `nmt score`, `nmt eval` and `nmt export` with a model of two directions."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError

DIGITS, LETTERS = set("0123456789"), set("abcdefghij")


@pytest.fixture
def run(two_run, tmp_path) -> Path:
    return Path(shutil.copytree(two_run, tmp_path / "two"))


def nmt(*arguments: object) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_to_chooses_the_language_of_every_line(run, tmp_path):
    assert set(nmt("translate", "-m", run, "--to", "fr", "123")) <= {*LETTERS, "\n"}
    (tmp_path / "in.txt").write_text("123\n\n<2fr> 456\n")
    nmt("translate", "-m", run, "--to", "de", "--from", "en", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    lines = (tmp_path / "out.txt").read_text().split("\n")
    assert [set(line) <= alphabet for line, alphabet in zip(lines, (DIGITS, set(), LETTERS), strict=False)] == [
        True
    ] * 3
    assert float(nmt("score", "-m", run, "--to", "de", "--tsv", tab(tmp_path, "12\t21"))) < 0


def tab(folder: Path, text: str) -> Path:
    (folder / "a.tsv").write_text(text + "\n")
    return folder / "a.tsv"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "123"], "translates into de and fr; choose one of them"),
        (["translate", "--to", "it", "123"], "translates into de and fr, not into it"),
        (["eval", "--to", "it"], "the test set has no such direction; it has en-de, en-fr"),
    ],
)
def test_a_language_that_is_missing_or_unknown_is_an_error(run, arguments, message):
    verb, *others = arguments
    with pytest.raises(NmtError, match=message):
        nmt(verb, "-m", run, *others)


def test_files_for_evaluation_need_a_language(run, tmp_path):
    with pytest.raises(NmtError, match="choose one of them"):
        nmt("eval", "-m", run, "--tsv", tab(tmp_path, "12\t21"))
    result = json.loads(nmt("eval", "-m", run, "--to", "fr", "--tsv", tab(tmp_path, "12\tbc"), "--format", "json"))
    assert result["sentences"] == 1


def test_eval_scores_each_direction_and_their_mean(run):
    references = (run / "data" / "test.tgt").read_text().splitlines()
    references[::4] = ["9876"] * len(references[::4])  # so that the scores of sentences differ
    (run / "data" / "test.tgt").write_text("\n".join(references) + "\n")
    text = nmt("eval", "-m", run).splitlines()
    assert [line.split()[:2] for line in text] == [
        [name, metric] for name in ("en-de", "en-fr", "mean") for metric in ("BLEU", "chrF2")
    ]
    result = json.loads(nmt("eval", "-m", run, "--format", "json", "--metrics", "chrf"))
    assert json.loads((run / "eval" / "test.json").read_text()) == result
    assert (result["set"], result["sentences"], list(result["directions"])) == ("test", 20, ["en-de", "en-fr"])
    values = [each["scores"]["chrF2"]["value"] for each in result["directions"].values()]
    assert result["scores"]["chrF2"]["value"] == pytest.approx(sum(values) / 2, abs=0.01)
    assert ["±" in line for line in text] == [True] * 4 + [False] * 2
    one = json.loads(nmt("eval", "-m", run, "--to", "fr", "--format", "json", "--metrics", "chrf"))
    assert one == result["directions"]["en-fr"]
    program, *arguments = shlex.split(one["sacrebleu"])
    theirs = subprocess.run([sys.executable, "-m", program, *arguments], capture_output=True, text=True, check=True)
    assert json.loads(theirs.stdout)["score"] == one["scores"]["chrF2"]["value"]


@pytest.mark.parametrize(
    "option", [["--details"], ["--report", "page.html"], ["--compare", "other"]], ids=lambda given: given[0]
)
def test_a_look_at_sentences_is_at_those_of_one_direction(run, option):
    done = CliRunner().invoke(app, ["eval", "-m", str(run), *option])
    assert done.exit_code == 2
    assert "need one direction: choose it with --to" in " ".join(done.output.replace("│", " ").split())


def test_an_export_of_two_directions_is_checked_in_both(run, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    nmt("export", "ctranslate2", run, tmp_path / "ct2")
    info = json.loads((tmp_path / "ct2" / "export.json").read_text())
    assert info["directions"] == [str(direction) for direction in RunDir(run).config().data.directions]
    assert info["agreement"]["bleu"]["difference"] == 0
