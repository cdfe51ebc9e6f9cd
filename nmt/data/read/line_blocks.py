"""Group lines into blocks as they arrive: small blocks first, for a quick answer, larger ones while lines queue up."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from threading import Condition, Thread

FIRST_BLOCK_LINES = 16
MAX_BLOCK_LINES = 1024
MAX_BLOCK_CHARACTERS = 1 << 20
READ_AHEAD_LINES = 256
READ_AHEAD_CHARACTERS = 1 << 20
PATIENCE_SECONDS = 0.005  # the maximum time that a line waits for others to join its block


def whole_blocks(num_lines: int) -> int:
    """Return how many of the first `num_lines` lines fill whole blocks of `grow_blocks`."""
    done = 0
    while (size := _size_after(done)) <= num_lines - done:
        done += size
    return done


def _size_after(num_done: int) -> int:
    return min(num_done + FIRST_BLOCK_LINES, MAX_BLOCK_LINES)


def grow_blocks(lines: Iterable[str], num_done: int = 0) -> Iterator[list[str]]:
    """Yield `lines`, all of which are available, in blocks of 16, 32, … 1,024 lines; fewer if they are very long.

    After `num_done` lines in whole blocks, the blocks are those that all lines would have: PyTorch's last digits depend
    on what is computed together.
    """
    limit = _size_after(num_done)
    block: list[str] = []
    characters = 0
    for line in lines:
        block.append(line)
        characters += len(line)
        if len(block) == limit or characters >= MAX_BLOCK_CHARACTERS:
            yield block
            block = []
            characters = 0
            limit = min(2 * limit, MAX_BLOCK_LINES)
    if block:
        yield block


def read_blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield blocks like `grow_blocks`, from a source that may be slow: no line waits longer than `PATIENCE_SECONDS`.

    A thread reads up to 256 lines ahead. An exception in the source is raised here, after the lines before it.
    """
    queue = _ReadAhead(lines)
    limit = FIRST_BLOCK_LINES
    try:
        while block := queue.take(limit):
            yield block
            if len(block) == limit:
                limit = min(2 * limit, MAX_BLOCK_LINES)
    finally:
        queue.close()


class _ReadAhead:
    """Reads lines ahead in a separate thread, up to `READ_AHEAD_LINES` or `READ_AHEAD_CHARACTERS`."""

    def __init__(self, lines: Iterable[str]):
        self._lines = lines
        self._waiting: deque[str] = deque()
        self._characters = 0
        self._changed = Condition()
        self._ended = False  # there are no more lines, or nobody wants them
        self._fault: BaseException | None = None
        # A daemon thread, so that a source that blocks forever cannot keep the program alive.
        Thread(target=self._read, name="read-ahead", daemon=True).start()

    def take(self, limit: int) -> list[str]:
        """Return up to `limit` lines, at least one; an empty list at the end."""
        block: list[str] = []
        characters = 0
        deadline = None
        with self._changed:
            while len(block) < limit and characters < MAX_BLOCK_CHARACTERS:
                self._changed.wait_for(lambda: self._waiting or self._ended, deadline and deadline - time.monotonic())
                if not self._waiting:
                    break
                block.append(self._waiting.popleft())
                characters += len(block[-1])
                self._characters -= len(block[-1])
                self._changed.notify_all()
                deadline = deadline or time.monotonic() + PATIENCE_SECONDS
            if not block and self._fault is not None:
                raise self._fault
        return block

    def close(self) -> None:
        """Make the thread stop after the line that it is reading."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read(self) -> None:
        try:
            for line in self._lines:
                with self._changed:
                    self._waiting.append(line)
                    self._characters += len(line)
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._ended or not self._is_full())
                    if self._ended:
                        return
        except BaseException as error:
            self._fault = error
        finally:
            self.close()

    def _is_full(self) -> bool:
        return len(self._waiting) >= READ_AHEAD_LINES or self._characters >= READ_AHEAD_CHARACTERS
