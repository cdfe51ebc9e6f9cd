"""Environments of other programs: made once, whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nmt.artifacts.cachedir import cache_folder
from nmt.artifacts.environments import Environment
from nmt.base.errors import NmtError
from nmt.base.locks import try_lock
from tests.wheels import write_wheel


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def wanted(tmp_path) -> Environment:
    wheel = write_wheel(tmp_path, "small", "1.5", "small", "ANSWER = 42\n")
    return Environment("small-1.5", [str(wheel)], ["small"])


def kept() -> list[str]:
    return [path.name for path in (cache_folder() / "environments").iterdir() if not path.name.endswith(".lock")]


def answer(environment: Environment) -> str:
    code = "import small, sys; print(small.ANSWER, sys.prefix)"
    return subprocess.run([environment.python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_an_environment_is_made_once_with_its_packages_alone(wanted, messages, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    assert not wanted.is_made()
    wanted.make()
    assert answer(wanted) == f"42 {wanted.folder}\n"
    assert "Installing collected packages: small" in messages
    before = wanted.folder.stat().st_mtime_ns
    wanted.make()
    assert wanted.folder.stat().st_mtime_ns == before
    assert kept() == [wanted.folder.name]


@pytest.mark.slow
def test_a_failure_of_pip_is_one_message_and_leaves_nothing(wanted):
    with pytest.raises(NmtError) as caught:
        wanted._replace(requirements=["small==7"]).make()
    message = "cannot install small==7: No matching distribution found for small==7\n"
    assert str(caught.value).startswith(message)
    assert kept() == []


@pytest.mark.slow
def test_a_program_that_cannot_be_imported_leaves_nothing(wanted):
    with pytest.raises(NmtError, match=r"^small-1.5 does not start: ModuleNotFoundError: No module named 'other'"):
        wanted._replace(modules=["other"]).make()
    assert kept() == []


def test_a_second_process_waits_until_the_first_has_made_it(wanted, messages):
    folder = wanted.folder
    folder.parent.mkdir(parents=True)
    lock = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT)
    assert try_lock(lock)
    waiting = threading.Thread(target=wanted.make)
    waiting.start()
    while not messages:
        time.sleep(0.01)
    assert messages == [f"another process is creating {folder}; waiting for it"]
    folder.mkdir()  # as the other process does at its end
    os.close(lock)
    waiting.join(timeout=120)
    assert not waiting.is_alive()
    assert list(folder.iterdir()) == []


def test_a_cache_that_cannot_be_written_to_is_one_message(wanted, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "file"))
    with pytest.raises(NmtError, match="cannot be written to") as caught:
        wanted.make()
    assert "$NMT_CACHE" in caught.value.hint


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs process groups")
def test_an_installation_that_was_killed_is_made_anew(wanted):
    code = f"from nmt.artifacts.environments import Environment; Environment(*{tuple(wanted)!r}).make()"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2], start_new_session=True)
    while not list((cache_folder() / "environments").glob(".*.partial/bin/python")):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not wanted.is_made()
    wanted.make()
    assert answer(wanted).startswith("42 ")
    assert kept() == [wanted.folder.name]
