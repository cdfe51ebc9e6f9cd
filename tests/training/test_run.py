"""Runs: exact resumption, accumulation, averaging, early stopping, fine-tuning, and what is refused."""

from __future__ import annotations

import errno
import itertools
import json
import shutil
import signal
import sys
from types import SimpleNamespace

import pytest
import torch

from nmt.artifacts import rundir
from nmt.artifacts.checkpoint import check_weights, load_model, read_weights
from nmt.artifacts.rundir import FORMAT, RunDir, new_run
from nmt.base import device
from nmt.base.device import Precision
from nmt.base.errors import ConfigError, DataError, RunError
from nmt.config import dump_config
from nmt.data.store.batching import DataPosition
from nmt.data.store.store import TokenStore
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.evaluation.plots import read_metrics
from nmt.model.transformer import Transformer
from nmt.training import memory, monitor
from nmt.training.batches import UpdateBatches, refuse_beyond_epoch
from nmt.training.checkpoints import CheckpointHistory
from nmt.training.corpus.prepare import prepare
from nmt.training.environment import Setup
from nmt.training.metrics import MetricsLog, ValidRecord, Window
from nmt.training.parts import Training
from nmt.training.run import resume_run, start_or_resume_run, start_run
from nmt.training.state import Counters, TrainState
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.step import Step
from nmt.training.validation import Validator
from tests.full_disk import no_room_for
from tests.tiny import tiny_config, write_digits


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    """The folder of a run of twelve updates and of its store."""
    folder = tmp_path_factory.mktemp("trained")
    assert start_run(tiny_config(digits), folder / "run")
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy of that run, which a test may change."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return RunDir(tmp_path / "run")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Return the run that a configuration makes without interruption; each is trained once."""
    folder, runs = tmp_path_factory.mktemp("uninterrupted"), {}

    def train(config):
        text = dump_config(config)
        if text not in runs:
            runs[text] = RunDir(folder / str(len(runs)))
            assert start_run(config, runs[text].path)
        return runs[text]

    return train


def stop_after(monkeypatch, num_updates):
    """Ask for a stop, as Ctrl-C does, once the next training has done `num_updates`."""
    step, numbers = Step.__call__, itertools.count(1)

    def stopping_step(self, batches, num_tokens, number):
        result = step(self, batches, num_tokens, number)
        if next(numbers) == num_updates:
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(Step, "__call__", stopping_step)


def state_of(run):
    """What the state holds, without its clocks."""
    state = TrainState.load(run.state)
    counters = state.counters.model_dump()
    del counters["train_seconds"], counters["window"]["seconds"], counters["window"]["reading_seconds"]
    tensors = state.to_tensors()
    del tensors["counters"]
    return {"counters": counters, "tensors": tensors}


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def deterministic_metrics(run):
    clock = {"tokens_per_second", "flops_per_second", "utilization", "train_seconds", "seconds", "reading_share"}
    return [{k: v for k, v in record.items() if k not in clock} for record in read_metrics(run.metrics)]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("stop", [1, 6, 8])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(
    digits, uninterrupted, tmp_path, monkeypatch, stop, precision
):
    model = {"dropout": 0.1, "embedding_dropout": 0.1}
    training = {"precision": precision, "tokens_per_update": 500, "log_every": 5}
    config = tiny_config(digits, model=model, training=training)
    with monkeypatch.context() as patch:
        stop_after(patch, stop)
        assert not start_run(config, tmp_path / "stopped")
    assert resume_run(None, tmp_path / "stopped")
    whole, stopped = uninterrupted(config), RunDir(tmp_path / "stopped")
    assert same(state_of(whole), state_of(stopped))
    assert whole.index() == stopped.index()
    assert deterministic_metrics(whole) == deterministic_metrics(stopped)
    for name in whole.index().checkpoints:
        assert whole.checkpoint(name).read_bytes() == stopped.checkpoint(name).read_bytes()


SMALL = {"encoder_layers": 1, "decoder_layers": 1}
OPTIONS = {
    "r_drop, ema": {"training": {"r_drop": 5.0, "ema": 0.9, "tokens_per_update": 500}},
    "muon, bf16": {
        "model": {"qk_norm": True, "activation": "relu2"},
        "training": {"optimizer": "muon", "precision": "bf16", "schedule": "wsd"},
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_run_with_an_option_is_resumed_bit_for_bit(digits, tmp_path, monkeypatch, options):
    model = {"dropout": 0.1, "encoder_layers": 1, "decoder_layers": 1} | options.get("model", {})
    training = {"max_updates": 8, "average_checkpoints": 0} | options["training"]
    config = tiny_config(digits, model=model, training=training)
    assert start_run(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        assert not start_run(config, tmp_path / "stopped")
    assert resume_run(None, tmp_path / "stopped")
    whole, stopped = RunDir(tmp_path / "whole"), RunDir(tmp_path / "stopped")
    assert same(state_of(whole), state_of(stopped))
    assert whole.index() == stopped.index()
    assert deterministic_metrics(whole) == deterministic_metrics(stopped)


def slow_clock(monkeypatch):
    """Let four seconds pass between two looks at the clock of the updates: each update takes four seconds."""
    seconds = itertools.count(step=4)
    monkeypatch.setattr(monitor, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))


def test_a_training_of_some_minutes_ends_in_time_and_its_schedule_with_it(digits, tmp_path, monkeypatch):
    slow_clock(monkeypatch)
    training = {"max_minutes": 0.8, "max_updates": 1000, "schedule": "linear", "average_checkpoints": 0}
    config = tiny_config(digits, training=training, model=SMALL)
    assert start_run(config, tmp_path / "whole")
    whole = RunDir(tmp_path / "whole")
    state = TrainState.load(whole.state)
    train = [record for record in read_metrics(whole.metrics) if record["kind"] == "train"]
    per_update = train[0]["train_seconds"] / train[0]["update"]
    assert state.counters.update == train[-1]["update"] == 48 / per_update < 20
    assert train[-1]["lr"] == 0.0
    assert train[1]["lr"] == pytest.approx(3e-3 * (48 - 4 * per_update) / (48 - 3 * per_update))
    assert "ended after 0.8 minutes" in whole.card.read_text(encoding="utf-8")
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        assert not start_run(config, tmp_path / "stopped")
    assert resume_run(None, tmp_path / "stopped")
    stopped = RunDir(tmp_path / "stopped")
    assert same(state_of(whole), state_of(stopped))
    assert whole.index() == stopped.index()
    longer = config.training.model_copy(update={"max_minutes": 1.6})
    assert resume_run(config.model_copy(update={"training": longer}), stopped.path)
    assert TrainState.load(stopped.state).counters.update == 2 * state.counters.update


def test_a_training_of_some_minutes_ends_in_time_before_its_first_line_of_the_log(
    digits, tmp_path, monkeypatch, messages
):
    slow_clock(monkeypatch)
    training = {"max_minutes": 0.25, "max_updates": 1000, "log_every": 500, "warmup_updates": 400}
    start_run(tiny_config(digits, training=training), tmp_path / "run")
    update = TrainState.load(RunDir(tmp_path / "run").state).counters.update
    assert 3 <= update <= 8
    assert (
        f"warning: 0.25 minutes are enough for about {update} updates, but training.warmup_updates is 400: "
        "the learning rate will not reach its peak"
    ) in messages
    assert any(
        line.startswith("warning: time ran out before the first line of the log, so the schedule could not be")
        for line in messages
    )
    (record,) = (each for each in read_metrics(RunDir(tmp_path / "run").metrics) if each["kind"] == "train")
    assert record["lr"] == pytest.approx(3e-3 * update / 400)  # the rate of this update, not of a plan made after it
    assert (
        f"training ends early: training.max_minutes ran out after update {update}; raise training.max_minutes to "
        "continue it with --resume"
    ) in messages


def test_stages_share_the_minutes_in_proportion_and_each_schedule_ends_with_its_stage(digits, tmp_path, monkeypatch):
    slow_clock(monkeypatch)
    stages = [{"max_updates": 600, "schedule": "constant"}, {"max_updates": 400, "warmup_updates": 0}]
    training = {"max_minutes": 1.6, "max_updates": 1000, "schedule": "linear", "average_checkpoints": 0, "log_every": 1}
    config = tiny_config(digits, training=training | {"stages": stages, "warmup_updates": 2}, model=SMALL)
    assert start_run(config, tmp_path / "whole")
    whole = RunDir(tmp_path / "whole")
    train = [record for record in read_metrics(whole.metrics) if record["kind"] == "train"]
    num_updates, first = train[-1]["update"], [record["lr"] for record in train if record["stage"] == 1]
    assert 15 < num_updates < 50
    assert abs(len(first) - 0.6 * num_updates) <= 2
    assert set(first[2:]) == {3e-3}
    assert train[-1]["lr"] == 0.0
    assert "ended after 1.6 minutes" in whole.card.read_text(encoding="utf-8")
    for number, stop in enumerate((5, len(first) + 3, len(first))):
        stopped = RunDir(tmp_path / f"stopped-{number}")
        with monkeypatch.context() as patch:
            stop_after(patch, stop)
            assert not start_run(config, stopped.path)
        assert resume_run(None, stopped.path)
        assert same(state_of(whole), state_of(stopped))
        assert whole.index() == stopped.index()


@pytest.mark.parametrize("stop", [0, 2], ids=["at the end of the first stage", "in the second stage"])
@pytest.mark.parametrize("minutes", [3.2, 0.0])
def test_a_finished_stage_keeps_its_end_if_there_is_more_time_for_the_next(
    digits, tmp_path, monkeypatch, minutes, stop
):
    slow_clock(monkeypatch)
    stages = [{"max_updates": 30}, {"max_updates": 20, "warmup_updates": 0}]
    training = {"max_minutes": 1.6, "max_updates": 50, "average_checkpoints": 0, "log_every": 1, "stages": stages}
    config = tiny_config(digits, training=training | {"warmup_updates": 2}, model=SMALL)
    assert start_run(config, tmp_path / "short")
    (first, end) = TrainState.load(RunDir(tmp_path / "short").state).counters.plan.ends
    assert first < 30
    stopped = RunDir(tmp_path / "stopped")
    with monkeypatch.context() as patch:
        stop_after(patch, first + stop)
        assert not start_run(config, stopped.path)
    longer = config.training.model_copy(update={"max_minutes": minutes})
    assert resume_run(config.model_copy(update={"training": longer}), stopped.path)
    counters = TrainState.load(stopped.state).counters
    assert counters.plan.ends == (first, counters.update)
    assert counters.update == first + 20 if not minutes else end < counters.update <= first + 20
    assert ("ended after" in stopped.card.read_text(encoding="utf-8")) == (counters.update < first + 20)


def test_a_stage_that_the_time_cut_short_goes_on_if_there_is_more_time(digits, tmp_path, monkeypatch):
    slow_clock(monkeypatch)
    stages = [{"max_updates": 40}, {"max_updates": 40}]
    training = {"max_minutes": 0.2, "max_updates": 80, "average_checkpoints": 0, "log_every": 50, "stages": stages}
    config = tiny_config(digits, training=training | {"warmup_updates": 1}, model=SMALL)
    run = RunDir(tmp_path / "run")
    assert start_run(config, run.path)
    first, end = TrainState.load(run.state).counters.plan.ends
    assert first == end < 10
    longer = config.training.model_copy(update={"max_minutes": 10.0})
    assert resume_run(config.model_copy(update={"training": longer}), run.path)
    assert TrainState.load(run.state).counters.plan.ends == (40, 80)


def test_a_whole_last_stage_keeps_its_end_if_another_stage_is_added(digits, tmp_path):
    training = {"max_minutes": 100.0, "average_checkpoints": 0, "log_every": 2, "warmup_updates": 1}
    configs = [
        tiny_config(digits, training={**training, "max_updates": 5 * n, "stages": [{"max_updates": 5}] * n})
        for n in (2, 3)
    ]
    run = RunDir(tmp_path / "run")
    assert start_run(configs[0], run.path)
    assert resume_run(configs[1], run.path)
    assert TrainState.load(run.state).counters.plan.ends == (5, 10, 15)


def test_a_plan_is_made_at_the_border_of_stages_if_no_line_of_the_log_was_before(
    digits, tmp_path, monkeypatch, messages
):
    slow_clock(monkeypatch)
    stages = [{"max_updates": 5}, {"max_updates": 50}, {"max_updates": 50}]
    training = {"max_minutes": 1.0, "max_updates": 105, "average_checkpoints": 0, "log_every": 5, "stages": stages}
    assert start_run(tiny_config(digits, training=training | {"warmup_updates": 1}), tmp_path / "run")
    first, second, third = TrainState.load(RunDir(tmp_path / "run").state).counters.plan.ends
    assert first == 5 < second < third < 50
    (announced,) = (line for line in messages if "stage 2 of 3" in line)
    assert abs(int(announced.rpartition(" ")[2]) - second) <= 2
    assert abs((second - first) - (third - second)) <= 2


def test_the_moving_average_is_what_is_validated_and_saved(digits, tmp_path):
    training = {"ema": 0.9, "max_updates": 4, "average_checkpoints": 0}
    start_run(tiny_config(digits, training=training), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    state = TrainState.load(run.state)
    assert same(read_weights(run.checkpoint("step-00000004")), state.ema)
    assert not same(state.ema, state.weights)
    assert "moving average of the weights (decay 0.9)" in run.card.read_text(encoding="utf-8")


def test_fp16_is_refused_on_a_cpu(digits, tmp_path):
    with pytest.raises(ConfigError) as caught:
        start_run(tiny_config(digits, training={"precision": "fp16"}), tmp_path / "run")
    assert str(caught.value) == (
        "precision fp16 is only for training on CUDA devices; this device is cpu\n"
        "  set training.precision to auto, which picks bf16 if it is clearly faster on this device, else fp32"
    )
    assert not (tmp_path / "run").exists()


def test_fp16_is_refused_before_the_data_is_prepared(digits, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.training.run.prepare", lambda *_: pytest.fail("the data is prepared"))
    with pytest.raises(ConfigError, match="precision fp16 is only for training on CUDA"):
        start_run(tiny_config(digits, training={"precision": "fp16"}), tmp_path / "run")


def test_r_drop_without_dropout_is_refused(digits):
    with pytest.raises(ValueError, match=r"training\.r_drop compares two passes with different dropout"):
        tiny_config(digits, training={"r_drop": 5.0})


def test_a_run_with_batches_of_automatic_size_is_resumed_bit_for_bit(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "FASTEST_ON_CPU", 300)  # several micro-batches
    config = tiny_config(digits, training={"batch_tokens": "auto", "tokens_per_update": 800})
    assert start_run(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        assert not start_run(config, tmp_path / "stopped")
    assert resume_run(None, tmp_path / "stopped")
    whole, stopped = RunDir(tmp_path / "whole"), RunDir(tmp_path / "stopped")
    assert TrainState.load(whole.state).counters.num_micro_batches > 1
    assert same(state_of(whole), state_of(stopped))


def test_a_finished_run_goes_on_with_more_updates(digits, run):
    assert resume_run(tiny_config(digits, training={"max_updates": 16}), run.path)
    assert list(run.index().checkpoints)[-2:] == ["step-00000016", "average"]


def test_micro_batches_add_up_to_the_update_of_the_whole(digits, run, tmp_path):
    """One update of two batches has the gradient of their union: the loss is divided by the tokens of both."""
    config = tiny_config(digits, training={"tokens_per_update": 900})
    prepared = prepare(config, run, tmp_path / ".store")
    setup = Setup(torch.device("cpu"), Precision("fp32", 1e9), ProcessGroup())
    training = Training(run, config, prepared, setup)
    update = training.batches.next_update()
    assert len(update.batches) > 1
    assert update.num_tokens == sum(batch.num_tgt_tokens for batch in update.batches) >= 900
    weight = training.model.output_proj.weight
    losses = []
    for batch in update.batches:
        logits = training.model(batch.src, batch.tgt_in)
        losses.append(
            torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=1, label_smoothing=0.1, reduction="sum"
            )
        )
    expected = torch.autograd.grad(sum(losses) / update.num_tokens, weight)[0]
    seen = {}
    training.optimizer.step = lambda update, loss: seen.setdefault("grad", weight.grad.clone()).norm()
    training.step(update.batches, update.num_tokens, 1)
    assert torch.allclose(seen["grad"], expected, atol=1e-6)


def test_the_average_is_the_mean_of_the_last_checkpoints(digits, tmp_path):
    start_run(tiny_config(digits, training={"average_checkpoints": 2}), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    last = [read_weights(run.checkpoint(f"step-{n:08d}")) for n in (8, 12)]
    average = read_weights(run.checkpoint("average"))
    for name, tensor in average.items():
        assert torch.allclose(tensor, (last[0][name] + last[1][name]) / 2, atol=1e-6)


def test_only_the_newest_and_the_best_checkpoints_are_kept(digits, tmp_path):
    training = {"keep_checkpoints": 1, "average_checkpoints": 0, "validate_every": 2, "early_stopping_metric": "loss"}
    start_run(tiny_config(digits, training=training), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    kept = {path.stem for path in run.checkpoints.glob("*.safetensors")}
    assert set(run.index().checkpoints) == {run.index().best, "step-00000012"}
    # And that of the state before, which a damaged state is gone back to.
    assert kept == {*run.index().checkpoints, "step-00000010"}


def test_a_run_killed_between_its_last_update_and_its_card_is_finished_on_resume(digits, tmp_path, messages):
    config = tiny_config(digits)
    start_run(config, tmp_path / "run")
    run = RunDir(tmp_path / "run")
    weights = run.checkpoint(run.index().best).read_bytes()
    run.card.unlink()
    assert resume_run(config, tmp_path / "run")
    assert messages.count("no updates are left; finishing the run") == 1
    assert run.card.exists()
    assert run.checkpoint(run.index().best).read_bytes() == weights


def test_training_stops_early_when_patience_runs_out(digits, tmp_path, messages):
    training = {
        "early_stopping_patience": 2,
        "validate_every": 1,
        "warmup_updates": 1,
        "lr": 1e-12,
        "early_stopping_metric": "bleu",
        "max_updates": 30,
    }
    start_run(tiny_config(digits, training=training), tmp_path / "run")
    update = TrainState.load(RunDir(tmp_path / "run").state).counters.update
    assert update < 30
    reason = "2 validations without a better score; raise training.early_stopping_patience to continue it with --resume"
    assert f"training ends early: {reason}" in messages
    more = {**training, "max_updates": 40}
    assert resume_run(tiny_config(digits, training=more), tmp_path / "run")
    assert f"no updates are left: {reason}" in messages
    limited = {**more, "max_minutes": 60}  # time is not what ends it
    assert resume_run(tiny_config(digits, training=limited), tmp_path / "run")
    assert "ended after" not in RunDir(tmp_path / "run").card.read_text(encoding="utf-8")
    assert messages.count(f"no updates are left: {reason}") == 2
    for limit in (0, 60):
        fewer = {**training, "max_updates": update - 1, "max_minutes": limit}
        with pytest.raises(RunError, match=rf"max_updates is {update - 1}, but there have been {update} updates"):
            resume_run(tiny_config(digits, training=fewer), tmp_path / "run")
    assert RunDir(tmp_path / "run").config().training.max_updates == 40


@pytest.mark.parametrize("num_validations", [1, 2, 4])
def test_a_training_asked_to_stop_while_it_derives_its_final_weights_stops_after_a_validation(
    digits, tmp_path, monkeypatch, num_validations
):
    """After the last update come one validation of a checkpoint, one of the average, and those of the calibration."""
    options = {"max_updates": 4, "validate_every": 2, "average_checkpoints": 2, "calibrate_length": True}
    config = tiny_config(digits, training=options, model={"output_bias": True, **SMALL})
    assert start_run(config, tmp_path / "whole")
    validate, numbers = Validator.__call__, itertools.count()

    def stopping(self, *arguments, **options):
        if next(numbers) == num_validations:
            signal.raise_signal(signal.SIGTERM)
        return validate(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Validator, "__call__", stopping)
        assert not start_run(config, tmp_path / "stopped")
    assert next(numbers) == num_validations + 1
    assert resume_run(None, tmp_path / "stopped")
    assert RunDir(tmp_path / "whole").index() == RunDir(tmp_path / "stopped").index()


def test_fine_tuning_starts_from_the_weights_and_the_tokenizer_of_another_run(digits, digits_run, tmp_path):
    training = {"init_from": str(digits_run), "lr": 1e-12, "max_updates": 4}
    start_run(tiny_config(digits, training=training), tmp_path / "tuned")
    base, tuned = RunDir(digits_run), RunDir(tmp_path / "tuned")
    assert (base.tokenizer / "joint.model").read_bytes() == (tuned.tokenizer / "joint.model").read_bytes()
    before, after = read_weights(base.best_checkpoint()), read_weights(tuned.checkpoint("step-00000004"))
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)


def test_fine_tuning_with_another_model_is_refused_and_leaves_no_run(digits, digits_run, tmp_path):
    config = tiny_config(digits, training={"init_from": str(digits_run)}, model={"d_ff": 32})
    with pytest.raises(RunError, match=r"model\.d_ff is 32 here and 96 in the run to continue from"):
        start_run(config, tmp_path / "tuned")
    assert list(tmp_path.glob("tuned*")) == list(tmp_path.glob(".tuned*")) == []


def test_fine_tuning_and_resuming_name_all_keys_that_differ(digits, digits_run, tmp_path):
    config = tiny_config(digits, training={"init_from": str(digits_run)}, model={"d_ff": 32, "num_heads": 4})
    with pytest.raises(RunError) as caught:
        start_run(config, tmp_path / "tuned")
    assert caught.value.message == (
        "model.num_heads is 4 here and 3 in the run to continue from; "
        "model.d_ff is 32 here and 96 in the run to continue from"
    )
    other = RunDir(digits_run).config().model_copy(update={"model": config.model})
    with pytest.raises(RunError) as caught:
        resume_run(other, digits_run)
    assert caught.value.message == (
        "model.num_heads was 3 when the run was started and is 4 now; "
        "model.d_ff was 96 when the run was started and is 32 now"
    )


def test_a_run_is_started_if_there_is_none_and_resumed_if_there_is(digits, trained, tmp_path, monkeypatch):
    config = tiny_config(digits)
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        assert not start_or_resume_run(config, tmp_path / "run")
    assert start_or_resume_run(config, tmp_path / "run")
    assert same(state_of(RunDir(tmp_path / "run")), state_of(RunDir(trained / "run")))


@pytest.mark.parametrize(("size", "refused"), [({"batch_tokens": 512}, True), ({"batch_tokens": "auto"}, False)])
def test_an_update_larger_than_an_epoch_is_refused_before_there_is_a_run(tmp_path, size, refused):
    folder = write_digits(tmp_path / "corpus", num_train=60)
    training = {**size, "tokens_per_update": 10**8, "max_updates": 1, "warmup_updates": 0}
    config = tiny_config(folder, training=training)
    if not refused:  # one batch per update, of an epoch at most
        assert start_run(config, tmp_path / "run")
        return
    with pytest.raises(ConfigError, match=r"is 100,000,000, but an epoch has only \d+ target tokens"):
        start_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_update_may_have_all_tokens_of_an_epoch_and_no_more(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=60)
    for on_too_long in ("truncate", "drop"):
        config = tiny_config(folder, data={"on_too_long": on_too_long}, model={"max_tgt_len": 6, "max_src_len": 6})
        start_run(config, tmp_path / on_too_long)
        store = TokenStore(tmp_path / ".store" / RunDir(tmp_path / on_too_long).info().data_fingerprint)
        batches = UpdateBatches(store, config, ProcessGroup())
        num_tokens = 0
        while batches.sampler.position.epoch == 0:
            rows = batches.sampler.next_indices()
            num_tokens += rows.num_tgt_tokens if batches.sampler.position.epoch == 0 else 0
        for tokens in (num_tokens, num_tokens + 1):
            training = config.training.model_copy(update={"tokens_per_update": tokens})
            wanted = config.model_copy(update={"training": training})
            if tokens == num_tokens:
                refuse_beyond_epoch(wanted, store)
                continue
            with pytest.raises(ConfigError, match=f"only {num_tokens:,} target tokens"):
                refuse_beyond_epoch(wanted, store)


def test_a_resumed_run_keeps_its_precision_on_a_machine_that_would_choose_another(digits, tmp_path, monkeypatch):
    config = tiny_config(digits, training={"precision": "auto"})
    faster = {"dtype": torch.bfloat16}
    monkeypatch.setattr(device, "product_rate", lambda _, dtype: 2e9 if dtype == faster["dtype"] else 1e9)
    assert start_run(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        assert not start_run(config, tmp_path / "stopped")
    faster["dtype"] = torch.float32
    assert resume_run(None, tmp_path / "stopped")
    whole, stopped = RunDir(tmp_path / "whole"), RunDir(tmp_path / "stopped")
    assert stopped.info().precision == "bf16"
    assert same(state_of(whole), state_of(stopped))


def test_a_run_that_exists_is_refused_unless_it_is_resumed_or_overwritten(digits, run):
    with pytest.raises(RunError, match="--resume, replace it with --overwrite"):
        start_run(tiny_config(digits), run.path)
    assert start_run(tiny_config(digits, training={"seed": 2}), run.path, overwrite=True)
    assert run.config().training.seed == 2


def test_a_folder_that_is_no_run_is_never_overwritten(digits, tmp_path):
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.txt").write_text("words")
    with pytest.raises(RunError, match="not a run"):
        start_run(tiny_config(digits), precious, overwrite=True)
    assert (precious / "chapter.txt").read_text() == "words"


def test_a_folder_that_is_no_run_is_named_as_such_and_not_as_one_to_resume(digits, tmp_path):
    other, config = tmp_path / "thesis", tiny_config(digits)
    other.mkdir()
    (other / "chapter.txt").write_text("words")
    for train in (start_run, resume_run, start_or_resume_run):
        with pytest.raises(RunError) as caught:
            train(config, other)
        assert str(caught.value) == f"{other}: this folder is not a run\n  choose another --run"
    assert [path.name for path in other.iterdir()] == ["chapter.txt"]


@pytest.mark.parametrize("train", [start_run, start_or_resume_run])
def test_a_run_may_begin_in_an_empty_folder(digits, tmp_path, train):
    (tmp_path / "run").mkdir()
    with pytest.raises(RunError, match="there is no run to resume"):
        resume_run(None, tmp_path / "run")
    assert train(tiny_config(digits, training={"max_updates": 4}), tmp_path / "run")
    assert RunDir(tmp_path / "run").card.exists()


def test_a_fault_in_the_data_leaves_no_run(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=30)
    (folder / "train.tsv").write_bytes(b"1 2\t2 1\n\xff\t1\n")
    with pytest.raises(DataError):
        start_run(tiny_config(folder), tmp_path / "runs" / "run")
    assert [path.name for path in (tmp_path / "runs").iterdir()] in ([], [".store"])


def test_resuming_with_another_model_is_refused_by_key(digits, run):
    with pytest.raises(RunError, match=r"model\.d_ff was 96 when the run was started and is 64 now"):
        resume_run(tiny_config(digits, model={"d_ff": 64}), run.path)


def test_resuming_on_a_changed_corpus_is_refused(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=60)
    start_run(tiny_config(folder), tmp_path / "run")
    (folder / "train.tsv").write_text("1 2\t2 1\n" * 30)
    with pytest.raises(RunError, match="the corpus has changed"):
        resume_run(None, tmp_path / "run")


def test_a_run_goes_on_where_its_corpus_has_been_moved_to(tmp_path):
    before, after = write_digits(tmp_path / "before", num_train=60), tmp_path / "after"
    run = tmp_path / "run"
    start_run(tiny_config(before), run)
    before.rename(after)
    assert resume_run(tiny_config(after, training={"max_updates": 16}), run)
    assert RunDir(run).config().data.train.tsv == str(after / "train.tsv")


def test_metrics_hold_what_they_say(run):
    records = read_metrics(run.metrics)
    train = [record for record in records if record["kind"] == "train"]
    valid = [record for record in records if record["kind"] == "valid"]
    assert [record["update"] for record in train] == [2, 4, 6, 8, 10, 12]
    assert [record["checkpoint"] for record in valid] == [*(f"step-{n:08d}" for n in (4, 8, 12)), "average"]
    assert train[-1]["loss"] < train[0]["loss"]
    assert {"loss", "perplexity", "bleu", "chrf"} <= valid[0].keys()


def test_a_state_file_cannot_run_code(tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "boom"), "w"))

    (tmp_path / "state.pt").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(RunError, match="damaged"):
        TrainState.load(tmp_path / "state.pt")
    assert not (tmp_path / "boom").exists()


def test_weights_that_do_not_fit_are_named(digits_run):
    run = RunDir(digits_run)
    model = load_model(run, TokenizerPair.load(run.tokenizer), torch.device("cpu"))
    weights = read_weights(run.best_checkpoint())
    weights.pop("decoder_norm.weight")
    with pytest.raises(RunError, match=r"decoder_norm\.weight"):
        check_weights(model, weights, run.best_checkpoint())


def test_the_run_says_how_it_was_made(digits_run):
    info = json.loads((digits_run / "run.json").read_text())
    assert info["format"] == FORMAT
    assert info["device"] == "cpu"
    assert info["precision"] == "fp32"
    assert "nrefs:1|case:mixed" in (digits_run / "README.md").read_text()


def a_state(update, num_weights):
    counters = Counters(
        update=update,
        train_seconds=0.0,
        skipped_in_a_row=0,
        num_micro_batches=1,
        position=DataPosition(),
        window=Window(),
        history=CheckpointHistory("bleu"),
    )
    return TrainState(counters, {"proj.weight": torch.zeros(num_weights)}, {}, [])


def test_a_saved_state_is_whole_or_absent(tmp_path):
    a_state(1, 10).save(tmp_path / "state")
    with no_room_for(5000), pytest.raises(OSError, match="File too large"):
        a_state(2, 10_000).save(tmp_path / "state", tmp_path / "previous")
    assert TrainState.load(tmp_path / "state").counters == a_state(1, 10).counters
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_run_whose_state_is_gone_is_not_trained_anew(run):
    run.state.unlink()
    run.previous_state.unlink()
    before = sorted(path.name for path in run.checkpoints.iterdir())
    with pytest.raises(RunError, match="no training state to resume from"):
        resume_run(None, run.path)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == before


def test_a_full_disk_is_told_from_other_errors_and_the_file_is_named(digits, tmp_path, monkeypatch):
    run = RunDir(tmp_path / "run")
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        assert not start_run(tiny_config(digits), run.path)
    resume = f"everything saved before is kept; {{}}continue with: nmt train --resume --run {run.path}"
    with no_room_for(9000), pytest.raises(RunError) as caught:
        resume_run(None, run.path)
    weights = str(run.checkpoint("step-00000004"))
    assert (caught.value.message, caught.value.path) == ("cannot be written: File too large", weights)
    assert caught.value.hint == resume.format("after freeing space, ")
    run.metrics.unlink()
    run.metrics.mkdir()
    with pytest.raises(RunError) as caught:
        resume_run(None, run.path)
    assert (caught.value.message, caught.value.path) == ("cannot be read or written: Is a directory", str(run.metrics))
    assert caught.value.hint == resume.format("")


def test_a_log_that_does_not_fit_on_the_disk_is_named(tmp_path):
    record = ValidRecord(update=1, checkpoint="a", loss=1.0, perplexity=1.0, bleu=1.0, chrf=1.0, seconds=1.0)
    with no_room_for(20), pytest.raises(OSError, match="File too large") as caught:
        MetricsLog(tmp_path / "metrics.jsonl").append(record)
    assert caught.value.filename == str(tmp_path / "metrics.jsonl")


def test_an_fp16_run_is_not_resumed_on_a_cpu_nor_told_to_change_its_precision(run):
    run.write_info(run.info().model_copy(update={"precision": "fp16"}))
    with pytest.raises(ConfigError) as caught:
        resume_run(None, run.path)
    assert str(caught.value) == (
        "precision fp16 is only for training on CUDA devices; this device is cpu\n"
        "  resume it on a machine with a CUDA device, or start a new run from its weights with training.init_from"
    )


def test_seconds_of_updates_are_counted_once(digits, tmp_path, monkeypatch):
    slow_clock(monkeypatch)
    start_run(tiny_config(digits, training={"max_updates": 4, "average_checkpoints": 0}), tmp_path / "run")
    train = [record for record in read_metrics(RunDir(tmp_path / "run").metrics) if record["kind"] == "train"]
    assert [record["train_seconds"] for record in train] == [8.0, 16.0]


def test_two_processes_do_not_train_one_run(run):
    with run.locked(), pytest.raises(RunError, match="another process is training this run"):
        resume_run(None, run.path)


def test_a_run_on_a_file_system_without_locks_is_trained_with_a_warning(run, monkeypatch, messages):
    def refuse(descriptor: int) -> bool:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(rundir, "try_lock", refuse)
    with run.locked():
        pass
    assert any("cannot be locked here (Function not implemented)" in line for line in messages)


def test_a_run_that_appears_meanwhile_is_not_replaced(tmp_path):
    def make(*, overwrite: bool) -> None:
        with new_run(tmp_path / "run", overwrite=overwrite) as run:
            run.config_file.write_text("new")
            (tmp_path / "run").mkdir(exist_ok=True)
            (tmp_path / "run" / "config.yaml").write_text("theirs")

    with pytest.raises(RunError, match="already exists"):
        make(overwrite=False)
    assert (tmp_path / "run" / "config.yaml").read_text() == "theirs"
    make(overwrite=True)
    assert (tmp_path / "run" / "config.yaml").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_is_not_overwritten_by_one_that_continues_from_it(digits, run):
    config = tiny_config(digits, training={"init_from": str(run.path)})
    with pytest.raises(RunError, match="cannot be overwritten by one that continues from it"):
        start_run(config, run.path, overwrite=True)


def test_a_fine_tuned_run_resumes_without_its_base(digits, run, tmp_path, monkeypatch):
    config = tiny_config(digits, training={"init_from": str(run.path)})
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        assert not start_run(config, tmp_path / "tuned")
    run.path.rename(tmp_path / "elsewhere")
    assert resume_run(None, tmp_path / "tuned")


def test_a_tokenizer_with_two_vocabularies_is_refused_where_one_is_asked_for(digits, tmp_path):
    from nmt.training.corpus.prepare import train_on_corpus

    separate = {"joint": False, "type": "char", "vocab_size": 300}
    config = tiny_config(digits, tokenizer=separate, model={"tied_embeddings": "target"})
    train_on_corpus(config, None).save(tmp_path / "vocab")
    with pytest.raises(ConfigError, match=r"tokenizer\.joint is true, but this tokenizer has two vocabularies"):
        start_run(tiny_config(digits, tokenizer={"path": str(tmp_path / "vocab")}), tmp_path / "run")


def test_dropping_every_pair_is_refused(digits, tmp_path):
    config = tiny_config(digits, data={"on_too_long": "drop"}, model={"max_src_len": 2})
    with pytest.raises(DataError, match="every training pair is too long"):
        start_run(config, tmp_path / "run")


def test_a_refused_resume_leaves_the_run_as_it_was(tmp_path):
    folder = write_digits(tmp_path / "corpus", num_train=60)
    start_run(tiny_config(folder), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    (folder / "train.tsv").write_text("12\t21\n" * 30)
    with pytest.raises(RunError, match="the corpus has changed"):
        resume_run(tiny_config(folder, training={"max_updates": 20}), run.path)
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def contents(run):
    """The files of a run and what is in them."""
    return {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


CALIBRATED = {"calibrate_length": True, "early_stopping_metric": "chrf", "max_updates": 4, "validate_every": 2}


@pytest.fixture
def calibrated(digits, tmp_path):
    """A finished run with an average and, perhaps, calibrated weights, and its configuration."""
    config = tiny_config(digits, training=CALIBRATED, model={"output_bias": True})
    assert start_run(config, tmp_path / "calibrated")
    return RunDir(tmp_path / "calibrated"), config


def test_a_refused_resume_of_a_finished_run_keeps_its_final_weights_and_scores(calibrated, monkeypatch):
    run, config = calibrated
    before = contents(run)
    assert run.index().checkpoints.keys() > {"average"}
    fewer = config.training.model_copy(update={"max_updates": 3})
    with pytest.raises(RunError, match="there have been 4 updates already"):
        resume_run(config.model_copy(update={"training": fewer}), run.path)
    assert contents(run) == before
    more = config.training.model_copy(update={"max_updates": 8})
    monkeypatch.setattr("nmt.training.preflight.available_bytes", lambda: 0)
    monkeypatch.setattr("nmt.training.preflight.own_bytes", lambda: 0)
    with pytest.raises(RunError, match="GiB are available"):
        resume_run(config.model_copy(update={"training": more}), run.path)
    assert contents(run) == before


def test_a_finished_run_that_is_resumed_with_nothing_left_to_do_stays_as_it_is(calibrated, messages):
    run, config = calibrated
    results = (run.index_file, run.metrics, run.card, run.checkpoint("average"))
    before, files = contents(run), [path.stat().st_ino for path in results]
    assert start_or_resume_run(config, run.path)
    assert contents(run) == before
    assert [path.stat().st_ino for path in results] == files  # not written anew: a kill could have lost them
    said = "no updates are left: the run has had all of its 4 updates; raise training.max_updates to continue it with"
    assert f"{said} --resume" in messages


def test_results_of_other_settings_are_not_taken_for_final_after_a_kill(calibrated, monkeypatch):
    run, config = calibrated
    changed = config.training.model_copy(update={"average_checkpoints": 0})
    changed = config.model_copy(update={"training": changed})
    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.run.train", lambda *_: sys.exit(9))  # the settings are recorded by then
        with pytest.raises(SystemExit):
            resume_run(changed, run.path)
    assert run.index().checkpoints.keys() == {"step-00000002", "step-00000004"}
    assert resume_run(changed, run.path)
    assert "average" not in run.index().checkpoints


@pytest.mark.parametrize("fault", ["average", "index", "card"])
def test_a_finished_run_that_lacks_a_result_is_finished_again(calibrated, fault):
    run, _ = calibrated
    before = contents(run)
    path = {"average": run.checkpoint("average"), "index": run.index_file, "card": run.card}[fault]
    if fault == "card":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-7])
    assert resume_run(None, run.path)
    after = contents(run)
    assert after.keys() == before.keys()
    assert {path.name for path in before if after[path] != before[path]} <= {"metrics.jsonl"}  # its clocks


def test_a_run_that_goes_on_has_no_results_of_its_earlier_end(calibrated, monkeypatch):
    run, config = calibrated
    more = config.training.model_copy(update={"max_updates": 8})
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        assert not resume_run(config.model_copy(update={"training": more}), run.path)
    assert {path.stem for path in run.checkpoints.glob("*.safetensors")} == {"step-00000002", "step-00000004"}
    assert run.index().int8 is None
    assert not run.card.exists()


def test_a_run_without_undamaged_weights_names_none_as_its_best(digits, tmp_path, monkeypatch):
    run = RunDir(tmp_path / "run")
    with monkeypatch.context() as patch:
        stop_after(patch, 4)  # with one checkpoint
        assert not start_run(tiny_config(digits), run.path)
    (first,) = run.checkpoints.glob("*.safetensors")
    first.write_bytes(first.read_bytes()[:-9])
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        assert not resume_run(None, run.path)
    assert (run.index().best, run.index().checkpoints) == (None, {})
    assert not first.exists()
    assert resume_run(None, run.path)


def poison(monkeypatch, updates):
    """Make the gradients of these updates NaN, as an overflow does."""
    step = Optimizer.step

    def poisoned_step(self, update, loss=None):
        if update in updates:
            next(iter(self.master.values())).grad[0, 0] = float("nan")
        return step(self, update, loss)

    monkeypatch.setattr(Optimizer, "step", poisoned_step)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_update_that_is_not_finite_is_skipped_and_counted(digits, tmp_path, monkeypatch, precision):
    training = {"max_updates": 4, "log_every": 1, "validate_every": 1, "average_checkpoints": 0, "precision": precision}
    poison(monkeypatch, {3})
    assert start_run(tiny_config(digits, training=training), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    train = [record for record in read_metrics(run.metrics) if record["kind"] == "train"]
    assert [record["skipped"] for record in train] == [0, 0, 1, 0]
    assert train[2]["loss"] is None
    weights = [read_weights(run.checkpoint(f"step-{n:08d}")) for n in (2, 3, 4)]
    assert same(weights[0], weights[1])
    assert not same(weights[1], weights[2])
    assert all(torch.isfinite(tensor).all() for tensor in weights[2].values())
    assert TrainState.load(run.state).moments["src_embedding.tokens.weight"]["step"] == 3


def test_a_loss_that_is_not_finite_skips_the_update_too(digits):
    optimizer = Optimizer(Transformer(tiny_config(digits).model, 300, 300), tiny_config(digits).training, torch.float32)
    before = {name: tensor.detach().clone() for name, tensor in optimizer.master.items()}
    for loss, changes in ((float("inf"), False), (1.0, True)):
        for parameter in optimizer.master.values():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step(1, torch.tensor(loss))
        assert same(before, dict(optimizer.master)) != changes


def test_a_model_that_diverged_is_named_when_it_is_validated(digits, tmp_path):
    training = {"lr": 1e25, "clip_norm": 0.0, "warmup_updates": 0, "validate_every": 3}
    with pytest.raises(RunError) as caught:
        start_run(tiny_config(digits, training=training), tmp_path / "run")
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: the model diverged: its outputs are not finite in the validation after update 3\n"
        "  start a new run with a lower training.lr, more training.warmup_updates, or training.precision fp32; "
        "there is no checkpoint yet"
    )


def test_training_stops_when_nothing_is_finite_and_keeps_the_last_checkpoint(digits, tmp_path, monkeypatch):
    poison(monkeypatch, range(6, 100))
    with pytest.raises(RunError) as caught:
        start_run(tiny_config(digits), tmp_path / "run")
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: the loss or gradient was not finite in 5 updates in a row, up to update 10\n"
        "  start a new run with a lower training.lr, more training.warmup_updates, or training.precision fp32; "
        "the checkpoint step-00000008 is kept"
    )
    assert read_weights(RunDir(tmp_path / "run").best_checkpoint())


def test_a_run_in_training_is_not_overwritten(digits, run):
    with run.locked(), pytest.raises(RunError, match="another process is training this run"):
        start_run(tiny_config(digits), run.path, overwrite=True)


def test_what_changed_since_the_run_was_started_is_told_and_recorded(digits, run, messages):
    info = run.read_json(run.info_file)
    assert {
        "torch",
        "python",
        "packages",
        "threads",
        "instruction_set",
        "processor",
        "precision",
        "device",
    } <= info.keys()
    run.write_json(run.info_file, info | {"threads": 7, "instruction_set": "NEON", "world_size": 2})
    resume_run(tiny_config(digits, training={"max_updates": 14}), run.path)
    now = info["instruction_set"]
    changed = [
        "training.threads 7 before, training.threads 1 now",
        f"instruction set NEON before, instruction set {now} now",
        "number of processes 2 before, number of processes 1 now",
    ]
    assert (
        f"warning: {'; '.join(changed)}. Training continues normally, but the result will not be "
        "bit-identical to an uninterrupted run."
    ) in messages
    assert run.read_json(run.info_file)["resumed"] == [{"after_update": 12, "changed": changed}]
    messages.clear()
    resume_run(None, run.path)
    assert not any("bit-identical" in line for line in messages)


def test_a_damaged_state_is_named_and_the_one_before_it_is_used(run, messages):
    weights = run.checkpoint("step-00000012").read_bytes()
    run.state.write_bytes(run.state.read_bytes()[:-9])
    assert resume_run(None, run.path)
    assert any(str(run.state) in line and "training state is damaged: the file has" in line for line in messages)
    assert "continuing from the previous training state" in messages
    assert f"resuming {run.path} after update 8" in messages
    assert run.checkpoint("step-00000012").read_bytes() == weights
    records = [(record["kind"], record.get("checkpoint", record["update"])) for record in read_metrics(run.metrics)]
    assert len(records) == len(set(records))


def test_weights_that_no_state_can_make_again_are_done_without(digits, tmp_path, messages):
    start_run(tiny_config(digits, training={"early_stopping_metric": "loss"}), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    run.checkpoint("step-00000004").unlink()
    assert resume_run(None, run.path)
    assert f"warning: {run.checkpoint('step-00000004')}: these weights are missing" in messages
    assert "continuing without step-00000004" in messages
    assert "step-00000004" not in run.index().checkpoints


def test_threads_are_limited_to_the_cores_of_the_machine(digits, tmp_path, monkeypatch, messages):
    monkeypatch.setattr("nmt.base.machine.os.cpu_count", lambda: 1)
    start_run(tiny_config(digits, training={"max_updates": 4, "threads": 1000}), tmp_path / "run")
    assert RunDir(tmp_path / "run").info().threads == 1
    warning = "warning: training.threads is 1000, but this machine has 1 core; using as many"
    assert messages.count(warning) == 1
