"""An evaluation from Python is the one of `nmt eval`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.artifacts.rundir import RunDir
from nmt.evaluation.evaluation import evaluate


def test_a_run_is_evaluated_as_by_the_command(digits_run, tmp_path):
    run = RunDir(Path(shutil.copytree(digits_run, tmp_path / "digits")))
    evaluation = evaluate(run, "valid")
    assert [score.name for score in evaluation.scores] == ["BLEU", "chrF2"]
    saved = (run.results / "valid.json").read_text()
    assert json.loads(saved) == evaluation.as_json()
    done = CliRunner().invoke(app, ["eval", "--model", str(run.path), "--split", "valid", "--format", "json"])
    assert done.stdout == saved
