"""Compiled updates are those of the model as it is. Slow: each compilation takes a minute."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import torch

from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.rundir import RunDir
from nmt.config import dump_config
from nmt.data.store.batching import Batch
from nmt.training.run import start_run
from nmt.training.update.loss import BatchLoss
from tests.model.kernels.test_packing import ragged
from tests.model.test_transformer import make
from tests.tiny import small_config

pytestmark = pytest.mark.slow

TRAINING = {
    "compile": True,
    "max_updates": 3,
    "warmup_updates": 1,
    "validate_every": 3,
    "average_checkpoints": 0,
    "eps": 1e-4,
}
MODEL = {"positions": "rotary"}  # whose gradient is our own


def train_compiled(digits, tmp_path, **environment):
    config = tmp_path / "config.yaml"
    config.write_text(dump_config(small_config(digits, model=MODEL, training=TRAINING)), encoding="utf-8")
    command = [sys.executable, "-m", "nmt", "train", "--config", str(config), "--run", str(tmp_path / "run")]
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    return subprocess.run(command, env={**os.environ, **cache, **environment}, capture_output=True, text=True)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler, g++")
def test_a_compiled_update_is_the_one_that_is_not(digits, tmp_path):
    done = train_compiled(digits, tmp_path)
    assert done.returncode == 0, done.stderr
    start_run(small_config(digits, model=MODEL, training={**TRAINING, "compile": False}), tmp_path / "plain")
    compiled, plain = (read_weights(RunDir(tmp_path / name).best_checkpoint()) for name in ("run", "plain"))
    for name, tensor in plain.items():
        assert torch.allclose(tensor, compiled[name], atol=1e-5), name


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler, g++")
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_compiled_and_flattened_batches_have_the_loss_of_those_that_are_not(positions, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    model = make(positions=positions).eval()
    compiled, plain = BatchLoss(model, compiled=True), BatchLoss(model)
    for lengths in ((5, 2, 9), (3, 8, 1, 4), (6, 6)):
        rows = ragged(*lengths)
        batch = Batch.from_ids(rows, rows, rows)
        assert torch.allclose(compiled(batch, 0.1, flattened=True), plain(batch, 0.1), rtol=1e-4)


def test_without_a_compiler_one_message_says_how_to_go_on(digits, tmp_path):
    done = train_compiled(digits, tmp_path, CXX="/nowhere/g++")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "error: torch.compile failed: " in done.stderr
    assert "training.compile false" in done.stderr
