"""Which weights a run keeps: the newest, the best, their averages."""

from __future__ import annotations

import itertools
import math
import signal

import pytest
import torch

from nmt.artifacts.checkpoint import check_weights, load_model, read_weights
from nmt.artifacts.run_records import checkpoint_quality
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.training.checkpoints import CheckpointHistory
from nmt.training.run import resume_run, start_run
from nmt.training.validation import ValidationResult, Validator
from tests.tiny import small_config


def test_the_average_is_the_mean_of_the_last_checkpoints(digits, tmp_path):
    start_run(small_config(digits, training={"average_checkpoints": 2}), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    last = [read_weights(run.checkpoint(f"step-{n:08d}")) for n in (8, 12)]
    average = read_weights(run.checkpoint("average"))
    for name, tensor in average.items():
        assert torch.allclose(tensor, (last[0][name] + last[1][name]) / 2, atol=1e-6)


def test_only_the_newest_and_the_best_checkpoints_are_kept(digits, tmp_path):
    training = {"keep_checkpoints": 1, "average_checkpoints": 0, "validate_every": 2, "early_stopping_metric": "loss"}
    start_run(small_config(digits, training=training), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    kept = {path.stem for path in run.checkpoints.glob("*.safetensors")}
    assert set(run.index().checkpoints) == {run.index().best, "step-00000012"}
    # And that of the state before, which a damaged state is gone back to.
    assert kept == {*run.index().checkpoints, "step-00000010"}


def test_a_training_asked_to_stop_while_it_derives_its_final_weights_stops_after_a_validation(
    digits, tmp_path, monkeypatch
):
    """After the last update come one validation of a checkpoint and one of the average."""
    options = {"max_updates": 4, "validate_every": 2, "average_checkpoints": 2}
    config = small_config(digits, training=options)
    assert start_run(config, tmp_path / "whole")
    validate = Validator.__call__
    for num_validations in (1, 2):
        numbers = itertools.count()

        def stopping(self, *arguments, numbers=numbers, last=num_validations):
            if next(numbers) == last:
                signal.raise_signal(signal.SIGTERM)
            return validate(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Validator, "__call__", stopping)
            assert not start_run(config, tmp_path / "stopped", overwrite=True)
        assert next(numbers) == num_validations + 1
        assert resume_run(None, tmp_path / "stopped")
        assert RunDir(tmp_path / "whole").index() == RunDir(tmp_path / "stopped").index()


def test_weights_that_do_not_fit_are_named(digits_run):
    run = RunDir(digits_run)
    model = load_model(run, TokenizerPair.load(run.tokenizer), torch.device("cpu"))
    weights = read_weights(run.best_checkpoint())
    weights.pop("decoder_norm.weight")
    with pytest.raises(RunError, match=r"decoder_norm\.weight"):
        check_weights(model, weights, run.best_checkpoint())


def test_equal_scores_are_told_apart_by_chrf_and_then_by_loss():
    history = CheckpointHistory("bleu")
    for name, chrf, loss in (
        ("step-1", 32.3, 4.0),
        ("step-2", 87.8, 3.0),
        ("step-3", 87.8, 2.0),
        ("step-4", 87.8, 2.0),
    ):
        result = ValidationResult(loss, math.exp(loss), 0.0, chrf, {}, {})
        assert history.add(name, result, num_kept=9) == (name != "step-4")
    assert history.best == "step-3"
    assert history.validations_since_best == 2  # the loss alone is no progress
    history.remove(["step-3"])
    assert history.best == "step-4"


def test_a_score_that_is_no_number_loses_and_a_loss_is_better_if_it_is_smaller():
    assert checkpoint_quality({"bleu": 0.0, "loss": 9.0}, "bleu") > checkpoint_quality({"bleu": math.nan}, "bleu")
    assert checkpoint_quality({"loss": 1.0}, "loss") > checkpoint_quality({"loss": 2.0, "chrf": 50.0}, "loss")
