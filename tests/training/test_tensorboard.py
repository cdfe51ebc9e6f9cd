"""Event files for TensorBoard: the figures of metrics.jsonl, without doubled points after a resumption."""

from __future__ import annotations

import builtins
import signal

import pytest

pytest.importorskip("tensorboardX", reason="needs the extra tensorboard")

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.evaluation.plots import read_metrics
from nmt.training.run import resume_run, start_run
from nmt.training.tensorboard import TensorBoardLog
from nmt.training.update.step import Step
from tests.tiny import tiny_config
from tests.two_directions import two_directions

SMALL = {"encoder_layers": 1, "decoder_layers": 1}


def points(run):
    """(tag, step) to value of each figure, each of which is there once; the samples by their tags."""
    found = {}
    for event in TensorBoardLog(run.tensorboard).events():
        for value in event.summary.value:
            text = value.tensor.string_val[0].decode() if value.HasField("tensor") else None
            assert (value.tag, event.step) not in found
            found[value.tag, event.step] = value.simple_value if text is None else text
    return found


def test_the_file_holds_the_figures_of_the_log_and_samples(digits, tmp_path):
    start_run(tiny_config(digits, model=SMALL, training={"tensorboard": True}), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    found = points(run)
    for record in read_metrics(run.metrics):
        group = "train" if record["kind"] == "train" else "average" if record["checkpoint"] == "average" else "valid"
        names = {"train": ("loss", "lr", "tokens_per_second")}.get(group, ("loss", "bleu", "chrf", "perplexity"))
        for name in names:
            assert found.pop((f"{group}/{name}", record["update"])) == pytest.approx(record[name], rel=1e-6)
    texts = {key: text for key, text in found.items() if "samples" in key[0]}
    assert {step for _, step in texts} == {4, 8, 12}
    sources, references = run.read_pairs("valid")
    for text in texts.values():
        assert f"source       {sources[0]}" in text
        assert f"reference    {references[4]}" in text
        assert sources[5] not in text


def test_several_directions_have_curves_of_their_own(two_corpora, tmp_path):
    training = {"tensorboard": True, "max_updates": 4, "validate_every": 4, "average_checkpoints": 0}
    start_run(two_directions(two_corpora, training=training), tmp_path / "run")
    found = points(RunDir(tmp_path / "run"))
    assert {("valid/bleu", 4), ("valid-en-de/bleu", 4), ("valid-en-fr/loss", 4)} <= found.keys()


@pytest.mark.parametrize("cut", [0, 5])
def test_a_resumed_training_has_each_point_once(digits, tmp_path, monkeypatch, cut):
    calibrated = {"calibrate_length": True, "tensorboard": True, "log_every": 1}
    config = tiny_config(digits, model=SMALL | {"output_bias": True}, training=calibrated)
    start_run(config, tmp_path / "whole")
    step = Step.__call__

    def stopping_step(self, batches, num_tokens, number):
        result = step(self, batches, num_tokens, number)
        if number == 6:
            signal.raise_signal(signal.SIGINT)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Step, "__call__", stopping_step)
        assert not start_run(config, tmp_path / "stopped")
    whole, stopped = RunDir(tmp_path / "whole"), RunDir(tmp_path / "stopped")
    log = TensorBoardLog(stopped.tensorboard)
    log._append(9, {"train/loss": 1.0})  # written after the state was saved, by a training that was killed
    if cut:
        log.path.write_bytes(log.path.read_bytes()[:-cut])
    assert resume_run(None, stopped.path)
    clocks = ("tokens_per_second",)
    one, two = ({k: v for k, v in points(run).items() if not k[0].endswith(clocks)} for run in (whole, stopped))
    assert one == two
    stopped.card.unlink()
    assert resume_run(None, stopped.path)  # of a training that was killed at its end: the average is written anew
    assert points(stopped).keys() == one.keys() | {key for key in points(whole) if key[0].endswith(clocks)}


def test_a_missing_package_is_named_before_anything_is_made(digits, tmp_path, monkeypatch):
    import_module = builtins.__import__

    def without(name, *arguments):
        if name.startswith("tensorboardX"):
            raise ImportError(name)
        return import_module(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NmtError) as caught:
        start_run(tiny_config(digits, training={"tensorboard": True}), tmp_path / "run")
    assert str(caught.value) == (
        "training.tensorboard needs the package tensorboardX\n"
        '  in the checkout of nmt: pip install ".[tensorboard]", or set training.tensorboard to false'
    )
    assert list(tmp_path.iterdir()) == []
