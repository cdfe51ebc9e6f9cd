"""When a training ends: after its updates, its minutes, or when patience runs out."""

from __future__ import annotations

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.evaluation.plots import read_metrics
from nmt.training.run import resume_run, start_run
from nmt.training.state import TrainState
from tests.resumption import same, slow_clock, state_of, stop_after, stop_and_resume
from tests.tiny import small_config


def test_a_training_of_some_minutes_ends_in_time_and_its_schedule_with_it(digits, tmp_path, monkeypatch):
    slow_clock(monkeypatch)
    training = {"max_minutes": 0.8, "max_updates": 1000, "schedule": "linear", "average_checkpoints": 0}
    config = small_config(digits, training=training)
    assert start_run(config, tmp_path / "whole")
    whole = RunDir(tmp_path / "whole")
    state = TrainState.load(whole.state)
    train = [record for record in read_metrics(whole.metrics) if record["kind"] == "train"]
    per_update = train[0]["train_seconds"] / train[0]["update"]
    assert state.counters.update == train[-1]["update"] == 48 / per_update < 20
    assert train[-1]["lr"] == 0.0
    assert train[1]["lr"] == pytest.approx(3e-3 * (48 - 4 * per_update) / (48 - 3 * per_update))
    stopped = stop_and_resume(config, tmp_path / "stopped", 5)
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
    start_run(small_config(digits, training=training), tmp_path / "run")
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
    training = {"max_minutes": 0.8, "max_updates": 1000, "schedule": "linear", "average_checkpoints": 0, "log_every": 1}
    training |= {"validate_every": 100}
    config = small_config(digits, training=training | {"stages": stages, "warmup_updates": 2})
    assert start_run(config, tmp_path / "whole")
    whole = RunDir(tmp_path / "whole")
    train = [record for record in read_metrics(whole.metrics) if record["kind"] == "train"]
    num_updates, first = train[-1]["update"], [record["lr"] for record in train if record["stage"] == 1]
    assert 8 < num_updates < 25
    assert abs(len(first) - 0.6 * num_updates) <= 2
    assert set(first[2:]) == {3e-3}
    assert train[-1]["lr"] == 0.0
    stopped = stop_and_resume(config, tmp_path / "stopped", len(first))
    assert same(state_of(whole), state_of(stopped))
    assert whole.index() == stopped.index()


SHORT_STAGES = {
    "stages": [{"max_updates": 15}, {"max_updates": 10, "warmup_updates": 0}],
    "max_minutes": 0.8, "max_updates": 25, "average_checkpoints": 0, "log_every": 1, "warmup_updates": 2,
    "validate_every": 100,
}  # fmt: skip


@pytest.fixture(scope="module")
def short_ends(digits, tmp_path_factory):
    """The updates after which the stages end in 0.8 minutes."""
    run = RunDir(tmp_path_factory.mktemp("short") / "run")
    with pytest.MonkeyPatch.context() as patch:
        slow_clock(patch)
        assert start_run(small_config(digits, training=SHORT_STAGES), run.path)
    first, end = TrainState.load(run.state).counters.plan.ends
    assert first < 15
    return first, end


@pytest.mark.parametrize(
    ("minutes", "stop"),
    [(1.6, 0), (0.0, 2), pytest.param(1.6, 2, marks=pytest.mark.slow), pytest.param(0.0, 0, marks=pytest.mark.slow)],
    ids=lambda value: {0: "at the end of the first stage", 2: "in the second stage"}.get(value, f"{value} minutes"),
)
def test_a_finished_stage_keeps_its_end_if_there_is_more_time_for_the_next(
    digits, short_ends, tmp_path, monkeypatch, minutes, stop
):
    slow_clock(monkeypatch)
    config, run, (first, end) = small_config(digits, training=SHORT_STAGES), RunDir(tmp_path / "run"), short_ends
    with monkeypatch.context() as patch:
        stop_after(patch, first + stop)
        assert not start_run(config, run.path)
    longer = config.training.model_copy(update={"max_minutes": minutes})
    assert resume_run(config.model_copy(update={"training": longer}), run.path)
    counters = TrainState.load(run.state).counters
    assert counters.plan.ends == (first, counters.update)
    assert counters.update == first + 10 if not minutes else end < counters.update <= first + 10


def test_a_stage_that_the_time_cut_short_goes_on_if_there_is_more_time(digits, tmp_path, monkeypatch):
    slow_clock(monkeypatch)
    stages = [{"max_updates": 15}, {"max_updates": 15}]
    training = {"max_minutes": 0.2, "max_updates": 30, "average_checkpoints": 0, "log_every": 50, "stages": stages}
    training |= {"validate_every": 100}
    config = small_config(digits, training=training | {"warmup_updates": 1})
    run = RunDir(tmp_path / "run")
    assert start_run(config, run.path)
    first, end = TrainState.load(run.state).counters.plan.ends
    assert first == end < 10
    longer = config.training.model_copy(update={"max_minutes": 10.0})
    assert resume_run(config.model_copy(update={"training": longer}), run.path)
    assert TrainState.load(run.state).counters.plan.ends == (15, 30)


def test_a_whole_last_stage_keeps_its_end_if_another_stage_is_added(digits, tmp_path):
    training = {"max_minutes": 100.0, "average_checkpoints": 0, "log_every": 2, "warmup_updates": 1}
    configs = [
        small_config(digits, training={**training, "max_updates": 5 * n, "stages": [{"max_updates": 5}] * n})
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
    training |= {"validate_every": 100}
    assert start_run(small_config(digits, training=training | {"warmup_updates": 1}), tmp_path / "run")
    first, second, third = TrainState.load(RunDir(tmp_path / "run").state).counters.plan.ends
    assert first == 5 < second < third < 50
    (announced,) = (line for line in messages if "stage 2 of 3" in line)
    assert abs(int(announced.rpartition(" ")[2]) - second) <= 2
    assert abs((second - first) - (third - second)) <= 2


def test_training_stops_early_when_patience_runs_out(digits, tmp_path, messages):
    training = {
        "early_stopping_patience": 2,
        "validate_every": 1,
        "warmup_updates": 1,
        "lr": 1e-12,
        "early_stopping_metric": "bleu",
        "max_updates": 30,
    }
    start_run(small_config(digits, training=training), tmp_path / "run")
    update = TrainState.load(RunDir(tmp_path / "run").state).counters.update
    assert update < 30
    reason = "2 validations without a better score; raise training.early_stopping_patience to continue it with --resume"
    assert f"training ends early: {reason}" in messages
    more = {**training, "max_updates": 40}
    assert resume_run(small_config(digits, training=more), tmp_path / "run")
    assert f"no updates are left: {reason}" in messages
    limited = {**more, "max_minutes": 60}  # time is not what ends it
    assert resume_run(small_config(digits, training=limited), tmp_path / "run")
    assert messages.count(f"no updates are left: {reason}") == 2
    for limit in (0, 60):
        fewer = {**training, "max_updates": update - 1, "max_minutes": limit}
        with pytest.raises(RunError, match=rf"max_updates is {update - 1}, but there have been {update} updates"):
            resume_run(small_config(digits, training=fewer), tmp_path / "run")
    assert RunDir(tmp_path / "run").config().training.max_updates == 40


@pytest.mark.parametrize(
    ("schedule", "jumps"),
    [
        ("linear", True),
        ("constant", False),
        pytest.param("cosine", True, marks=pytest.mark.slow),
        pytest.param("wsd", True, marks=pytest.mark.slow),
    ],
)
def test_a_rate_that_jumps_because_training_goes_on_after_its_end_is_said(schedule, jumps, digits, tmp_path, messages):
    training = {"max_updates": 6, "warmup_updates": 2, "schedule": schedule, "average_checkpoints": 0}
    training |= {"validate_every": 20}
    config = small_config(digits, training=training)
    assert start_run(config, tmp_path / "run")
    assert resume_run(config, tmp_path / "run")
    assert not any("the learning rate jumps" in line for line in messages)
    longer = config.model_copy(update={"training": config.training.model_copy(update={"max_updates": 12})})
    assert resume_run(longer, tmp_path / "run")
    warnings = [line for line in messages if "the learning rate jumps from 0 to " in line]
    assert len(warnings) == jumps


def test_minutes_of_a_run_that_has_had_more_end_it_before_another_update(digits, tmp_path, monkeypatch, messages):
    slow_clock(monkeypatch)
    training = {"max_updates": 10, "warmup_updates": 2, "average_checkpoints": 0, "log_every": 5}
    config = small_config(digits, training=training)
    run = RunDir(tmp_path / "run")
    assert start_run(config, run.path)
    longer = config.training.model_copy(update={"max_updates": 40, "max_minutes": 0.1})
    assert resume_run(config.model_copy(update={"training": longer}), run.path)
    assert TrainState.load(run.state).counters.update == 10
    assert any("training.max_minutes, which counts those of the whole run" in line for line in messages)
