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

from nmt.base.machine import seconds_waited

log = logging.getLogger(__name__)

# All chosen by hand. A thread that spins waits for a core in 50 to 85% of the time on a busy machine, on a quiet one in
# less than 1%. Only the training's own thread is asked: while it validates, others of this process crowd the cores.
_SECONDS = 1.0  # between two looks
_CROWDED = 0.2  # of the time: if it waits that long, threads are to sleep
_QUIET = 0.02  # if it waits no longer than that, in as many looks in a row, they may spin again
_QUIET_LOOKS = 5  # more would cost more than a second or two of spinning when somebody comes back
POOL = "idle pool"  # the name of a thread that owns one
_MAX_THREADS = 256  # of all pools: OpenMP ends a process that may not have as many


@contextmanager
def sleeping_if_crowded(seconds: float = _SECONDS) -> Iterator[None]:
    """Look every few `seconds` how long this thread waited for a core; while that is long, torch's do not spin.

    Without effect with one thread, with few of very many cores, where the system does not tell, and if the environment
    says what threads do.
    """
    num_threads = torch.get_num_threads()
    is_decided = os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
    this = threading.get_native_id()
    if num_threads == 1 or is_decided or seconds_waited(this) is None:
        yield
        return
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(ended, this, num_threads, seconds), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(ended: threading.Event, thread: int, num_threads: int, seconds: float) -> None:
    """Open idle pools when `thread` has to wait for cores, and close them when it has not or all has `ended`."""
    spare = len(os.sched_getaffinity(0)) - num_threads
    num_pools = spare // (num_threads - 1) + 1  # a pool has one new thread fewer, since its owner is one of them
    if num_pools * num_threads > _MAX_THREADS:
        return
    closed = threading.Event()
    closed.set()
    quiet_looks = 0
    waited, since = seconds_waited(thread), time.monotonic()
    while not ended.wait(seconds):
        before, then = waited, since
        waited, since = seconds_waited(thread), time.monotonic()
        if waited is None or before is None:
            continue
        share = (waited - before) / (since - then)
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
