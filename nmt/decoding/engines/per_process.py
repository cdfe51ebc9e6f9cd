"""Values that own threads. A forked process does not inherit threads, so each process creates its own value."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

Value = TypeVar("Value")
_instances: WeakSet[PerProcess[Any]] = WeakSet()


class PerProcess(Generic[Value]):
    """A value that is created on first use, once per process; several threads may ask for it at once.

    Web servers may load a model and then fork (gunicorn --preload). In the child, an inherited thread pool or
    CTranslate2 model would wait forever for threads that do not exist there, even on deletion.
    """

    def __init__(self, make: Callable[[], Value]):
        self._make = make
        self._value: Value | None = None
        self._lock = threading.Lock()
        _instances.add(self)

    def get(self) -> Value:
        """Return this process's value."""
        value = self._value
        if value is None:
            with self._lock:
                value = self._value = self._make() if self._value is None else self._value
        return value

    def take(self) -> Value | None:
        """Return the value, if it exists, and forget it."""
        with self._lock:
            value, self._value = self._value, None
        return value

    def forget_inherited(self) -> None:
        """Forget the parent's value in a forked child, without ever deleting it."""
        if self._value is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._value))
        self._value, self._lock = None, threading.Lock()


def _forget_inherited() -> None:
    for instance in list(_instances):
        instance.forget_inherited()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_inherited)
