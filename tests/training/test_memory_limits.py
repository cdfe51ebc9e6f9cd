"""Memory that will not suffice is told at once, or made to suffice."""

from __future__ import annotations

import pytest
import torch

from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.rundir import RunDir
from nmt.base import machine
from nmt.base.device import Precision
from nmt.base.errors import RunError
from nmt.base.machine import available_bytes, own_bytes
from nmt.config import ModelConfig
from nmt.model.transformer import Transformer
from nmt.training import memory_limits
from nmt.training.corpus.prepare import Prepared, find_store_root
from nmt.training.environment import Setup
from nmt.training.memory_limits import activation_bytes, bytes_needed, fit_into_memory
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


def test_a_training_beyond_the_memory_is_refused_with_the_figures_and_what_may_help(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(memory_limits, "available_bytes", lambda: 100 << 20)
    monkeypatch.setattr(memory_limits, "own_bytes", lambda: 0)
    for size, remedy in ((512, "lower training.batch_tokens or set it to auto"), ("auto", "lower model.max_src_len")):
        config = small_config(digits, training={"batch_tokens": size, "tokens_per_update": 512})
        with pytest.raises(RunError, match=r"needs about 0\.\d GiB of memory; 0\.1 GiB are available") as caught:
            start_run(config, tmp_path / f"run-{size}")
        assert caught.value.hint.startswith(remedy)


def test_processes_on_one_machine_share_its_memory(training, monkeypatch):
    needed = bytes_needed(training, training.batches.longest(), training.batches.batch_tokens)
    monkeypatch.setattr(memory_limits, "available_bytes", lambda: 2 * needed - 2)
    monkeypatch.setattr(memory_limits, "own_bytes", lambda: 0)
    fit_into_memory(training)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(RunError, match="GiB are available"):
        fit_into_memory(training)


@pytest.mark.skipif(own_bytes() == 0, reason="this system does not tell the memory of a process")
def test_memory_that_the_training_already_holds_counts_as_available(training, monkeypatch):
    needed = bytes_needed(training, training.batches.longest(), training.batches.batch_tokens)
    assert 0 < own_bytes() < 16 << 30
    held = 512 << 20
    monkeypatch.setattr(memory_limits, "available_bytes", lambda: needed - held)
    with pytest.raises(RunError, match="GiB are available"):
        fit_into_memory(training)
    monkeypatch.setattr(memory_limits, "own_bytes", lambda: training.bytes_before + held)
    fit_into_memory(training)  # as at the beginning of a later stage


def test_the_estimate_grows_with_the_batch_and_with_the_longest_sentence(training):
    short, long = (8, 8), (8, 4000)
    assert bytes_needed(training, short, 1 << 20) > 2 * bytes_needed(training, short, 512)
    assert bytes_needed(training, long, 512) > bytes_needed(training, short, 512)
    available = available_bytes()
    assert available is None or available > 1 << 20


def test_the_limit_of_a_container_counts_if_it_is_less_than_the_memory_of_the_machine(tmp_path, monkeypatch):
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "memory.current").write_text("5000\n")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "none")
    unlimited = available_bytes()
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "OWN_CGROUP", tmp_path / "own")
    for limit, expected in (("1005000", 1_000_000), ("max", unlimited)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        free = available_bytes()
        assert free == expected or abs(free - expected) < 1 << 30  # other processes use the memory of the machine


@pytest.mark.parametrize("attention", ["scaled_dot_product", "additive", "gaussian"])
def test_the_estimate_of_what_layers_keep_is_near_what_they_keep(attention):
    """Against the bytes of all tensors that autograd saves: less than half would be too few, three times too many."""
    src_len, tgt_len, num_rows = 151, 157, 1
    # So many layers and such long sentences that what attention keeps in each layer is most of it.
    sizes_of_model = {"d_model": 64, "num_heads": 2, "d_ff": 64, "encoder_layers": 6, "decoder_layers": 6}
    config = ModelConfig(**sizes_of_model, attention=attention, max_src_len=src_len, max_tgt_len=tgt_len)
    model = Transformer(config, 50, 50).train()
    sizes = {}

    def count(tensor):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    src, tgt = torch.full((num_rows, src_len), 5), torch.full((num_rows, tgt_len), 5)
    held = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (held.append(t), count(t))[1], lambda t: t):
        model(src, tgt).sum()
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = sum(size for address, size in sizes.items() if address not in parameters)
    estimate = activation_bytes(config, (src_len, tgt_len), num_rows * max(src_len, tgt_len), itemsize=4)
    assert kept / 2 < estimate < 3 * kept


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


def test_a_batch_of_automatic_size_is_cut_smaller_if_memory_is_short(training, monkeypatch):
    monkeypatch.setattr(memory_limits, "own_bytes", lambda: 0)
    training.batches.is_auto, training.batches.batch_tokens = True, 4000
    whole, half = (bytes_needed(training, training.batches.longest(), tokens) for tokens in (4000, 2000))
    for available, before, expected in ((None, 1, 1), (whole, 1, 1), (half, 1, 2), (whole, 3, 3)):
        monkeypatch.setattr(memory_limits, "available_bytes", lambda available=available: available)
        training.step.num_micro_batches = before
        fit_into_memory(training)
        assert training.step.num_micro_batches == expected


class Four(ProcessGroup):
    """A rank whose fellow has to cut batches in four."""

    def gather(self, value):
        return [value, 4] if isinstance(value, int) else [value]


@pytest.mark.parametrize("device", ["cpu", "meta"])  # where the memory is estimated, and any where it is tried
def test_all_processes_cut_batches_as_the_one_with_the_least_memory_has_to(finished, device):
    training = open_training(finished, Four())
    training.setup = training.setup._replace(device=torch.device(device))
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
