"""`make demo` ends with a model that translates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_learns_its_two_sentences_and_shows_what_it_says(tmp_path):
    for name in ("configs", "data"):
        shutil.copytree(ROOT / name, tmp_path / name)
    command = [sys.executable, str(ROOT / "scripts" / "demo.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "我来自中国。" in lines
    assert "我来自中国。你我是最好的朋友。" in lines
    assert any(line.startswith("BLEU") and float(line.split()[1]) > 90 for line in lines)
    assert "</svg>" in (tmp_path / "runs" / "demo-en-zh" / "attention.svg").read_text()
