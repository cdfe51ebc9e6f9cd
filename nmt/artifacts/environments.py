"""Separate virtual environments, in the cache, for programs whose dependencies conflict with those of nmt.

An environment appears under its final name only after everything is installed and can be imported. If two processes
need the same environment, one creates it and the other waits.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nmt.artifacts.cachedir import cache_folder, into_cache
from nmt.base.errors import NmtError
from nmt.base.locks import try_lock

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_SHOWN = ("Downloading ", "Installing collected packages")  # lines of pip's output that show its progress
_LAST_LINES = 20
_LEADING_HERE = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class Environment(NamedTuple):
    """A virtual environment with `requirements` in pip's syntax; `modules` must be importable in it."""

    name: str  # includes the version of the program: comet-2.2.7
    requirements: Sequence[str]
    modules: Sequence[str]

    @property
    def folder(self) -> Path:
        """The folder of the environment in the cache, a separate one for each Python version."""
        return cache_folder() / "environments" / f"{self.name}-py{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def python(self) -> Path:
        """The path of the environment's Python interpreter."""
        return _python(self.folder)

    def is_made(self) -> bool:
        """Return whether the environment exists."""
        return self.folder.is_dir()

    def make(self) -> None:
        """Create the environment if it does not exist. NmtError if pip fails or a module cannot be imported."""
        with _alone(self.folder):
            if not self.is_made():
                with into_cache(self.folder) as partial:
                    self._fill(partial)

    def _fill(self, folder: Path) -> None:
        """Install everything into `folder`, and check that the modules can be imported."""
        # In a subprocess: venv depends on the running interpreter, which may be in a virtual environment itself.
        _run([sys.executable, "-I", "-m", "venv", str(folder)], "cannot create a virtual environment")
        python, options = str(_python(folder)), ["--no-input", "--disable-pip-version-check"]
        _run(
            [python, "-I", "-m", "pip", "install", *options, *self.requirements],
            f"cannot install {self.requirements[0]}",
        )
        _run([python, "-I", "-W", "ignore", "-c", f"import {', '.join(self.modules)}"], f"{self.name} does not start")


def clean_environment() -> Mapping[str, str]:
    """Return the environment variables for another environment's Python, without those that point into this one."""
    return {name: value for name, value in os.environ.items() if name not in _LEADING_HERE}


def _python(folder: Path) -> Path:
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock beside `folder`; wait while another process holds it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        hint = "set $NMT_CACHE to another folder for the cache"
        raise NmtError(f"cannot be written to ({error.strerror})", path=folder.parent, hint=hint) from None
    try:
        if not try_lock(descriptor):
            log.info("another process is creating %s; waiting for it", folder)
            while not try_lock(descriptor):
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _run(command: Sequence[str], failure: str) -> None:
    """Run a command and log pip's progress. NmtError with the last line of its output if it fails."""
    lines = list[str]()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=clean_environment(),
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in map(str.strip, process.stdout):
            lines = [*lines[1 - _LAST_LINES :], line] if line else lines
            if line.startswith(_SHOWN):
                log.info(line if len(line) < 100 else f"{line[:99]}…")
    if process.returncode != 0:
        raise NmtError(f"{failure}: {_last_words(lines, process.returncode)}", hint=_hint(lines))


def _last_words(lines: Sequence[str], code: int) -> str:
    """Return pip's last error message, else the last line of output."""
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines[-1:] or [f"exit code {code}"])[-1][:500]


def _hint(lines: Sequence[str]) -> str:
    said = "\n".join(lines)
    if "ensurepip" in said:
        return "install your system's package for Python's venv module, such as python3-venv"
    if "torch" in said and "No matching distribution" in said:
        return (
            "the environment needs the same PyTorch build that nmt runs with: set $PIP_EXTRA_INDEX_URL to the package "
            "index it came from"
        )
    return "nothing was installed; check your network connection and free disk space, and try again"
