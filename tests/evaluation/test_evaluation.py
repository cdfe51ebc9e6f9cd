"""An evaluation from Python is the one of `nmt eval`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner

from nmt import Translator
from nmt.apps.cli import app
from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.languages import Direction
from nmt.evaluation.evaluation import evaluate
from nmt.evaluation.test_sets import translate_set


def test_a_run_is_evaluated_as_by_the_command(digits_run, tmp_path):
    run = RunDir(Path(shutil.copytree(digits_run, tmp_path / "digits")))
    evaluation = evaluate(run, "valid")
    assert [score.name for score in evaluation.scores] == ["BLEU", "chrF2"]
    saved = (run.results / "valid.json").read_text()
    assert json.loads(saved) == evaluation.as_json()
    done = CliRunner().invoke(app, ["eval", "--model", str(run.path), "--split", "valid", "--format", "json"])
    assert done.stdout == saved


def test_a_source_beyond_the_limit_of_the_model_is_named(digits_run, caplog):
    with Translator.load(digits_run, scores=False) as translator:
        pairs = DirectedPairs(Direction("en", "en"), ["12", "1" * 40], ["21", "1" * 40])
        translate_set(translator, pairs, translator.options.changed(split="never"))
        limit = translator.max_src_len
    (record,) = caplog.records
    assert record.getMessage() == f"source 2 is longer than {limit} tokens; its end is not translated"
