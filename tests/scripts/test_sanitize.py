"""The native decoder under sanitizers, and its fuzzer (`make sanitize`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.decoding.engines import native_engine

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the scripts limit themselves to Linux"),
    pytest.mark.skipif(not native_engine.is_available(), reason="built without a C compiler"),
]


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "scripts" / script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_fuzzer_finds_no_crash_in_a_second():
    done = run("fuzz_native.py", "--seed", "1", "--seconds", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seed 1, kernels ")
    assert done.stdout.endswith(" cases, no crash\n")


@pytest.mark.slow
def test_the_sanitizers_find_nothing_in_two_seconds():
    done = run("sanitize.py", "--quick", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("no errors\n")
