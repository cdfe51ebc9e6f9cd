"""Kills in the middle of a check, a cleaning and two preparations: nothing is half-written, and all ends the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "torture_data.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the script kills with a signal that Windows does not have")
def test_what_reads_a_corpus_and_is_killed_ends_as_if_nothing_had_happened(tmp_path):
    command = [sys.executable, str(SCRIPT), "--kills", "4", "--seed", "3"]
    environment = {"PYTHONPATH": str(SCRIPT.parents[1]), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "kills 4, identical 4, lost 0"
