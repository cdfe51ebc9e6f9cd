"""Memory that will not suffice is told at once, or made to suffice."""

from __future__ import annotations

import pytest
import torch

from nmt.checkpoint import load_state, read_weights
from nmt.data.batching import read_batch
from nmt.device import Precision
from nmt.errors import RunError
from nmt.rundir import RunDir
from nmt.training import memory
from nmt.training import trainer as training
from nmt.training.memory import available_bytes, needed_bytes
from nmt.training.prepare import open_prepared
from nmt.training.train import start_run
from nmt.training.trainer import Trainer
from tests.tiny import tiny_config


@pytest.fixture
def trainer(digits, tmp_path):
    config = tiny_config(digits, training={"max_updates": 4, "validate_every": 4, "average_checkpoints": 0})
    start_run(config, tmp_path / "run")
    run = RunDir(tmp_path / "run")
    fingerprint = run.read_json(run.info_file)["data_fingerprint"]
    prepared = open_prepared(run, tmp_path / ".store", fingerprint)
    return Trainer(run, config, prepared, torch.device("cpu"), Precision("fp32", 1e9))


def test_a_training_beyond_the_memory_is_refused_with_the_figures(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "available_bytes", lambda: 100 << 20)
    with pytest.raises(RunError, match=r"needs about 0\.\d GiB of memory; 0\.1 GiB are free"):
        start_run(tiny_config(digits), tmp_path / "run")


def test_the_estimate_grows_with_the_batch_and_with_the_longest_sentence(digits):
    model = tiny_config(digits).model
    assert needed_bytes(model, 1 << 20, 10**5, 300, (8, 8)) > 20 * needed_bytes(model, 512, 10**5, 300, (8, 8)) / 10
    assert needed_bytes(model, 512, 10**5, 300, (8, 4000)) > needed_bytes(model, 512, 10**5, 300, (8, 8))
    have = available_bytes()
    assert have is None or have > 1 << 20


def test_batches_are_cut_where_the_device_has_no_room_and_the_update_is_the_same(trainer, monkeypatch):
    rows = trainer._indices_of_update()
    batches = [read_batch(trainer.store, each) for each in rows]
    num_tokens = sum(batch.num_tgt_tokens for batch in batches)
    whole = trainer.step._gather_gradients(batches, num_tokens)
    expected = [parameter.grad.clone() for parameter in trainer.model.parameters()]
    trainer.optimizer.zero_grad()
    forward, most = trainer.step.loss.forward, len(batches[0].src) // 3

    def small_device(src, *others):
        loss = forward(src, *others)
        if len(src) > most:
            loss.backward()  # as where memory ends in the backward pass: some gradients are there already
            raise torch.OutOfMemoryError("no room")
        return loss

    monkeypatch.setattr(trainer.step.loss, "forward", small_device)
    cut = trainer.step._within_memory(batches, num_tokens, may_cut=True)
    assert trainer.step.num_micro_batches == 4
    assert torch.allclose(cut, whole, rtol=1e-5)
    for parameter, grad in zip(trainer.model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, grad, atol=1e-6)


def test_a_sentence_that_alone_has_no_room_is_an_error(trainer, monkeypatch):
    def no_device(*batch):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(trainer.step.loss, "forward", no_device)
    batch = read_batch(trainer.store, trainer._indices_of_update()[0])
    with pytest.raises(torch.OutOfMemoryError):
        trainer.step([batch], batch.num_tgt_tokens, 1)


def test_a_batch_of_automatic_size_is_an_update_and_tokens_of_it_are_what_a_cpu_is_fastest_with(
    digits, tmp_path, monkeypatch
):
    """The updates of the whole batch; eps as in test_distributed.py."""
    monkeypatch.setattr(memory, "FASTEST_ON_CPU", 300)
    few = {"max_updates": 4, "validate_every": 4, "average_checkpoints": 0, "eps": 1e-4}
    # Both sides of a pair are of one length here, so that the real tokens of an update are all of a batch.
    sizes = {"whole": {"batch_tokens": 1000}, "auto": {"batch_tokens": "auto", "tokens_per_update": 1000}}
    for name, size in sizes.items():
        start_run(tiny_config(digits, training={**few, **size}), tmp_path / name)
    whole, auto = (RunDir(tmp_path / name) for name in sizes)
    assert load_state(auto.state)["position"] == load_state(whole.state)["position"]
    assert (load_state(whole.state)["num_micro_batches"], load_state(auto.state)["num_micro_batches"]) == (1, 4)
    weights = [read_weights(run.checkpoint("step-00000004")) for run in (whole, auto)]
    for name, tensor in weights[0].items():
        assert torch.allclose(tensor, weights[1][name], atol=1e-5), name


def test_a_batch_of_automatic_size_is_cut_smaller_where_memory_is_short(trainer, monkeypatch):
    trainer.settings = trainer.settings.model_copy(update={"batch_tokens": "auto"})
    trainer.batch_tokens = 4000
    trainer._check_memory()
    assert trainer.step.num_micro_batches == 1
    enough_for_halves = trainer._needed_bytes(2)
    monkeypatch.setattr(training, "available_bytes", lambda: enough_for_halves)
    trainer._check_memory()
    assert trainer.step.num_micro_batches == 2


def test_all_processes_cut_batches_as_the_one_with_the_least_memory_has_to(trainer, monkeypatch):
    monkeypatch.setattr(trainer.group, "gather", lambda count: [count, 4])
    trainer.step.dry_run(read_batch(trainer.store, trainer._indices_of_update()[0]))
    assert trainer.step.num_micro_batches == 4


def test_trying_the_longest_batch_changes_nothing(trainer, monkeypatch):
    before = {name: tensor.clone() for name, tensor in trainer.optimizer.master.items()}
    random = torch.get_rng_state()
    monkeypatch.setattr(trainer, "device", torch.device("meta"))  # any but a CPU
    trainer._check_memory()
    assert torch.equal(torch.get_rng_state(), random)
    for name, parameter in trainer.optimizer.master.items():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None
