"""Check the chunks of a large corpus in several processes."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.resource_tracker import ensure_running

from nmt.base.errors import NmtError
from nmt.data.check.checker import Checked, Checker, texts_of
from nmt.data.check.profile import Expectations
from nmt.data.read.pairs import SentencePair

_IN_FLIGHT = 2  # chunks per process


def check_in_processes(
    chunks: Iterable[list[SentencePair]], expected: Expectations, wanted: Collection[str], workers: int
) -> Iterator[tuple[list[SentencePair], Checked]]:
    """Yield each of `chunks` with its result, in order, from `workers` processes. NmtError if one is killed."""
    # Spawn on every system: forking a process with threads, such as torch's, may hang.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker, initargs=(expected, wanted))
    pending: deque[tuple[list[SentencePair], Future[Checked]]] = deque()
    try:
        for chunk in chunks:
            with _deaf_to_ctrl_c():  # for the processes that this starts, which inherit it
                pending.append((chunk, pool.submit(_check_chunk, *texts_of(chunk))))
            if len(pending) >= _IN_FLIGHT * workers:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    except BrokenProcessPool:
        raise NmtError(
            "a process that checks the corpus was killed",
            hint="it may have run out of memory; try one process: --set training.threads=1",
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Block SIGINT in this thread and in processes that it starts: Ctrl-C is the parent's to handle."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    ensure_running()  # the process that tracks semaphores; starting it unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: list[Checker] = []  # of this process, if it is one of the pool's


def _start_worker(expected: Expectations, wanted: Collection[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    parent = parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    # A worker waits for work on a pipe that it holds open itself, so it would outlive a parent that was killed.
    threading.Thread(target=end_with_parent, daemon=True).start()
    _worker.append(Checker(expected, wanted))


def _check_chunk(src: list[str], tgt: list[str]) -> Checked:
    return _worker[0].check(src, tgt)
