"""Let torch's threads sleep instead of spin while they wait for each other, as long as others need the cores.

GNU OpenMP's threads spin by default. On an idle machine, that is a quarter faster. On a busy machine, a spinning thread
occupies the core that the thread it waits for needs, and training falls to a twentieth of its speed. OpenMP reads
OMP_WAIT_POLICY once, when torch is imported, but its threads sleep after a moment, too, while the threads of all pools
outnumber the cores (libgomp, config/linux/wait.h). So pools that do nothing end the spinning. They change no results.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from nmt.base.machine import seconds_waited_for_cores

log = logging.getLogger(__name__)

# All chosen by hand. Threads that spin on a busy machine wait for a core in 80% of the time, on a quiet one in 0.1%.
_SECONDS = 1.0  # between two looks
_CROWDED = 0.1  # of the time of all threads: if they wait for cores that long, they are to sleep
_QUIET = 0.02  # if they wait no longer than that, in as many looks in a row, they may spin again
_QUIET_LOOKS = 20
POOL = "idle pool"  # the name of a thread that owns one
_MAX_THREADS = 256  # of all pools: OpenMP ends a process that may not have as many


@contextmanager
def sleeping_if_crowded(seconds: float = _SECONDS) -> Iterator[None]:
    """Look every few `seconds` how long this process waited for cores; while that is long, its threads do not spin.

    Without effect with one thread, with few of very many cores, where the system does not tell, and if the environment
    says what threads do.
    """
    num_threads = torch.get_num_threads()
    is_decided = os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
    if num_threads == 1 or is_decided or seconds_waited_for_cores() is None:
        yield
        return
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(ended, num_threads, seconds), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(ended: threading.Event, num_threads: int, seconds: float) -> None:
    """Open idle pools when the cores are crowded, and close them when they are quiet again or all has `ended`."""
    spare = len(os.sched_getaffinity(0)) - num_threads
    num_pools = spare // (num_threads - 1) + 1  # a pool has one new thread fewer, since its owner is one of them
    if num_pools * num_threads > _MAX_THREADS:
        return
    closed = threading.Event()
    closed.set()
    quiet_looks = 0
    waited, since = seconds_waited_for_cores(), time.monotonic()
    while not ended.wait(seconds):
        before, then = waited, since
        waited, since = seconds_waited_for_cores(), time.monotonic()
        share = ((waited or 0.0) - (before or 0.0)) / (num_threads * (since - then))
        quiet_looks = quiet_looks + 1 if share < _QUIET else 0
        if share >= _CROWDED and closed.is_set():
            log.info("other programs need the cores: threads sleep while they wait for each other")
            closed = threading.Event()
            for _ in range(num_pools):
                threading.Thread(target=_own_a_pool, args=(closed,), name=POOL, daemon=True).start()
        elif quiet_looks >= _QUIET_LOOKS and not closed.is_set():
            log.info("the cores are free again: threads spin while they wait for each other")
            closed.set()
    closed.set()


def _own_a_pool(closed: threading.Event) -> None:
    torch.zeros(1_000_000).add_(1)  # enough to be done in parallel, for which OpenMP starts the pool
    closed.wait()
