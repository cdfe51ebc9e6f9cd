"""The run or the export that the user means, by --model, $NMT_MODEL or ./runs."""

from __future__ import annotations

import os

import pytest

from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError


def make_run(path, best="step-00000001", time=1000):
    run = RunDir(path)
    run.checkpoints.mkdir(parents=True)
    run.config_file.write_text("data: {}\n")
    run.write_json(run.index_file, {"best": best})
    os.utime(run.index_file, (time, time))
    return run


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NMT_MODEL", raising=False)


def test_the_run_trained_last_is_found(tmp_path):
    for name, time in (("a", 1000), ("b", 3000), ("c", 2000), (".d.partial", 4000)):
        make_run(tmp_path / "runs" / name, time=time)
    assert find_run(None).path.name == "b"


def test_a_named_run_goes_before_the_environment_and_that_before_the_newest(tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        make_run(tmp_path / "runs" / name)
    monkeypatch.setenv("NMT_MODEL", "runs/b")
    assert find_run("runs/a").path.name == "a"
    assert find_run(None).path.name == "b"


def test_a_run_whose_replacement_was_killed_is_found(tmp_path):
    make_run(tmp_path / ".run.0000000a.old")
    (tmp_path / ".run.0000000a.lock").touch()
    assert find_run("run").path.name == "run"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "thesis").mkdir()
    with pytest.raises(RunError, match=r"not a run: it has no config\.yaml"):
        find_run("thesis")


def test_a_run_without_a_checkpoint_is_refused(tmp_path):
    run = make_run(tmp_path / "run")
    run.index_file.unlink()
    with pytest.raises(RunError, match="no checkpoint yet"):
        find_run(str(run.path))


def test_an_export_is_refused_because_a_model_is_a_run(digits_export, monkeypatch):
    monkeypatch.setenv("NMT_MODEL", str(digits_export))
    for name in (None, str(digits_export)):
        with pytest.raises(RunError, match="an export for CTranslate2, which nmt does not load\n  give the run"):
            find_run(name)
