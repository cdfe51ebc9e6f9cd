"""`nmt compare`, called as from the shell."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.interop.sharing import pack
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError

FROZEN = Path(__file__).parents[2] / "frozen" / "format-1"


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    """A folder with runs that differ in a seed and in a learning rate, and something else."""
    for name, old, new in (("a", "", ""), ("b", "  seed: 1", "  seed: 2"), ("c", "  lr: 0.01", "  lr: 0.02")):
        config = Path(shutil.copytree(FROZEN, tmp_path / "runs" / name)) / "config.yaml"
        config.write_text(config.read_text().replace(old, new) if old else config.read_text())
    (tmp_path / "runs" / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    return Path("runs")


def compare(*arguments: object):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def test_runs_settings_and_seeds_are_tables(runs):
    done = compare()
    assert done.exit_code == 0, done.exception
    table, settings, seeds = (part.splitlines() for part in done.stdout.rstrip().split("\n\n"))
    assert table[0].split() == ["run", "valid", "BLEU", "valid", "chrF2", "parameters", "minutes", "seed"]
    assert [line.split()[:2] for line in table[1:]] == [["1", "runs/a"], ["2", "runs/b"], ["3", "runs/c"]]
    assert [line.split() for line in settings] == [["setting", "1", "2", "3"], ["training.lr", "0.01", "0.01", "0.02"]]
    assert seeds[0] == "mean and standard deviation of 2 seeds: runs/a, runs/b"
    assert seeds[1].split() == ["score", "mean"]
    assert seeds[2].endswith("± 0.00")


@pytest.fixture
def groups(runs) -> Path:
    """The runs a and b, which differ in a seed, and two with another learning rate."""
    config = Path(shutil.copytree(runs / "c", runs / "d_1")) / "config.yaml"
    config.write_text(config.read_text().replace("  seed: 1", "  seed: 2"))
    return runs


def test_two_groups_of_seeds_are_tested(groups):
    *_, difference = compare().stdout.rstrip().split("\n\n")
    title, head, *rows = difference.splitlines()
    assert title == "mean of runs/a, runs/b, minus that of runs/c, runs/d_1"
    assert head.split() == ["score", "difference", "95%", "interval", "p", "over"]
    assert rows[0].split() == ["valid", "BLEU", "+0.00", "+0.00", "to", "+0.00", "1.000", "seeds"]
    found = json.loads(compare("--format", "json").stdout)["groups"]
    assert found[0]["second"] == ["runs/c", "runs/d_1"]
    assert found[0]["differences"][0]["p_value"] == 1.0


def test_tables_are_written_for_pages_and_papers(groups):
    text, markdown, latex = (compare("--format", name).stdout for name in ("text", "markdown", "latex"))
    assert text == compare().stdout
    lines = markdown.splitlines()
    assert lines[0].startswith("|  | run | valid BLEU |")
    assert lines[1] == "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    assert lines[2].startswith("| 1 | runs/a |")
    assert "" in (before := lines[: lines.index("| score | mean |")])
    assert before[-2].startswith("mean and standard deviation of 2 seeds")
    assert r"4 & runs/d\_1 &" in latex
    assert r" $\pm$ " in latex
    assert "\n% mean and standard deviation of 2 seeds: runs/c, runs/d_1\n" in latex
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 5
    assert compare("--format", "html").exit_code == 2


def test_json_holds_whole_settings(runs):
    comparison = json.loads(compare(runs / "a", runs / "c", "--format", "json").stdout)
    assert comparison["differing"] == ["training.lr"]
    assert comparison["runs"][1]["settings"]["training.lr"] == 0.02
    assert comparison["seeds"] == []


def test_what_is_no_run_is_left_out_and_said(runs, messages):
    assert compare(runs / "a", runs / "notes.txt").exit_code == 0
    assert f"skipped, because they are not runs: {runs / 'notes.txt'}" in messages
    none = compare(runs / "notes.txt")
    assert isinstance(none.exception, RunError)
    assert none.exception.message == "no run to compare"
    missing = compare(runs / "a", runs / "missing")
    assert str(missing.exception) == (
        f"{runs / 'missing'}: no such run\n  give folders made by `nmt train`, or files made by `nmt pack`"
    )


def test_packed_models_stand_beside_runs(runs, tmp_path, messages):
    run = RunDir(runs / "a")
    scores = {"BLEU": {"value": 31.0, "signature": "s"}}
    run.evaluations.mkdir()
    run.write_json(run.evaluations / "test.json", {"checkpoints": [run.index().best], "scores": scores})
    pack(run, tmp_path / "a.zip")
    done = compare(runs / "a", "a.zip")
    assert done.exit_code == 0, done.exception
    table = [line.split() for line in done.stdout.split("\n\n")[0].splitlines()]
    assert [row[:2] for row in table[1:]] == [["1", "runs/a"], ["2", "a.zip"]]
    valid = table[1][2:4]
    assert table[2][2:6] == [*valid, "31.00", table[1][5]]
    assert "warning: a.zip: no test set, so nmt cannot tell if these test scores are comparable" in messages


def test_missing_test_scores_are_said(runs, tmp_path, messages):
    pack(RunDir(runs / "a"), tmp_path / "a.zip")
    assert compare(runs / "a", "a.zip").exit_code == 0
    assert [line for line in messages if line.startswith("warning")] == [
        f"warning: {runs / 'a'}: no test scores of its best checkpoint; `nmt eval --model {runs / 'a'}` saves them",
        "warning: a.zip: no test scores of its best checkpoint; pack the run after `nmt eval`",
    ]


def test_a_zip_file_that_is_no_model_is_an_error(runs, tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("notes.txt", "mine")
    assert str(compare(runs / "a", "other.zip").exception).startswith(
        "other.zip: 'notes.txt' is not a file of a packed model"
    )
