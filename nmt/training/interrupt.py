"""Handle Ctrl-C and SIGTERM: finish the update, save, and stop."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, Self

log = logging.getLogger(__name__)


class Interrupt:
    """A context in which SIGINT and SIGTERM stop the work: at once before `defer`, after it at the end of the update.

    To stop at once, they raise KeyboardInterrupt. After `defer`, the first signal sets `requested`, and a second SIGINT
    stops at once. A context may be entered again inside itself.
    """

    def __init__(self) -> None:
        self.requested: signal.Signals | None = None
        self.deferred = False
        self._before: dict[signal.Signals, Any] = {}
        self._depth = 0

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a process killed by a signal: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.requested or signal.SIGINT)

    def defer(self) -> None:
        """From now on, finish the update before stopping, because there is something to save."""
        self.deferred = True

    def __enter__(self) -> Self:
        self._depth += 1
        # Python handles signals only in the main thread.
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exception: object) -> None:
        self._depth -= 1
        for number, handler in self._before.items() if not self._depth else ():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        is_second = self.requested is not None
        self.requested = signal.Signals(number)
        if not self.deferred or (is_second and number == signal.SIGINT):
            raise KeyboardInterrupt
        if not is_second:
            # A signal may arrive while a message is being written, or after the terminal was closed.
            with suppress(OSError, RuntimeError, ValueError):
                how = "the state will be saved (press Ctrl-C again to stop at once)"
                log.info(f"stopping after this update or validation; {how}")
