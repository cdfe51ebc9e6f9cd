"""The threads of an engine. A forked process does not inherit threads, so each process starts its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_pools: WeakSet[Threads] = WeakSet()


class Threads:
    """Threads that `start` starts on first use, once per process; several threads may ask for them at once.

    Web servers may load a model and then fork (gunicorn --preload). In the child, the parent's pool would wait forever
    for threads that do not exist there.
    """

    def __init__(self, start: Callable[[], ThreadPoolExecutor]):
        self._start = start
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        _pools.add(self)

    def get(self) -> ThreadPoolExecutor:
        """Return this process's pool."""
        with self._lock:
            if self._pool is None:
                self._pool = self._start()
            return self._pool

    def close(self) -> None:
        """Stop the threads; the next `get` starts new ones."""
        with self._lock:
            pool = self._pool
            self._pool = None
        if pool is not None:
            pool.shutdown()

    def forget(self) -> None:
        """Forget a pool that a forked process inherited, and its lock, which may be held."""
        self._pool = None
        self._lock = threading.Lock()


def _forget_inherited() -> None:
    for pool in list(_pools):
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_inherited)
