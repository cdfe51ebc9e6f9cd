"""The speed run: its entries, its table, and a training that is stopped, resumed and read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.config import dump_config
from tests.tiny import tiny_config

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "benchmarks"


@pytest.fixture
def speedrun(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import speedrun

    return speedrun


def test_an_entry_has_the_settings_of_those_that_it_builds_on(speedrun, tmp_path):
    path = tmp_path / "entries.yaml"
    path.write_text(
        "- {name: a, idea: first, set: {training.lr: 2e-3, training.eps: 0.9}}\n"
        "- {name: b, idea: second, base: a, set: {training.eps: 0.5}, seeds: [1, 2]}\n"
        "- {name: c, idea: third, config: configs/demo-en-zh.yaml}\n"
    )
    entries = speedrun.read_entries(path)
    assert entries["b"] == speedrun.Entry("b", "second", {"training.lr": "2e-3", "training.eps": 0.5}, (1, 2))
    assert entries["c"] == speedrun.Entry("c", "third", {}, config=ROOT / "configs" / "demo-en-zh.yaml")
    for faulty, message in (("bse: a", "unknown key 'bse' in entry 'c'"), ("base: d", "c: a name is used once")):
        path.write_text(f"- {{name: c, idea: x, {faulty}}}\n")
        with pytest.raises(SystemExit, match=message):
            speedrun.read_entries(path)


def test_the_entries_of_the_project_are_configurations(speedrun):
    from nmt.config import load_config

    for entry in speedrun.read_entries(BENCH / "speedrun.yaml").values():
        settings = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in entry.settings.items()]
        load_config(entry.config or ROOT / "configs" / "multi30k-de-en.yaml", settings)


def test_the_table_has_the_mean_over_seeds_and_says_how_many_reached_a_score(speedrun, tmp_path):
    entry = speedrun.Entry("fast", "an idea", {}, (1, 2))
    curves = {
        1: speedrun.Curve(2, "Xeon", "a1", [10, 20], [2.0, 4.0], [36.5, 38.8]),
        2: speedrun.Curve(2, "Xeon", "b2", [10, 20], [3.0, 6.0], [36.0, 38.1]),
    }
    assert speedrun.make_row(entry, curves) == (
        "| fast | 2 | an idea | 1, 2 | 2.5 (2.0 to 3.0) | 5.0 (4.0 to 6.0) | 1 of 2 | - | 38.45 (38.10 to 38.80) | "
        "5.0 (4.0 to 6.0) | 5.0 (4.0 to 6.0) | Xeon, commit a1, b2 |"
    )
    changed = speedrun.make_row(entry, curves, ["training.threads=2", "training.lr=2e-3"])
    assert changed.startswith("| fast training.lr=2e-3 | 2 | an idea |")


def test_rows_of_other_entries_threads_and_seeds_stay_in_the_table_of_the_page(speedrun, tmp_path):
    page = tmp_path / "page.md"
    rows = ["| a | 1 | old | 1 | 3 |", "| a | 2 | old | 2 | 3 |", "| b | 1 | old | 1, 2 | 3 |"]
    page.write_text(f"# Page\n{speedrun.BEGIN}{speedrun.END}after\n")
    speedrun.write_log(page, rows)
    speedrun.write_log(page, ["| a | 2 | new | 1, 2, 3 | 4 |", "| b | 1 | new | 2 | 4 |", "| c | 1 | new | 1 | 4 |"])
    lines = page.read_text().splitlines()
    assert [line for line in lines if line.endswith((" 3 |", " 4 |"))] == [
        "| a | 1 | old | 1 | 3 |",
        "| a | 2 | new | 1, 2, 3 | 4 |",
        "| b | 1 | old | 1, 2 | 3 |",
        "| b | 1 | new | 2 | 4 |",
        "| c | 1 | new | 1 | 4 |",
    ]
    assert lines.count("|---|---:|---|---|" + "---:|" * 7 + "---|") == 1
    assert lines[-1] == "after"


def test_a_training_is_not_taken_for_that_of_another_configuration_in_the_same_file(
    speedrun, digits, tmp_path, monkeypatch
):
    monkeypatch.setattr(speedrun.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    config, entry = tmp_path / "tiny.yaml", speedrun.Entry("a", "x", {})
    given = Namespace(config=config, set=[], folder=tmp_path)
    folders = []
    for lr in (1e-3, 2e-3, 1e-3):
        config.write_text(dump_config(tiny_config(digits, training={"lr": lr})), encoding="utf-8")
        folders.append(speedrun.train(given, entry, 1).path)
    assert folders[0] == folders[2] != folders[1]


@pytest.mark.slow
def test_a_speed_run_is_resumed_and_its_trainings_are_read_once_they_are_finished(digits, tmp_path):
    config, entries = tmp_path / "tiny.yaml", tmp_path / "entries.yaml"
    training = {"max_updates": 60, "validate_every": 20, "log_every": 10, "warmup_updates": 10}
    config.write_text(dump_config(tiny_config(digits, training=training)), encoding="utf-8")
    entries.write_text("- {name: a, idea: x}\n- {name: b, idea: y, base: a, set: {training.lr: 2e-3}}\n")
    command = [sys.executable, BENCH / "speedrun.py", "--config", config, "--entries", entries]
    command += ["--folder", tmp_path / "runs", "--json", tmp_path / "curves.json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(list(map(str, command)), env=environment, stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    while "valid step-00000020" not in first.stderr.readline():
        pass
    first.terminate()
    first.communicate()
    for resumed in (True, False):
        done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert ("resuming" in done.stderr or "update 60/60" in done.stderr) == resumed
        assert done.stdout.count("| a | 1 | x |") == 2
    curves = json.loads((tmp_path / "curves.json").read_text())["curves"]
    assert curves["a"]["1"]["updates"] == [20, 40, 60]
    assert len(curves["b"]["1"]["bleu"]) == 3
