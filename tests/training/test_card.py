"""The card of a run names the methods that trained it."""

from __future__ import annotations

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.training.run import start_run
from tests.tiny import small_config


@pytest.mark.parametrize(
    ("sections", "methods"),
    [
        ({}, None),
        (
            {"model": {"num_heads": 4, "positions": "rotary"}, "training": {"both_directions": True}},
            "rotary positions, both directions |",
        ),
        (
            {"training": {"stages": [{"max_updates": 2, "both_directions": True}, {"max_updates": 2}]}},
            "both directions in 1 of 2 stages |",
        ),
    ],
)
def test_card_lists_the_methods_of_the_training(digits, tmp_path, sections, methods):
    training = {"max_updates": 4, "warmup_updates": 1, "average_checkpoints": 0} | sections.get("training", {})
    start_run(small_config(digits, **{**sections, "training": training}), tmp_path / "run")
    rows = [line for line in RunDir(tmp_path / "run").card.read_text("utf-8").splitlines() if "| methods |" in line]
    if methods is None:
        assert not rows
    else:
        assert rows[0].startswith(f"| methods | {methods}")
