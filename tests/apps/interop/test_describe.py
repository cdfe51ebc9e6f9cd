"""What `nmt info` says of a model, and of folders that are no runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nmt.apps.interop.describe import describe_model
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError

FROZEN = Path(__file__).parents[2] / "frozen" / "format-1"


def test_an_export_for_ctranslate2_is_named_as_such(tmp_path):
    for name in ("export.json", "config.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(RunError, match="an export for CTranslate2, which nmt does not load"):
        describe_model(str(tmp_path))


def test_test_scores_of_other_weights_are_left_out(tmp_path):
    run = RunDir(Path(shutil.copytree(FROZEN, tmp_path / "run")))
    run.write_json(run.evaluation_file, {"checkpoints": [run.index().best], "scores": {"BLEU": {"value": 12.5}}})
    assert describe_model(str(run.path)).scores["test BLEU"] == 12.5
    run.write_json(run.evaluation_file, {"checkpoints": ["step-00000001"], "scores": {"BLEU": {"value": 12.5}}})
    assert "test BLEU" not in describe_model(str(run.path)).scores
