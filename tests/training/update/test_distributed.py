"""Several processes train what one trains; a process that dies takes the job down, and torchrun takes it up again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.config import dump_config
from nmt.data.store.batching import collate
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.model.transformer import Transformer
from nmt.training.run import start_run
from nmt.training.state import TrainState
from nmt.training.update.block import BlockShape
from nmt.training.update.distributed import ProcessGroup
from tests.tiny import tiny_config
from tests.traced_updates import Tracer
from tests.training.update.test_recorded import make_step

ROOT = Path(__file__).parents[3]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def quiet_environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def run_nmt(*command, **options):
    return subprocess.run(command, env=quiet_environment(), capture_output=True, text=True, timeout=600, **options)


@pytest.fixture
def config_file(digits, tmp_path):
    def write(**sections):
        path = tmp_path / "config.yaml"
        path.write_text(dump_config(tiny_config(digits, **sections)), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("precision", "batch_tokens", "options"),
    [
        pytest.param("fp32", 512, {}, marks=pytest.mark.slow),
        pytest.param("bf16", 512, {}, marks=pytest.mark.slow),
        pytest.param("fp32", "auto", {"schedule": "wsd"}, marks=pytest.mark.slow),
    ],
)
def test_two_processes_make_the_updates_of_one(digits, config_file, tmp_path, precision, batch_tokens, options):
    """Each takes half of the rows of every micro-batch, so the sums of gradients are those of one process.

    With a large epsilon, as Adam otherwise makes steps of full length of gradients that are 0 but for rounding.
    """
    training = {"precision": precision, "batch_tokens": batch_tokens, "tokens_per_update": 900, **options}
    training |= {"max_updates": 4, "average_checkpoints": 0, "eps": 1e-4}
    start_run(tiny_config(digits, training=training), tmp_path / "one")
    config = config_file(training=training)
    command = [sys.executable, "-m", "nmt", "train", "--config", str(config), "--run", str(tmp_path / "two")]
    done = run_nmt(*command, "--num-processes", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("done: ") == 1
    one, two = RunDir(tmp_path / "one"), RunDir(tmp_path / "two")
    assert two.read_json(two.info_file)["world_size"] == 2
    assert one.index().checkpoints.keys() == two.index().checkpoints.keys()
    assert TrainState.load(two.state).counters.position == TrainState.load(one.state).counters.position
    weights = [flat(read_weights(run.checkpoint("step-00000004"))) for run in (one, two)]
    way = weights[0] - flat(initial_weights(one))
    assert way.norm() > 0.01
    # Rounding alone: far less than what was learned.
    assert (weights[1] - weights[0]).norm() < (1e-3 if precision == "fp32" else 0.1) * way.norm()


def flat(weights):
    return torch.cat([weights[name].flatten() for name in sorted(weights)])


def initial_weights(run):
    """Those of the first update."""
    config, tokenizers = run.config(), TokenizerPair.load(run.tokenizer)
    torch.manual_seed(config.training.seed)
    model = Transformer(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


HANGS = """
import itertools, os, time
from nmt.apps.cli import main
from nmt.training.update.step import Step

step = Step.__call__

numbers = itertools.count(1)

def hanging(self, *arguments):
    if next(numbers) == 3 and os.environ["RANK"] == "1":
        time.sleep(3600)
    return step(self, *arguments)

Step.__call__ = hanging
main()
"""


def start_ranks(script, *arguments, **environment):
    """Two ranks without torchrun, which would end both when one fails."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    shared = {**quiet_environment(), "MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": "2", **environment}
    return [
        subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


@pytest.mark.slow
def test_a_process_that_hangs_is_reported_by_the_others_in_time(config_file, tmp_path):
    script = tmp_path / "hangs.py"
    script.write_text(HANGS, encoding="utf-8")
    train = ["train", "--config", str(config_file()), "--run", str(tmp_path / "run")]
    first, hanging = start_ranks(script, *train, NMT_COLLECTIVE_TIMEOUT="20")
    try:
        _, errors = first.communicate(timeout=600)
    finally:
        hanging.kill()
        hanging.communicate()
    assert first.returncode == 1, errors
    assert "Traceback" not in errors
    assert "error: another process of this training was lost, or did not answer for 20 seconds" in errors
    assert "--resume" in errors


LACKS_MEMORY = """
import os
import torch
from nmt.apps.cli import main
from nmt.training.update.step import BatchLoss

batch_loss = BatchLoss.__call__

def small_device(self, batch, *options, **settings):
    loss = batch_loss(self, batch, *options, **settings)
    if self.model.training and os.environ["RANK"] == "1" and len(batch.src) > 20:
        loss.backward()  # as if memory ended in the backward pass: some gradients are there already
        raise torch.OutOfMemoryError("no room")
    return loss

BatchLoss.__call__ = small_device
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_all_processes_cut_batches_if_one_lacks_memory_and_the_updates_are_the_same(
    digits, config_file, tmp_path, precision
):
    training = {"precision": precision, "max_updates": 4, "average_checkpoints": 0, "eps": 1e-4}
    start_run(tiny_config(digits, training=training), tmp_path / "one")
    script = tmp_path / "small.py"
    script.write_text(LACKS_MEMORY, encoding="utf-8")
    train = ["train", "--config", str(config_file(training=training)), "--run", str(tmp_path / "two")]
    for process in start_ranks(script, *train):
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    one, two = RunDir(tmp_path / "one"), RunDir(tmp_path / "two")
    assert TrainState.load(two.state).counters.num_micro_batches == 4
    weights = [flat(read_weights(run.checkpoint("step-00000004"))) for run in (one, two)]
    way = weights[0] - flat(initial_weights(one))
    assert (weights[1] - weights[0]).norm() < (1e-3 if precision == "fp32" else 0.1) * way.norm()


ON_BLOCKS = """
import sys
import torch
from nmt.training.processes import joined_process_group
from tests.training.update.test_distributed import train_on_blocks

with joined_process_group() as group:
    torch.save(train_on_blocks(group), f"{sys.argv[1]}-{group.rank}.pt")
"""


def train_on_blocks(group):
    """Train on pairs of which a block holds those of neither rank, of one, or of both; return the weights."""
    step = make_step(BlockShape.holding(60, 60, 9, 10), Tracer())
    step.group = group
    step.recorded.checks_loss = group.world_size == 1
    short, long = [[4, 5, 6], [7, 8]], [[*range(4, 12)]] * 9
    updates = ((short, short), (long, short), (short, long), (long, long), (short, short), (short, short))
    for update, sides in enumerate(updates, 1):
        shares = [collate(side, side, 60, 60) for side in sides]
        own = shares if group.world_size == 1 else [shares[group.rank]]
        step(own, sum(batch.num_tgt_tokens for batch in shares), 1e-3 / update, 0.1)
    return [weights.detach() for weights in step.optimizer.master.values()]


@pytest.mark.slow
def test_processes_on_blocks_make_the_updates_of_one_whoevers_batches_fit(tmp_path):
    """No process waits for one that has nothing to ask, and all of them change the weights alike."""
    script = tmp_path / "blocks.py"
    script.write_text(ON_BLOCKS, encoding="utf-8")
    for process in start_ranks(script, tmp_path / "weights", NMT_COLLECTIVE_TIMEOUT="100"):
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    first, second = (torch.load(tmp_path / f"weights-{rank}.pt") for rank in (0, 1))
    for a, b, alone in zip(first, second, train_on_blocks(ProcessGroup()), strict=True):
        assert torch.equal(a, b)
        assert torch.allclose(a, alone, atol=1e-5)


DIFFERS = """
import os
import nmt
from nmt.apps.cli import main

if os.environ["RANK"] == "1":
    nmt.__version__ = "9.9"
main()
"""


@pytest.mark.slow
def test_processes_of_different_versions_do_not_train_together(config_file, tmp_path):
    script = tmp_path / "differs.py"
    script.write_text(DIFFERS, encoding="utf-8")
    train = ["train", "--config", str(config_file()), "--run", str(tmp_path / "run")]
    for rank, process in enumerate(start_ranks(script, *train)):
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 1, errors
        assert "error: the processes of this training differ: nmt is" in errors, rank
        assert "and 9.9 on rank 1" in errors


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("abc", "the environment variable WORLD_SIZE is 'abc', not a number from 1 up\n"),
        ("0", "the environment variable WORLD_SIZE is '0', not a number from 1 up\n"),
        ("2", "WORLD_SIZE is 2, but this process cannot find the others"),
    ],
)
def test_an_odd_world_size_is_one_error(config_file, tmp_path, monkeypatch, value, message):
    monkeypatch.setenv("WORLD_SIZE", value)
    done = CliRunner().invoke(app, ["train", "--config", str(config_file()), "--run", str(tmp_path / "run")])
    assert isinstance(done.exception, NmtError)
    assert str(done.exception).startswith(message)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_error_of_the_first_process_is_told_once_and_ends_the_others(config_file, tmp_path):
    config = config_file()
    text = config.read_text(encoding="utf-8").replace("train.tsv", "missing.tsv")
    config.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "nmt", "train", "--config", str(config), "--run", str(tmp_path / "run")]
    done = run_nmt(*command, "--num-processes", "2")
    assert done.returncode == 1
    assert done.stderr.count("missing.tsv") == 1
    assert "stopped" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "torch" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_torchrun_starts_again_from_the_last_checkpoint_when_a_process_has_died(config_file, tmp_path):
    """The first rank is killed once it has saved; the run ends where the undisturbed one does."""
    config = config_file(training={"max_updates": 12, "validate_every": 4}, model={"dropout": 0.1})
    whole, broken = RunDir(tmp_path / "whole"), RunDir(tmp_path / "broken")
    train = ["train", "--config", str(config), "--run"]
    # The -- keeps torchrun from taking --run for one of its own options.
    assert run_nmt(*TORCHRUN, "-m", "--", "nmt", *train, str(whole.path)).returncode == 0
    script = tmp_path / "dies.py"
    script.write_text(DIES_ONCE, encoding="utf-8")
    done = run_nmt(*TORCHRUN, "--max-restarts", "1", "--", str(script), *train, str(broken.path))
    assert done.returncode == 0, done.stderr
    assert "resuming" in done.stderr
    assert whole.index() == broken.index()
    for name in whole.index().checkpoints:
        assert whole.checkpoint(name).read_bytes() == broken.checkpoint(name).read_bytes()


DIES_ONCE = """
import itertools, os, signal
from nmt.apps.cli import main
from nmt.training.update.step import Step

step = Step.__call__

numbers = itertools.count(1)

def deadly(self, *arguments):
    if next(numbers) == 7 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, *arguments)

Step.__call__ = deadly
main()
"""


@pytest.mark.slow
def test_a_process_that_dies_takes_the_others_down_and_says_how_to_go_on(config_file, tmp_path):
    config = config_file()
    script = tmp_path / "dies.py"
    script.write_text(DIES_ONCE, encoding="utf-8")
    train = ["train", "--config", str(config), "--run", str(tmp_path / "run")]
    done = run_nmt(*TORCHRUN, "--", str(script), *train)
    assert done.returncode != 0
    assert "another process of this training was lost" in done.stderr
    assert "--resume" in done.stderr
    assert RunDir(tmp_path / "run").state.exists()


@pytest.mark.slow
def test_an_interrupt_stops_all_processes_after_the_same_update(config_file, tmp_path):
    config = config_file(training={"max_updates": 100_000, "validate_every": 100_000, "warmup_updates": 10})
    run = RunDir(tmp_path / "run")
    command = [
        sys.executable,
        "-m",
        "nmt",
        "train",
        "--config",
        str(config),
        "--run",
        str(run.path),
        "--num-processes",
        "2",
    ]
    process = subprocess.Popen(
        command, env=quiet_environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )  # a session of its own, so that the signal reaches no one else
    deadline = time.monotonic() + 600
    while not run.metrics.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "the state is saved" in errors
    assert "torch" not in errors
    assert TrainState.load(run.state).counters.update > 0


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="reads the processes of a session")
def test_processes_whose_launcher_is_killed_save_and_stop(config_file, tmp_path):
    config = config_file(training={"max_updates": 100_000, "validate_every": 100_000, "warmup_updates": 10})
    run = RunDir(tmp_path / "run")
    train = ["train", "--config", str(config), "--run", str(run.path), "--num-processes", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "nmt", *train],
        env=quiet_environment(), stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        while not run.metrics.exists() and process.poll() is None:
            time.sleep(0.1)
        process.kill()
        _, errors = process.communicate(timeout=60)  # until the last of the processes has closed it
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # The first process says why it stops, unless the other one has noticed first, and asked it to stop.
    assert "stopped; the state is saved" in errors
    assert TrainState.load(run.state).counters.update > 0
