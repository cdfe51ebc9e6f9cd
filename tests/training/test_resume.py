"""Resumed trainings equal uninterrupted ones bit for bit; what may change, what is refused, and what is damaged."""

from __future__ import annotations

import shutil
import sys

import pytest
import torch

from nmt.artifacts.rundir import RunDir
from nmt.base import device
from nmt.base.errors import ConfigError, RunError
from nmt.evaluation.plots import read_metrics
from nmt.training import loop, memory_limits
from nmt.training.run import resume_run, start_or_resume_run, start_run
from nmt.training.state import TrainState
from tests.quick import quick_and_slow
from tests.resumption import assert_equal_runs, stop_after, stop_and_resume
from tests.tiny import small_config, write_digits
from tests.traced_updates import record_trainings

DROPOUT = {"dropout": 0.1, "embedding_dropout": 0.1}
ACCUMULATED = {"tokens_per_update": 500, "log_every": 5, "max_updates": 8, "validate_every": 3}
WSD = {"schedule": "wsd", "max_updates": 8}
CASES = {
    "fp32": ({"model": DROPOUT, "training": ACCUMULATED}, [5]),
    "fp32, stopped after the first update and a validation": ({"model": DROPOUT, "training": ACCUMULATED}, [1, 6]),
    "bf16": ({"model": DROPOUT, "training": ACCUMULATED | {"precision": "bf16"}}, [5]),
    "wsd": ({"model": {"dropout": 0.1, "qk_norm": True, "activation": "relu2"}, "training": WSD}, [5]),
    "batches of automatic size": ({"training": {"batch_tokens": "auto", "tokens_per_update": 800}}, [5]),
}


@pytest.mark.parametrize(("sections", "stops"), quick_and_slow(CASES, lambda _, name: name in ("fp32", "wsd")))
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(digits, tmp_path, monkeypatch, sections, stops):
    monkeypatch.setattr(memory_limits, "FASTEST_ON_CPU", 300)  # several micro-batches, if their size is automatic
    config, whole = small_config(digits, **sections), RunDir(tmp_path / "whole")
    assert start_run(config, whole.path)
    is_auto = config.training.batch_tokens == "auto"
    assert (TrainState.load(whole.state).counters.num_micro_batches > 1) == is_auto
    for stop in stops:
        assert_equal_runs(whole, stop_and_resume(config, tmp_path / f"stopped-{stop}", stop))


STAGES = [{"max_updates": 6}, {"max_updates": 4, "lr": 5e-4, "dropout": 0.2}]
RECORDED = {  # updates before the stop, and the recordings of each training and stage
    "fp32, several batches an update": (ACCUMULATED | {"log_every": 4}, 4, [2, 2, 2]),
    "bf16, stages": ({"precision": "bf16", "stages": STAGES, "max_updates": 10}, 2, [2, 2, 0, 2, 2]),
    "fp32, stages": ({"precision": "fp32", "stages": STAGES, "max_updates": 10}, 2, [2, 2, 0, 2, 2]),
}


@pytest.mark.parametrize(("training", "stop", "made"), quick_and_slow(RECORDED, lambda _, name: name == "fp32, stages"))
def test_a_resumed_run_with_recorded_updates_equals_the_uninterrupted_one(
    digits, tmp_path, monkeypatch, training, stop, made
):
    """The resumed one launches updates that the uninterrupted one replays, and records others."""
    config, whole = small_config(digits, model=DROPOUT, training=training), RunDir(tmp_path / "whole")
    recorders = record_trainings(monkeypatch)
    assert start_run(config, whole.path)
    assert_equal_runs(whole, stop_and_resume(config, tmp_path / "stopped", stop))
    assert [recorder.made for recorder in recorders] == made


def test_a_resumed_run_keeps_its_precision_on_a_machine_that_would_choose_another(digits, tmp_path, monkeypatch):
    config = small_config(digits, training={"precision": "auto"})
    faster, precisions = {"dtype": torch.bfloat16}, []
    monkeypatch.setattr(device, "product_rate", lambda _, dtype: 2e9 if dtype == faster["dtype"] else 1e9)
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        assert not start_run(config, tmp_path / "run")
    faster["dtype"] = torch.float32
    with monkeypatch.context() as patch:
        patch.setattr(loop, "train", lambda training, interrupt: precisions.append(training.setup.precision.name))
        resume_run(None, tmp_path / "run")
    assert precisions == [RunDir(tmp_path / "run").info().precision] == ["bf16"]


def test_resuming_with_another_model_is_refused_by_key(digits, run):
    with pytest.raises(RunError, match=r"model\.d_ff was 96 when the run was started and is 64 now"):
        resume_run(small_config(digits, model={"d_ff": 64}), run.path)


def test_a_run_goes_on_where_its_corpus_has_been_moved_to_but_not_if_it_has_changed(tmp_path):
    before, after = write_digits(tmp_path / "before", num_train=60), tmp_path / "after"
    run = tmp_path / "run"
    start_run(small_config(before), run)
    files = contents(RunDir(run))
    text = (before / "train.tsv").read_text()
    (before / "train.tsv").write_text("12\t21\n" * 30)
    for config in (None, small_config(before, training={"max_updates": 20})):
        with pytest.raises(RunError, match="the corpus has changed"):
            resume_run(config, run)
    assert contents(RunDir(run)) == files
    (before / "train.tsv").write_text(text)
    before.rename(after)
    assert resume_run(small_config(after, training={"max_updates": 16}), run)
    assert RunDir(run).config().data.train.tsv == str(after / "train.tsv")
    assert list(RunDir(run).index().checkpoints)[-2:] == ["step-00000016", "average"]


def test_a_run_whose_state_is_gone_is_not_trained_anew(run):
    run.state.unlink()
    run.previous_state.unlink()
    before = sorted(path.name for path in run.checkpoints.iterdir())
    with pytest.raises(RunError, match="no training state to resume from"):
        resume_run(None, run.path)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == before


def test_an_fp16_run_is_not_resumed_on_a_cpu_nor_told_to_change_its_precision(run):
    run.write_json(run.info_file, run.info().model_copy(update={"precision": "fp16"}))
    with pytest.raises(ConfigError) as caught:
        resume_run(None, run.path)
    assert str(caught.value) == (
        "precision fp16 is only for training on CUDA devices; this device is cpu\n"
        "  resume it on a machine with a CUDA device, or start a new run from its weights with training.init_from"
    )


def test_a_fine_tuned_run_resumes_without_its_base(digits, run, tmp_path, monkeypatch):
    config = small_config(digits, training={"init_from": str(run.path), "max_updates": 4})
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert not start_run(config, tmp_path / "tuned")
    run.path.rename(tmp_path / "elsewhere")
    assert resume_run(None, tmp_path / "tuned")


def contents(run):
    """The files of a run and what is in them."""
    return {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


ENDED = {"early_stopping_metric": "chrf", "max_updates": 4, "validate_every": 2}


@pytest.fixture(scope="module")
def ended_once(digits, tmp_path_factory):
    config, folder = small_config(digits, training=ENDED), tmp_path_factory.mktemp("c")
    assert start_run(config, folder / "ended")
    return folder, config


@pytest.fixture
def ended(ended_once, tmp_path):
    """A finished run with an average, and its configuration."""
    folder, config = ended_once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    run = RunDir(tmp_path / "ended")
    run.card.write_text(run.card.read_text().replace(str(folder), str(tmp_path)))  # it names the path of the run
    return run, config


def test_a_refused_resume_of_a_finished_run_keeps_its_final_weights_and_scores(ended):
    run, config = ended
    before = contents(run)
    assert run.index().checkpoints.keys() > {"average"}
    fewer = config.training.model_copy(update={"max_updates": 3})
    with pytest.raises(RunError, match="there have been 4 updates already"):
        resume_run(config.model_copy(update={"training": fewer}), run.path)
    assert contents(run) == before


def test_a_finished_run_that_is_resumed_with_nothing_left_to_do_stays_as_it_is(ended, messages):
    run, config = ended
    results = (run.index_file, run.metrics, run.card, run.checkpoint("average"))
    before, files = contents(run), [path.stat().st_ino for path in results]
    assert start_or_resume_run(config, run.path)
    assert contents(run) == before
    assert [path.stat().st_ino for path in results] == files  # not written anew: a kill could have lost them
    said = "no updates are left: the run has had all of its 4 updates; raise training.max_updates to continue it with"
    assert f"{said} --resume" in messages


def test_results_of_other_settings_are_not_taken_for_final_after_a_kill(ended, monkeypatch):
    run, config = ended
    changed = config.training.model_copy(update={"average_checkpoints": 0})
    changed = config.model_copy(update={"training": changed})
    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.loop.train", lambda *_: sys.exit(9))  # the settings are recorded by then
        with pytest.raises(SystemExit):
            resume_run(changed, run.path)
    assert run.index().checkpoints.keys() == {"step-00000002", "step-00000004"}
    assert resume_run(changed, run.path)
    assert "average" not in run.index().checkpoints


@pytest.mark.parametrize("fault", ["average", "index", "card"])
def test_a_finished_run_that_lacks_a_result_is_finished_again(ended, messages, fault):
    run, _ = ended
    before = contents(run)
    path = {"average": run.checkpoint("average"), "index": run.index_file, "card": run.card}[fault]
    if fault == "card":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-7])
    assert resume_run(None, run.path)
    assert messages.count("no updates are left; finishing the run") == (fault == "card")
    after = contents(run)
    assert after.keys() == before.keys()
    assert {path.name for path in before if after[path] != before[path]} <= {"metrics.jsonl"}  # its clocks


def test_a_run_that_goes_on_has_no_results_of_its_earlier_end(ended, monkeypatch):
    run, config = ended
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
        assert not start_run(small_config(digits), run.path)
    (first,) = run.checkpoints.glob("*.safetensors")
    first.write_bytes(first.read_bytes()[:-9])
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        assert not resume_run(None, run.path)
    assert (run.index().best, run.index().checkpoints) == (None, {})
    assert not first.exists()
    assert resume_run(None, run.path)


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
    resume_run(small_config(digits, training={"max_updates": 14}), run.path)
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
    start_run(small_config(digits, training={"early_stopping_metric": "loss"}), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    run.checkpoint("step-00000004").unlink()
    assert resume_run(None, run.path)
    assert f"warning: {run.checkpoint('step-00000004')}: these weights are missing" in messages
    assert "continuing without step-00000004" in messages
    assert "step-00000004" not in run.index().checkpoints
