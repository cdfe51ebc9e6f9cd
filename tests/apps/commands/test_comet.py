"""`nmt eval --metrics comet`: where the score appears."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.artifacts.rundir import RunDir
from tests.evaluation.comet_environment import make_comet_environment, write_model

FROZEN = Path(__file__).parents[2] / "frozen" / "format-1"


@pytest.fixture
def python(tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_COMET_PYTHON", str(make_comet_environment(tmp_path / "environment")))


@pytest.fixture
def run(tmp_path) -> RunDir:
    return RunDir(Path(shutil.copytree(FROZEN, tmp_path / "run")))


def evaluate(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["eval", "--device", "cpu", *map(str, arguments)])
    return done.stdout if done.exit_code == 0 else str(done.exception)


@pytest.mark.usefixtures("python")
def test_the_score_is_in_the_table_the_json_the_report_and_the_comparison(run, tmp_path):
    model = write_model(tmp_path / "model")
    options = ("-m", run.path, "--metrics", "chrf,comet", "--comet-model", model)
    chrf, comet = evaluate(*options).splitlines()
    assert chrf.startswith("chrF2 ")
    name, value, _, interval, signature = comet.split()
    assert (name, 0 < float(value) <= 100, float(interval) >= 0) == ("COMET", True, True)
    record = json.loads(evaluate(*options, "--format", "json", "--compare", run.path / "data" / "test.tgt"))
    assert f"{record['scores']['COMET']['value']:.2f}" == value
    assert record["scores"]["COMET"]["signature"] == signature
    assert set(record["compared"][0]["differences"]) == {"chrF2", "COMET"}
    assert "chrf" in record["sacrebleu"]
    assert "comet" not in record["sacrebleu"]
    saved = json.loads((run.evaluations / "test.json").read_text())
    assert saved["scores"] == record["scores"]
    evaluate(*options, "--report", tmp_path / "report.html", "--details")
    assert signature in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("python")
def test_comet_alone_names_no_command_of_sacrebleu(run, tmp_path):
    model = write_model(tmp_path / "model")
    record = json.loads(evaluate("-m", run.path, "--metrics", "comet", "--comet-model", model, "--format", "json"))
    assert list(record["scores"]) == ["COMET"]
    assert record["sacrebleu"] is None


def test_a_model_of_comet_without_the_metric_is_a_mistake(run):
    done = CliRunner().invoke(app, ["eval", "-m", str(run.path), "--comet-model", "some/model"])
    assert done.exit_code == 2
    assert "--comet-model needs comet in --metrics" in " ".join(done.output.split())


@pytest.mark.usefixtures("python")
def test_without_sources_comet_cannot_score(tmp_path):
    (tmp_path / "texts").write_text("a b\n")
    files = ("--hyp", tmp_path / "texts", "--ref", tmp_path / "texts", "--to", "en")
    options = ("--metrics", "comet", "--comet-model", write_model(tmp_path / "model"))
    assert evaluate(*files, *options) == (
        "COMET needs the source sentences, and there are none\n"
        "  give the sources with --src, or a file of pairs with --tsv"
    )
    assert evaluate(*files, *options, "--src", tmp_path / "texts").startswith("COMET 100.00 ± 0.00  nrefs:1|")


def test_without_a_python_that_has_comet_nothing_is_translated(run, monkeypatch):
    monkeypatch.delenv("NMT_COMET_PYTHON", raising=False)
    assert "set $NMT_COMET_PYTHON" in evaluate("-m", run.path, "--metrics", "comet")
    assert not (run.evaluations / "test.json").exists()
