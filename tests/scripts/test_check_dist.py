"""Wheel and sdist install and run outside the checkout (`make dist`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="compares the archives with what git tracks")
def test_wheel_and_sdist_are_whole_and_run_elsewhere(tmp_path):
    command = [sys.executable, ROOT / "scripts" / "check_dist.py", "--outdir", tmp_path]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".whl", ".gz"]
    assert done.stdout.count("a tiny run trains and translates") == 3
    assert done.stdout.count("without PyTorch: 8 commands work") == 1
