"""A disk without room, as far as the operating system can pretend it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def no_room_for(num_bytes: int) -> Iterator[None]:
    """Let no file grow over `num_bytes` inside the block."""
    resource = pytest.importorskip("resource")  # not on Windows
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
