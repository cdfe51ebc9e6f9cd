"""The script `nmt`, and `python -m nmt`: run the command line, which takes a moment to import."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Run the command line and exit. While it is imported, Ctrl-C, SIGTERM or a lack of memory ends it in one line."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # looking for plugins takes 10 ms; nmt uses none
    # Hardly anything that a start allocates, some 55,000 objects, can be freed. Looking at it takes 10 ms,
    gc.set_threshold(100_000, 20, 50)
    atexit.register(gc.freeze)  # and 20 ms at the end, when the process frees everything anyway
    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: signal.signal(number, _end) for number in _ENDING if signal.getsignal(number) in usual}
    try:
        from nmt.apps.cli import main as run
    except MemoryError:
        sys.exit("error: there is not enough memory")
    for number, handler in before.items():
        signal.signal(number, handler)
    run()


def _end(number: int, frame: FrameType | None) -> None:
    """End the process at once: there is nothing to clean up, and an exception might be lost inside an import."""
    os.write(2, b"stopped\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
