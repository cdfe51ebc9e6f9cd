"""The log of a training, and updates that are not finite."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.config.model import ModelConfig
from nmt.evaluation.plots import read_metrics
from nmt.model.transformer import Transformer
from nmt.training.metrics import MetricsLog, ValidRecord
from nmt.training.monitor import TrainingFlops
from nmt.training.run import start_run
from nmt.training.state import TrainState
from nmt.training.update.optimizer import Optimizer
from tests.full_disk import no_room_for
from tests.resumption import same, slow_clock
from tests.tiny import small_config


def test_metrics_hold_what_they_say(run):
    records = read_metrics(run.metrics)
    train = [record for record in records if record["kind"] == "train"]
    valid = [record for record in records if record["kind"] == "valid"]
    assert [record["update"] for record in train] == [2, 4, 6, 8, 10, 12]
    assert [record["checkpoint"] for record in valid] == [*(f"step-{n:08d}" for n in (4, 8, 12)), "average"]
    assert train[-1]["loss"] < train[0]["loss"]
    assert {"loss", "perplexity", "bleu", "chrf"} <= valid[0].keys()


def test_a_log_that_does_not_fit_on_the_disk_is_named(tmp_path):
    record = ValidRecord(update=1, checkpoint="a", loss=1.0, perplexity=1.0, bleu=1.0, chrf=1.0, seconds=1.0)
    with no_room_for(20), pytest.raises(OSError, match="File too large") as caught:
        MetricsLog(tmp_path / "metrics.jsonl").append(record)
    assert caught.value.filename == str(tmp_path / "metrics.jsonl")


def test_seconds_of_updates_are_counted_once(digits, tmp_path, monkeypatch):
    slow_clock(monkeypatch)
    start_run(small_config(digits, training={"max_updates": 4, "average_checkpoints": 0}), tmp_path / "run")
    train = [record for record in read_metrics(RunDir(tmp_path / "run").metrics) if record["kind"] == "train"]
    assert [record["train_seconds"] for record in train] == [8.0, 16.0]


def poison(monkeypatch, updates):
    """Make the gradients of these updates NaN, as an overflow does."""
    step, numbers = Optimizer.step, itertools.count(1)

    def poisoned_step(self, *arguments):
        if next(numbers) in updates:
            next(iter(self.master.values())).grad[0, 0] = float("nan")
        return step(self, *arguments)

    monkeypatch.setattr(Optimizer, "step", poisoned_step)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_update_that_is_not_finite_is_skipped_and_counted(digits, tmp_path, monkeypatch, precision):
    training = {"max_updates": 4, "log_every": 1, "validate_every": 1, "average_checkpoints": 0, "precision": precision}
    poison(monkeypatch, {3})
    assert start_run(small_config(digits, training=training), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    train = [record for record in read_metrics(run.metrics) if record["kind"] == "train"]
    assert [record["skipped"] for record in train] == [0, 0, 1, 0]
    assert train[2]["loss"] is None
    weights = [read_weights(run.checkpoint(f"step-{n:08d}")) for n in (2, 3, 4)]
    assert same(weights[0], weights[1])
    assert not same(weights[1], weights[2])
    assert all(torch.isfinite(tensor).all() for tensor in weights[2].values())
    assert TrainState.load(run.state).optimizer["adam.src_embedding.tokens.weight.step"] == 3


def test_a_loss_that_is_not_finite_skips_the_update_too(digits):
    optimizer = Optimizer(
        Transformer(small_config(digits).model, 300, 300), small_config(digits).training, torch.float32
    )
    before = {name: tensor.detach().clone() for name, tensor in optimizer.master.items()}
    for loss, changes in ((float("inf"), False), (1.0, True)):
        optimizer.gradients.fill_(1.0)
        optimizer.step(1e-3, torch.tensor(loss))
        assert same(before, dict(optimizer.master)) != changes


def test_a_model_that_diverged_is_named_when_it_is_validated(digits, tmp_path):
    training = {"lr": 1e25, "clip_norm": 0.0, "warmup_updates": 0, "validate_every": 3}
    with pytest.raises(RunError) as caught:
        start_run(small_config(digits, training=training), tmp_path / "run")
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: the model diverged: its outputs are not finite in the validation after update 3\n"
        "  start a new run with a lower training.lr, more training.warmup_updates, or training.precision fp32; "
        "there is no checkpoint yet"
    )


def test_training_stops_when_nothing_is_finite_and_keeps_the_last_checkpoint(digits, tmp_path, monkeypatch):
    poison(monkeypatch, range(6, 100))
    with pytest.raises(RunError) as caught:
        start_run(small_config(digits), tmp_path / "run")
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: the loss or gradient was not finite in 5 updates in a row, up to update 10\n"
        "  start a new run with a lower training.lr, more training.warmup_updates, or training.precision fp32; "
        "the checkpoint step-00000008 is kept"
    )
    assert read_weights(RunDir(tmp_path / "run").best_checkpoint())


def test_the_count_equals_torchs_own_but_for_the_future_that_is_masked():
    model = Transformer(ModelConfig(d_model=32, num_heads=4, d_ff=64, encoder_layers=2, decoder_layers=3), 60, 60)
    src, tgt = torch.full((5, 7), 9), torch.full((5, 6), 9)
    with FlopCounterMode(display=False) as counter:
        model(src, tgt)
    # torch counts all 6 x 6 pairs of target positions, ours only those that are not masked.
    masked = 3 * 4 * 32 * 5 * (6 * 6 - 6 * 7 / 2)
    lengths = np.full(5, 7), np.full(5, 6)
    assert TrainingFlops(model)(*lengths) == 3 * (counter.get_total_flops() - masked)
