"""The fingerprint of a training is the same each time, and another where a weight is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

SCRIPT = Path(__file__).parents[2] / "scripts" / "fingerprint.py"


def load_script():
    spec = importlib.util.spec_from_file_location("fingerprint", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.mark.slow
def test_two_trainings_have_one_fingerprint(tmp_path):
    command = [sys.executable, SCRIPT, "--folder"]
    first, second = (
        subprocess.run([*command, tmp_path / name], capture_output=True, text=True, check=True).stdout for name in "ab"
    )
    assert first == second
    assert [line.split()[0] for line in first.splitlines()] == ["tokenizer", "losses", "weights", "greedy", "beam"]


def test_the_hash_of_the_weights_changes_with_the_last_bit_of_one(tmp_path):
    script = load_script()
    path = tmp_path / "checkpoints" / "step-1.safetensors"
    path.parent.mkdir()
    save_file({"a": np.ones(3, np.float32), "b": np.zeros(2, np.float32)}, path)
    before = script.digest(script.weights(tmp_path))
    changed = load_file(path)
    changed["b"][1] = np.nextafter(np.float32(0), np.float32(1))
    save_file(changed, path)
    assert script.digest(script.weights(tmp_path)) != before
