"""A run of each format that was released still translates as it did; one that is not known says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nmt import Translator
from nmt.artifacts.find_model import find_run
from nmt.artifacts.run_records import FORMAT
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError

FROZEN = Path(__file__).parents[1] / "frozen"


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_a_frozen_run_translates_as_it_did(number, tmp_path):
    shutil.copytree(FROZEN / f"format-{number}", tmp_path / "run")
    expected = json.loads((FROZEN / f"format-{number}.json").read_text())
    assert json.loads((tmp_path / "run" / "run.json").read_text())["format"] == number
    done = Translator.load(tmp_path / "run", device="cpu").translate(list(expected))
    assert [translation.text for translation in done] == list(expected.values())


def test_a_newer_format_says_so(tmp_path):
    shutil.copytree(FROZEN / "format-1", tmp_path / "run")
    run = RunDir(tmp_path / "run")
    run.write_json(run.info_file, run.read_json(run.info_file) | {"format": FORMAT + 1})
    with pytest.raises(RunError) as caught:
        find_run(str(run.path))
    assert str(caught.value) == (
        f"{run.info_file}: the run has format {FORMAT + 1}\n"
        f"  this version of nmt reads format {FORMAT}; a newer version may read it"
    )


def test_damaged_best_weights_are_named_and_so_are_those_used_instead(tmp_path, caplog):
    shutil.copytree(FROZEN / f"format-{FORMAT}", tmp_path / "run")
    run = RunDir(tmp_path / "run")
    best = run.best_checkpoint()
    best.write_bytes(best.read_bytes()[:-1] + b"\0")
    assert Translator.load(tmp_path / "run", device="cpu").translate(["12"])[0].text == "21"
    (record,) = caplog.records
    used = run.usable_checkpoint().stem
    assert used != best.stem
    message = f"{best}: these weights are damaged: the checksum does not match; using {used} instead"
    assert record.getMessage() == message


def test_no_whole_weights_are_refused(tmp_path):
    shutil.copytree(FROZEN / f"format-{FORMAT}", tmp_path / "run")
    run = RunDir(tmp_path / "run")
    for path in run.checkpoints.glob("*.safetensors"):
        path.unlink()
    with pytest.raises(RunError, match="these weights are missing"):
        run.usable_checkpoint()
