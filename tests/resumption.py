"""Stop trainings after some updates, and compare what resumed ones end as with what uninterrupted ones do."""

from __future__ import annotations

import itertools
import signal
from types import SimpleNamespace

import pytest
import torch

from nmt.artifacts.rundir import RunDir
from nmt.evaluation.plots import read_metrics
from nmt.training import monitor
from nmt.training.run import resume_run, start_run
from nmt.training.state import TrainState
from nmt.training.update.step import Step

CLOCKS = {"tokens_per_second", "flops_per_second", "utilization", "train_seconds", "seconds", "reading_share"}
CLOCKS |= {"num_launched"}  # a resumed run records anew


def stop_after(patch, num_updates):
    """Ask for a stop, as Ctrl-C does, once the next training has done `num_updates`."""
    step, numbers = Step.__call__, itertools.count(1)

    def stopping_step(self, *arguments):
        result = step(self, *arguments)
        if next(numbers) == num_updates:
            signal.raise_signal(signal.SIGINT)
        return result

    patch.setattr(Step, "__call__", stopping_step)


def stop_and_resume(config, path, num_updates) -> RunDir:
    """Train with `config`, stopped after `num_updates` and resumed; return the run."""
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, num_updates)
        assert not start_run(config, path)
    assert TrainState.load(RunDir(path).state).counters.update == num_updates
    assert resume_run(None, path)
    return RunDir(path)


def slow_clock(monkeypatch):
    """Let four seconds pass between two looks at the clock of the updates: each update takes four seconds."""
    seconds = itertools.count(step=4)
    monkeypatch.setattr(monitor, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))


def state_of(run: RunDir):
    """What the state holds, without its clocks."""
    state = TrainState.load(run.state)
    counters = state.counters.model_dump()
    del counters["train_seconds"], counters["window"]["seconds"], counters["window"]["reading_seconds"]
    tensors = state.to_tensors()
    del tensors["counters"]
    return {"counters": counters, "tensors": tensors}


def same(a, b) -> bool:
    """Whether two nested values are equal, tensors bit for bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def records_of(run: RunDir):
    """The log, without its clocks."""
    return [{k: v for k, v in record.items() if k not in CLOCKS} for record in read_metrics(run.metrics)]


def assert_equal_runs(a: RunDir, b: RunDir) -> None:
    """Compare two runs bit for bit: state, index, log and weights."""
    assert same(state_of(a), state_of(b))
    assert a.index() == b.index()
    assert records_of(a) == records_of(b)
    for name in a.index().checkpoints:
        assert a.checkpoint(name).read_bytes() == b.checkpoint(name).read_bytes()
