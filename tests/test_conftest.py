"""A test that fails leaves nothing behind that fails another, and processes of xdist report all that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = """
import gc, logging, os, subprocess, sys
from pathlib import Path
import pytest

def test_that_fails():
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], stdout=subprocess.PIPE)
    Path("process").write_text(str(sleeper.pid))
    file = open("process")
    os.environ["NMT_LEFT"] = "1"
    os.chdir("/")
    logging.getLogger("nmt").setLevel(1)
    assert False

def test_after_it():
    gc.collect()  # a process still running and an open file are warnings, hence errors
    process = Path("process").read_text()
    assert subprocess.run(["ps", "-p", process], stdout=subprocess.DEVNULL).returncode == 1
    assert "NMT_LEFT" not in os.environ
    assert logging.getLogger("nmt").level != 1

@pytest.fixture
def without_end():
    yield
    assert False

def test_that_passes_but_for_its_end(without_end):
    pass

@pytest.mark.skip
def test_that_is_skipped():
    pass
"""


def test_processes_files_and_settings_of_a_failed_test_are_gone_before_the_next_and_all_failures_reported(tmp_path):
    (tmp_path / "test_two.py").write_text(TESTS)
    options = ["-n", "1", "--dist", "loadfile", "-c", ROOT / "pyproject.toml"]
    options += ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, "--rootdir", tmp_path, "test_two.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "1 failed, 2 passed, 1 skipped, 1 error" in done.stdout, done.stdout
