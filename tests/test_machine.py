"""What nmt learns of the machine, and asks of the libraries on it."""

import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from nmt import machine
from nmt.machine import busy_share, num_cores, request_sleeping_threads_if_busy

_SPIN = "print('spinning', flush=True)\nwhile True: pass"


def test_cores_that_other_processes_use_are_busy():
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("needs Linux: the use of cores is read from /proc/stat")
    with ExitStack() as stack:
        for _ in range(num_cores()):
            spinning = stack.enter_context(subprocess.Popen([sys.executable, "-c", _SPIN], stdout=subprocess.PIPE))
            stack.callback(spinning.kill)
            assert spinning.stdout is not None
            assert spinning.stdout.readline()
        assert 0.5 < busy_share() <= 1.0


def test_nothing_is_said_of_a_system_that_does_not_tell(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert busy_share() == 0.0


@pytest.fixture
def before_torch(monkeypatch):
    """Return a function that sets how busy a machine of two cores is, in a process that has not imported torch."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(machine, "num_cores", lambda: 2)
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    return lambda share: monkeypatch.setattr(machine, "busy_share", lambda: share)


@pytest.mark.parametrize(("share", "policy"), [(0.0, None), (0.2, None), (0.25, "passive"), (1.0, "passive")])
def test_threads_sleep_while_they_wait_on_a_busy_machine_only(before_torch, share, policy):
    before_torch(share)
    request_sleeping_threads_if_busy()
    assert os.environ.get("OMP_WAIT_POLICY") == policy


@pytest.mark.parametrize(("name", "value"), [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "1000")])
def test_what_the_user_asks_of_threads_stands(before_torch, monkeypatch, name, value):
    before_torch(1.0)
    monkeypatch.setenv(name, value)
    request_sleeping_threads_if_busy()
    assert (os.environ.get("OMP_WAIT_POLICY"), os.environ.get(name)) == (value if "WAIT" in name else None, value)


def test_nothing_is_asked_of_threads_once_torch_is_there_or_of_one_core(before_torch, monkeypatch):
    before_torch(1.0)
    monkeypatch.setattr(machine, "num_cores", lambda: 1)
    request_sleeping_threads_if_busy()
    monkeypatch.setattr(machine, "num_cores", lambda: 2)
    monkeypatch.setitem(sys.modules, "torch", object())
    request_sleeping_threads_if_busy()
    assert "OMP_WAIT_POLICY" not in os.environ


def test_training_asks_for_sleeping_threads_before_it_imports_torch(tmp_path):
    code = f"""
import os, sys
from nmt import machine
machine.busy_share, machine.num_cores = (lambda: 1.0), (lambda: 2)
from nmt.cli import app
try:
    app(["train", "--resume", "--run", {str(tmp_path)!r}])
finally:
    print(os.environ.get("OMP_WAIT_POLICY"))
"""
    unset = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "passive", done.stderr
