"""Ctrl-C and SIGTERM ask training to finish the update, save, and stop."""

from __future__ import annotations

import signal
import sys
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """While entered, the first SIGINT or SIGTERM sets `asked`; a second SIGINT stops at once."""

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = signal.Signals(number)
        sys.stderr.write("\nstopping after this update; the state will be saved (Ctrl-C again: stop at once)\n")
