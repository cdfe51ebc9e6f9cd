"""Batches are cut into parts that fit into memory."""

from __future__ import annotations

import pytest
import torch

from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.rundir import RunDir
from nmt.base.device import Precision
from nmt.training import memory_limits
from nmt.training.corpus.prepare import Prepared, find_store_root
from nmt.training.environment import Setup
from nmt.training.memory_limits import fit_into_memory
from nmt.training.parts import Training
from nmt.training.run import start_run
from nmt.training.state import TrainState
from nmt.training.update.distributed import ProcessGroup
from tests.tiny import small_config

FEW = {"max_updates": 4, "validate_every": 4, "average_checkpoints": 0}


@pytest.fixture(scope="module")
def finished(digits, tmp_path_factory):
    """A run that has ended."""
    run = RunDir(tmp_path_factory.mktemp("memory") / "run")
    assert start_run(small_config(digits, training=FEW), run.path)
    return run


def open_training(run, group=None):
    prepared = Prepared.open(run, find_store_root(run.config(), run.path), run.info().data_fingerprint)
    setup = Setup(torch.device("cpu"), Precision("fp32", 1e9), group or ProcessGroup())
    return Training(run, run.config(), prepared, setup)


@pytest.fixture
def training(finished):
    """The training of that run, before its first update."""
    return open_training(finished)


def test_batches_are_cut_if_the_device_lacks_memory_and_the_update_is_the_same(training, monkeypatch):
    update = training.batches.next_update()
    gradients = []

    def step(lr, loss=None):
        gradients.append([parameter.grad.clone() for parameter in training.model.parameters()])
        training.optimizer.zero_grad()
        return torch.tensor(1.0)

    monkeypatch.setattr(training.optimizer, "step", step)
    whole, _ = training.step(update.batches, update.num_tokens, 1e-3)
    batch_loss, most = training.step.loss, len(update.batches[0].src) // 3

    def small_device(batch, *options, **layout):
        loss = batch_loss(batch, *options, **layout)
        if len(batch.src) > most:
            loss.backward()  # as if memory ended in the backward pass: some gradients are there already
            raise torch.OutOfMemoryError("no room")
        return loss

    small_device.parameters = batch_loss.parameters
    monkeypatch.setattr(training.step, "loss", small_device)
    cut, _ = training.step(update.batches, update.num_tokens, 1e-3)
    assert training.step.num_micro_batches == 4
    assert torch.allclose(cut, whole, rtol=1e-5)
    for in_parts, at_once in zip(*gradients, strict=True):
        assert torch.allclose(in_parts, at_once, atol=1e-6)


def test_a_sentence_that_alone_exceeds_the_memory_is_an_error(training, monkeypatch):
    def no_device(*arguments, **layout):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(training.step, "loss", no_device)
    update = training.batches.next_update()
    with pytest.raises(torch.OutOfMemoryError):
        training.step(update.batches, update.num_tokens, 1e-3)


def test_a_batch_of_automatic_size_is_an_update_and_tokens_of_it_are_what_a_cpu_is_fastest_with(
    digits, tmp_path, monkeypatch
):
    """The updates of the whole batch; eps as in test_distributed.py."""
    monkeypatch.setattr(memory_limits, "FASTEST_ON_CPU", 300)
    few = {"max_updates": 4, "validate_every": 4, "average_checkpoints": 0, "eps": 1e-4}
    # Both sides of a pair are of one length here, so that the real tokens of an update are all of a batch.
    sizes = {"whole": {"batch_tokens": 1000}, "auto": {"batch_tokens": "auto", "tokens_per_update": 1000}}
    for name, size in sizes.items():
        start_run(small_config(digits, training={**few, **size}), tmp_path / name)
    whole, auto = (RunDir(tmp_path / name) for name in sizes)
    assert TrainState.load(auto.state).counters.position == TrainState.load(whole.state).counters.position
    assert [TrainState.load(run.state).counters.num_micro_batches for run in (whole, auto)] == [1, 4]
    weights = [read_weights(run.checkpoint("step-00000004")) for run in (whole, auto)]
    for name, tensor in weights[0].items():
        # A tenth of an update at most: rounding may switch a unit of a feed-forward layer on or off.
        assert torch.allclose(tensor, weights[1][name], atol=3e-4), name


class Four(ProcessGroup):
    """A rank whose fellow has to cut batches in four."""

    def gather(self, value):
        return [value, 4] if isinstance(value, int) else [value]


def test_all_processes_cut_batches_as_the_one_with_the_least_memory_has_to(finished):
    training = open_training(finished, Four())
    training.setup = training.setup._replace(device=torch.device("meta"))  # any but a CPU
    fit_into_memory(training)
    assert training.step.num_micro_batches == 4


def test_trying_the_longest_batch_changes_nothing(training):
    before = {name: tensor.clone() for name, tensor in training.optimizer.master.items()}
    random = torch.get_rng_state()
    training.setup = training.setup._replace(device=torch.device("meta"))  # any but a CPU
    fit_into_memory(training)
    assert torch.equal(torch.get_rng_state(), random)
    for name, parameter in training.optimizer.master.items():
        assert torch.equal(parameter, before[name])
        assert not parameter.grad.any()
