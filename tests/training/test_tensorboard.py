"""Event files for TensorBoard: the figures of metrics.jsonl, and what TensorBoard shows of a resumed training."""

from __future__ import annotations

import struct
import sys

import pytest

pytest.importorskip("tensorboardX", reason="needs the extra tensorboard")

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.evaluation.plots import read_metrics
from nmt.training.run import resume_run, start_run
from tests.resumption import stop_after
from tests.tiny import small_config
from tests.two_directions import two_directions


def events(run):
    """The events of all files, in the order in which TensorBoard reads them."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(run.tensorboard.iterdir()):
        with path.open("rb") as file:
            while header := file.read(12):
                yield Event.FromString(file.read(struct.unpack("<Q", header[:8])[0]))
                file.read(4)


def points(run):
    """Each point that TensorBoard shows, by tag and step."""
    shown = {}
    for event in events(run):
        if event.session_log.status == event.session_log.START:
            shown = {(tag, step): value for (tag, step), value in shown.items() if step < event.step}
        for value in event.summary.value:
            shown[value.tag, event.step] = value.simple_value
    return shown


def test_the_file_holds_the_figures_of_the_log(digits, tmp_path):
    start_run(small_config(digits, training={"tensorboard": True}), tmp_path / "run")
    run = RunDir(tmp_path / "run")
    shown = points(run)
    for record in read_metrics(run.metrics):
        group = "train" if record["kind"] == "train" else "average" if record["checkpoint"] == "average" else "valid"
        names = {"train": ("loss", "lr", "tokens_per_second")}.get(group, ("loss", "bleu", "chrf", "perplexity"))
        for name in names:
            assert shown.pop((f"{group}/{name}", record["update"])) == pytest.approx(record[name], rel=1e-6)


@pytest.mark.slow
def test_a_resumed_training_continues_the_curves_of_each_direction(two_corpora, tmp_path, monkeypatch):
    training = {"tensorboard": True, "max_updates": 6, "validate_every": 2, "average_checkpoints": 0, "log_every": 1}
    config = two_directions(two_corpora, training=training)
    whole, stopped = RunDir(tmp_path / "whole"), RunDir(tmp_path / "stopped")
    start_run(config, whole.path)
    assert {("valid/bleu", 4), ("valid-en-de/bleu", 4), ("valid-en-fr/loss", 4)} <= points(whole).keys()
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        assert not start_run(config, stopped.path)
    stopped.state.write_bytes(stopped.previous_state.read_bytes())  # as if killed before the last state was saved
    assert resume_run(None, stopped.path)
    a, b = ({k: v for k, v in points(run).items() if "tokens_per_second" not in k[0]} for run in (whole, stopped))
    assert a == b


def test_a_missing_package_is_named_before_anything_is_made(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(NmtError) as caught:
        start_run(small_config(digits, training={"tensorboard": True}), tmp_path / "run")
    assert str(caught.value) == (
        "training.tensorboard needs the package tensorboardX, which is not installed\n"
        '  in the checkout of nmt: pip install ".[tensorboard]", or set training.tensorboard to false'
    )
    assert list(tmp_path.iterdir()) == []
