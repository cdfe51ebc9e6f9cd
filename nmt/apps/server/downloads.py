"""Keep translated documents in memory until they expire."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple
from uuid import uuid4

_SECONDS = 600.0
_MAX_BYTES = 100_000_000  # of all documents; the oldest are dropped


class Download(NamedTuple):
    """A document, and the time of its translation."""

    name: str
    content: bytes
    time: float


class Downloads:
    """Documents by keys that nobody can guess."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._kept: OrderedDict[str, Download] = OrderedDict()

    def add(self, name: str, content: bytes) -> str:
        """Keep a document for ten minutes; return its key."""
        self._forget()
        key = uuid4().hex
        self._kept[key] = Download(name, content, self._clock())
        while len(self._kept) > 1 and sum(len(each.content) for each in self._kept.values()) > _MAX_BYTES:
            self._kept.popitem(last=False)
        return key

    def find(self, key: str) -> Download | None:
        """Return the document; None if it does not exist or has expired."""
        self._forget()
        return self._kept.get(key)

    def _forget(self) -> None:
        while self._kept and self._clock() - next(iter(self._kept.values())).time > _SECONDS:
            self._kept.popitem(last=False)
