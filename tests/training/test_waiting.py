"""Threads that sleep instead of spin while other programs need the cores."""

import itertools
import logging
import os
import threading
import time

import pytest
import torch

from nmt.base.machine import seconds_waited
from nmt.training.waiting import POOL, _own_a_pool, sleeping_if_crowded

SOON = 60.0

pytestmark = pytest.mark.skipif(seconds_waited(os.getpid()) is None, reason="only Linux tells how long threads wait")


@pytest.fixture
def cores(monkeypatch):
    """Return a function that sets the cores of this process; torch has two threads, and waits are as told."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield lambda count: monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))
    torch.set_num_threads(before)


def waits(monkeypatch, *seconds: float) -> None:
    """Let the threads have waited `seconds` more at each look, the last of these for ever."""
    total = itertools.accumulate(itertools.chain(seconds, itertools.repeat(seconds[-1])))
    monkeypatch.setattr("nmt.training.waiting.seconds_waited", lambda _: next(total))


def pools() -> int:
    return sum(thread.name == POOL for thread in threading.enumerate())


def until(condition) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize(("num_cores", "num_pools"), [(2, 1), (4, 3)])
def test_idle_pools_outnumber_the_cores_while_these_are_crowded(cores, monkeypatch, num_cores, num_pools):
    cores(num_cores)
    waits(monkeypatch, 1000.0)
    with sleeping_if_crowded(seconds=0.001):
        until(lambda: pools() == num_pools)
        assert torch.ones(1 << 20).sum() == 1 << 20
    until(lambda: pools() == 0)


def test_threads_spin_again_when_the_cores_are_free(cores, monkeypatch, caplog):
    cores(2)
    waits(monkeypatch, 0.0, 0.0, 1000.0, 0.0)
    caplog.set_level(logging.INFO)
    with sleeping_if_crowded(seconds=0.001):
        until(lambda: len(caplog.messages) == 2)
        until(lambda: pools() == 0)
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "other programs need the cores", "the cores are free again",
    ]  # fmt: skip


def test_few_threads_of_very_many_cores_open_no_pools(cores, monkeypatch):
    cores(1000)
    waits(monkeypatch, 1000.0)
    before = set(threading.enumerate())
    with sleeping_if_crowded(seconds=0.001):
        until(lambda: set(threading.enumerate()) <= before)


def test_a_pool_has_the_threads_of_openmp(cores):
    tasks = "/proc/self/task"
    closed = threading.Event()
    before = {*os.listdir(tasks)}
    owner = threading.Thread(target=_own_a_pool, args=(closed,))
    owner.start()
    until(lambda: len({*os.listdir(tasks)} - before) == torch.get_num_threads())
    closed.set()
    owner.join()


@pytest.mark.parametrize(("policy", "num_threads"), [("active", 2), (None, 1)])
def test_nothing_is_watched_where_that_is_of_no_use(cores, monkeypatch, policy, num_threads):
    cores(2)
    waits(monkeypatch, 1000.0)
    if policy is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", policy)
    torch.set_num_threads(num_threads)
    before = set(threading.enumerate())
    with sleeping_if_crowded(seconds=0.001):
        assert set(threading.enumerate()) <= before


def test_the_pools_end_with_an_error_of_the_training(cores, monkeypatch):
    cores(2)
    waits(monkeypatch, 1000.0)

    def train() -> None:
        with sleeping_if_crowded(seconds=0.001):
            until(lambda: pools() == 1)
            raise ValueError("an error")

    with pytest.raises(ValueError, match="an error"):
        train()
    until(lambda: pools() == 0)
