"""`nmt pack` as it is typed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app

FROZEN = Path(__file__).parents[2] / "frozen" / "format-1"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    shutil.copytree(FROZEN, tmp_path / "run")
    monkeypatch.chdir(tmp_path)


def call(*arguments: str):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or done.exit_code, done.output
    return done


def test_a_run_is_packed_evaluated_and_used(tmp_path, messages):
    assert call("eval", "-m", "run").exit_code == 0
    assert call("pack", "run", "-o", "m.zip").exit_code == 0
    assert messages[-1].startswith("done: m.zip, 0.1 MB\n  nmt translate --model m.zip 'text'")
    assert any("names no license" in line for line in messages)
    assert call("translate", "-m", "m.zip", "12").stdout == call("translate", "-m", "run", "12").stdout == "21\n"
    assert "test BLEU" in call("info", "m.zip").stdout
    done = call("eval", "-m", "m.zip", "--src", "run/data/test.src", "--ref", "run/data/test.tgt")
    assert "chrF2" in done.stdout
    assert len(list(Path("m-eval").glob("*.hyp"))) == 1
    done = call("eval", "-m", "run", "--compare", "m.zip", "--src", "run/data/test.src", "--ref", "run/data/test.tgt")
    assert done.exit_code == 0


def test_a_license_in_the_card_is_not_asked_for(messages):
    Path("run/README.md").write_text("---\nlicense: mit\n---\n\n# Digits\n")
    assert call("pack", "run", "-o", "m.zip", "--checkpoint", "average").exit_code == 0
    assert not any("license" in line for line in messages)


def test_a_revision_is_made_by_the_upload_and_not_named():
    done = call("push", "run", "me/digits@v2")
    assert done.exit_code == 2
    assert "the upload creates the revision; give only user/name" in " ".join(done.output.replace("│", " ").split())


def test_a_file_is_replaced_only_on_request():
    Path("m.zip").write_text("mine")
    done = call("pack", "run", "-o", "m.zip")
    assert done.exception.message == "this file already exists"
    assert Path("m.zip").read_text() == "mine"
    assert call("pack", "run", "-o", "m.zip", "--overwrite").exit_code == 0


def test_a_run_that_continues_from_a_packed_model_starts_with_its_weights(tmp_path):
    """Fine-tuning needs the weights and the tokenizer, which a packed model has."""
    from nmt.artifacts.checkpoint import read_weights
    from nmt.artifacts.find_model import find_run
    from nmt.config import load_config
    from nmt.training.run import start_run
    from tests.tiny import TRAINING, write_digits

    call("pack", "run", "-o", "m.zip")
    write_digits(tmp_path, num_train=60, num_held_out=4)
    base = load_config(Path("run/config.yaml"))
    training = {
        **TRAINING,
        "init_from": "m.zip",
        "max_updates": 1,
        "warmup_updates": 0,
        "validate_every": 1,
        "lr": 1e-9,
    }
    config = base.model_copy(update={"training": type(base.training).model_validate(training)})
    start_run(config, tmp_path / "new")
    before, after = (read_weights(find_run(name).best_checkpoint()) for name in ("m.zip", "new"))
    assert all((before[name] - after[name]).abs().max() < 1e-6 for name in before)
