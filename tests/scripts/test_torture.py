"""A few kills at random moments, and two other ways to stop: nothing is lost (`make torture` tries more)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.config import load_config
from nmt.training.run import start_run
from nmt.training.state import TrainState

SCRIPT = Path(__file__).parents[2] / "scripts" / "torture.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the script forks, which Windows cannot")
def test_a_training_that_is_killed_ends_as_if_nothing_had_happened(tmp_path):
    command = [sys.executable, str(SCRIPT), "--kills", "3", "--cases", "SIGTERM", "state, a flipped bit"]
    environment = {"PYTHONPATH": str(SCRIPT.parents[1]), "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (0, "kills 3, resumed 3, identical 3, lost 0"), done.stdout + done.stderr
    assert lines[1:3] == [
        "SIGTERM: exit code 143, resumed, identical",
        "state, a flipped bit: exit code -9, resumed, identical",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="the script forks, which Windows cannot")
def test_the_training_that_tries_patience_is_stopped_by_it(tmp_path):
    spec = importlib.util.spec_from_file_location("torture", SCRIPT)
    torture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(torture)
    torture.write_corpus(tmp_path)
    config = torture.write_config(tmp_path, "patience", torture.VARIANTS["bf16, patience"])
    start_run(load_config(config), tmp_path / "run")
    assert TrainState.load(RunDir(tmp_path / "run").state).counters.update < torture.TRAINING["max_updates"]
