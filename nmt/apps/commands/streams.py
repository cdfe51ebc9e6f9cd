"""Make standard input, output and error robust (closed, broken, full, in another encoding); end on signals."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Literal, TextIO, cast

import typer

from nmt.base.errors import NmtError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

STANDARD_INPUT, STANDARD_OUTPUT, STANDARD_ERROR = 0, 1, 2


class StandardError(io.TextIOWrapper):
    """Standard error that never fails: output that cannot be written (full disk, closed pipe) is dropped.

    Characters that its encoding does not have are written as escapes.
    """

    def __init__(self, stream: TextIO):
        """Write to the buffer of `stream`, which stays open as long as this one."""
        super().__init__(stream.buffer, stream.encoding, errors="backslashreplace", line_buffering=True)
        self._stream = stream  # if it were collected, it would close the buffer

    def write(self, text: str) -> int:
        """Write `text` if possible."""
        try:
            return super().write(text)
        except (OSError, ValueError):  # ValueError: closed
            return len(text)

    def flush(self) -> None:
        """Flush if possible."""
        with suppress(OSError, ValueError):
            super().flush()


def prepare_streams() -> None:
    """Make the three streams usable, whatever state the parent process left them in. Call before opening any file.

    Closed streams are opened on the null device. Otherwise the next file that the program opens would get the file
    descriptor of a stream, and receive its output. `read_standard_input` and `print_text` report a closed stream as
    an error; output to a closed standard error is dropped.
    """
    sys.stdin = sys.stdin or _open_closed(STANDARD_INPUT, os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _open_closed(STANDARD_OUTPUT, os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _open_closed(STANDARD_ERROR, os.O_WRONLY, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="replace")
        else:  # translations are UTF-8 with LF on every system, like the texts
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    if isinstance(sys.stderr, io.TextIOWrapper) and not isinstance(sys.stderr, StandardError):
        sys.stderr = StandardError(sys.stderr)


def _open_closed(descriptor: int, flags: int, mode: Literal["r", "w"]) -> TextIO:
    """Open the null device at the closed `descriptor`, in the wrong direction, so that using it fails."""
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    os.set_inheritable(descriptor, True)
    return cast(TextIO, open(descriptor, mode, encoding="utf-8", closefd=False))


def print_text(text: str) -> None:
    """Print `text` and a newline to standard output, and flush. NmtError if it cannot be written.

    If the reader closed the pipe, as `head` does, the command ends without an error.
    """
    with standard_output() as file:
        file.write(text + "\n")


class _Terminal:
    r"""Standard output, if it is a terminal: control characters but tabs and line feeds are shown as `\x1b`.

    A translation may contain any character of its model's vocabulary, terminal sequences included.
    """

    def write(self, text: str) -> int:
        return sys.stdout.write(_CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text))

    def flush(self) -> None:
        sys.stdout.flush()


@contextmanager
def standard_output() -> Iterator[IO[str]]:
    """Yield standard output; writing or flushing fails as in `print_text`."""
    try:
        yield cast(IO[str], _Terminal()) if sys.stdout.isatty() else sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        raise typer.Exit from None
    except OSError as error:
        if error.filename is not None:  # another file
            raise
        discard_output()
        raise NmtError(f"cannot write to standard output ({error.strerror or error})") from None


def discard_output() -> None:
    """Redirect standard output to the null device, so that the flush at exit does not fail."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class Stopped(KeyboardInterrupt):
    """SIGTERM, raised in the main thread."""


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise Stopped, as Ctrl-C raises KeyboardInterrupt; an ignored signal stays ignored."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the cleanup after the first
        raise Stopped

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def exit_code_of(stop: KeyboardInterrupt) -> int:
    """Return the exit code that shells report for a process ended by a signal: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (signal.SIGTERM if isinstance(stop, Stopped) else signal.SIGINT)
