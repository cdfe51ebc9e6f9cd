"""Ctrl-C and SIGTERM ask training to finish the update, save, and stop."""

from __future__ import annotations

import signal
import sys
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """While entered, SIGINT and SIGTERM stop what is done: at once, until `defer` is called, and after the update then.

    To stop at once is a KeyboardInterrupt. After `defer` the first signal sets `asked`; a second SIGINT stops at once.
    """

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None
        self.deferred = False
        self._before: dict[signal.Signals, object] = {}

    @property
    def exit_code(self) -> int:
        """As a shell reports a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.asked or signal.SIGINT)

    def defer(self) -> None:
        """From here on there is something to save."""
        self.deferred = True

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before.setdefault(number, signal.signal(number, self._ask))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        again = self.asked is not None
        self.asked = signal.Signals(number)
        if not self.deferred or (again and number == signal.SIGINT):
            raise KeyboardInterrupt
        if not again:
            sys.stderr.write("\nstopping after this update; the state will be saved (Ctrl-C again: stop at once)\n")
