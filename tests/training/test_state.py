"""A training state or a run.json that nmt did not write: each ends in one error that names it."""

from __future__ import annotations

import json
import math
import shutil

import pytest
import torch

from nmt.artifacts.checkpoint import read_tensors, write_tensors
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.config import ModelConfig, TrainingConfig
from nmt.model.transformer import Transformer
from nmt.training.batches import DataPosition
from nmt.training.checkpoints import CheckpointHistory
from nmt.training.metrics import Window
from nmt.training.run import resume_run, start_run
from nmt.training.state import Counters, TrainState, tensors_of
from nmt.training.update.optimizer import Optimizer
from tests.full_disk import no_room_for
from tests.tiny import small_config


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "run"
    start_run(small_config(digits, training={"max_updates": 4, "average_checkpoints": 0}), path)
    return path


@pytest.fixture
def run(trained):
    """A copy beside the original, which shares its store."""
    path = trained.parent / "copy"
    shutil.copytree(trained, path)
    yield RunDir(path)
    shutil.rmtree(path)


def change_counters(run, *keys, value):
    """Set one of the values that are no tensors, in both states."""
    tensors = read_tensors(run.state)
    counters = json.loads(tensors["counters"].numpy().tobytes())
    record = counters
    for key in keys[:-1]:
        record = record[key]
    record[keys[-1]] = value
    tensors["counters"] = torch.tensor(list(json.dumps(counters).encode()), dtype=torch.uint8)
    for path in (run.state, run.previous_state):
        write_tensors(path, tensors)


COUNTERS = [
    ("update",),
    ("train_seconds",),
    ("skipped_in_a_row",),
    ("num_micro_batches",),
    ("plan",),
    ("position",),
    ("position", "epoch"),
    ("position", "batch"),
    ("window",),
    ("window", "seconds"),
    ("window", "num_tokens"),
    ("history",),
    ("history", "early_stopping_metric"),
    ("history", "validations_since_best"),
    ("history", "checkpoints"),
    ("history", "checkpoints", "step-00000004"),
    ("history", "checkpoints", "step-00000004", "bleu"),
    ("history", "best"),
    ("history", "signatures"),
    ("history", "listed_before"),
    ("unknown",),
]


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(keys, marks=() if n % 4 == 0 else pytest.mark.slow, id=".".join(keys))
        for n, keys in enumerate(COUNTERS)
    ],
)
def test_an_odd_value_in_the_state_is_one_error(run, keys):
    odd = ["x", [1], {"x": 1}]
    if keys[-1] != "bleu":  # a score may be any number
        odd += [-1, float("nan"), float("inf")]
    if keys[-1] not in ("bleu", "seconds"):
        odd.append(1 << 70)
    for value in odd:
        change_counters(run, *keys, value=value)
        with pytest.raises(RunError, match="the training state is damaged"):
            TrainState.load(run.state)
    if keys == ("unknown",):
        with pytest.raises(RunError, match="the training state is damaged"):
            resume_run(None, run.path)


def test_a_state_without_a_value_is_one_error(run):
    tensors = read_tensors(run.state)
    moments = [f"adam.decoder_norm.weight.{name}" for name in ("step", "exp_avg", "exp_avg_sq")]
    for name in ("random.0.cpu", "counters", "weights.decoder_norm.weight", *moments):
        assert name in tensors
        for path in (run.state, run.previous_state):
            write_tensors(path, {other: tensor for other, tensor in tensors.items() if other != name})
        if name.startswith("random"):
            assert TrainState.load(run.state).random == []
            continue
        with pytest.raises(RunError, match="training state"):
            resume_run(None, run.path)


@pytest.mark.parametrize("name", ["random.x.cpu", "random.7.cpu", "random.0.tpu", "weights.new", "adam.new.step", "x"])
def test_an_unknown_tensor_in_the_state_is_one_error(run, name):
    tensors = read_tensors(run.state) | {name: torch.zeros(3)}
    for path in (run.state, run.previous_state):
        write_tensors(path, tensors)
    with pytest.raises(RunError, match="training state"):
        TrainState.load(run.state) if name in ("random.x.cpu", "random.7.cpu", "x") else resume_run(None, run.path)


def test_an_odd_value_in_run_json_is_one_error(run):
    info = run.read_json(run.info_file)
    texts = {"precision": "fp8", "data_fingerprint": "../../x", "threads": "7", "command": "x", "resumed": "x"}
    for key in info:
        for value in (7.5, {"x": 1}, [[1]], texts.get(key, 1.5)):
            run.write_json(run.info_file, info | {key: value})
            with pytest.raises(RunError, match=r"run\.json: "):
                run.info()
    for key in ("precision", "data_fingerprint", "threads"):
        run.write_json(run.info_file, {name: value for name, value in info.items() if name != key})
        with pytest.raises(RunError, match=rf"run\.json: {key}: Field required"):
            resume_run(None, run.path)


def test_a_state_is_read_as_it_was_written(trained, tmp_path):
    state = TrainState.load(RunDir(trained).state)
    state.counters.history.checkpoints["step-00000004"]["loss"] = math.inf  # of a model that has diverged
    state.counters.window.flops = 1e20
    state.save(tmp_path / "state")
    again = TrainState.load(tmp_path / "state")
    assert again.counters == state.counters
    tensors, others = state.to_tensors(), again.to_tensors()
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)


def test_a_state_file_cannot_run_code(tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "boom"), "w"))

    (tmp_path / "state.pt").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(RunError, match="damaged"):
        TrainState.load(tmp_path / "state.pt")
    assert not (tmp_path / "boom").exists()


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
    return TrainState(counters, {"weights.proj.weight": torch.zeros(num_weights)}, [])


def test_a_saved_state_is_whole_or_absent(tmp_path):
    a_state(1, 10).save(tmp_path / "state")
    with no_room_for(5000), pytest.raises(OSError, match="File too large"):
        a_state(2, 10_000).save(tmp_path / "state", tmp_path / "previous")
    assert TrainState.load(tmp_path / "state").counters == a_state(1, 10).counters
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def a_model():
    torch.manual_seed(1)
    config = ModelConfig(d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1)
    return Transformer(config, 13, 13).eval()


def one_update(model, optimizer, lr):
    src = torch.tensor([[5, 6, 7]])
    loss = model(src, src).float().square().mean()
    optimizer.accumulate(torch.autograd.grad(loss, list(model.parameters())))
    optimizer.step(lr)


def a_state_of(tensors):
    return a_state(1, 0)._replace(optimizer=tensors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_loaded_state_goes_on_as_the_one_it_was_copied_from(dtype):
    models = a_model(), a_model()
    ours, other = (Optimizer(model, TrainingConfig(), dtype) for model in models)
    before = {name: tensor.clone() for name, tensor in tensors_of(ours).items()}
    one_update(models[0], ours, 1e-3)
    a_state_of(tensors_of(ours)).restore(other)
    for model, optimizer in zip(models, (ours, other), strict=True):
        one_update(model, optimizer, 1e-3)
    assert any(name.startswith("adam.") for name in tensors_of(ours))
    assert all(torch.equal(tensor, tensors_of(other)[name]) for name, tensor in tensors_of(ours).items())
    a_state_of(before).restore(other)  # of before the first update
    assert other.adam.state == {}


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"weights.x": torch.zeros(1)}, "weights.x: unknown"),
        ({"adam.x.step": torch.zeros(())}, "the optimizer state belongs to another model: x"),
        ({"adam.decoder_norm.weight.step": torch.zeros(())}, "adam.decoder_norm.weight.exp_avg: missing"),
        ({"weights.decoder_norm.weight": torch.zeros(2)}, r"weights.decoder_norm.weight: not torch.float32 of shape"),
        ({"weights.decoder_norm.weight": torch.zeros(16, dtype=torch.int32)}, "not torch.float32 of shape"),
    ],
)
def test_a_state_of_something_else_is_refused(odd, message):
    optimizer = Optimizer(a_model(), TrainingConfig(), torch.float32)
    with pytest.raises(ValueError, match=message):
        a_state_of(tensors_of(optimizer) | odd).restore(optimizer)
