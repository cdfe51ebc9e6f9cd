"""Virtual environments of their own, for programs whose packages clash with those of nmt; made in the cache.

An environment appears under its name when all of it is installed and can be imported. Two processes that want the same
one make it once: the second waits.
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

from nmt.cachedir import cache_folder, into_cache
from nmt.errors import NmtError
from nmt.locks import try_lock

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_SHOWN = ("Downloading ", "Installing collected packages")  # lines of pip that say how far it is
_LAST_LINES = 20
_LEADING_HERE = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class Environment(NamedTuple):
    """A virtual environment with `requirements`, as pip reads them; `modules` must be importable in it."""

    name: str  # with the version of the program: comet-2.2.7
    requirements: Sequence[str]
    modules: Sequence[str]

    @property
    def folder(self) -> Path:
        """The folder of the environment in the cache; each version of Python has its own."""
        return cache_folder() / "environments" / f"{self.name}-py{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def python(self) -> Path:
        """The environment's Python."""
        return _python(self.folder)

    def is_made(self) -> bool:
        """Return whether the environment is there."""
        return self.folder.is_dir()

    def make(self) -> None:
        """Make the environment, unless it is there. NmtError if pip fails, or if a module cannot be imported then."""
        with _alone(self.folder):
            if not self.is_made():
                with into_cache(self.folder) as partial:
                    self._fill(partial)

    def _fill(self, folder: Path) -> None:
        """Install everything into `folder`, and try it."""
        # As a program: venv decides by the running interpreter, which may be that of another virtual environment.
        _run([sys.executable, "-I", "-m", "venv", str(folder)], "cannot make a virtual environment")
        python, options = str(_python(folder)), ["--no-input", "--disable-pip-version-check"]
        _run(
            [python, "-I", "-m", "pip", "install", *options, *self.requirements],
            f"cannot install {self.requirements[0]}",
        )
        _run([python, "-I", "-W", "ignore", "-c", f"import {', '.join(self.modules)}"], f"{self.name} does not start")


def clean_environment() -> Mapping[str, str]:
    """Return the environment variables for a Python of another environment: without those that lead into this one."""
    return {name: value for name, value in os.environ.items() if name not in _LEADING_HERE}


def _python(folder: Path) -> Path:
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock beside `folder`; wait as long as another process holds it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        hint = "name another folder in $NMT_CACHE"
        raise NmtError(f"cannot be written to ({error.strerror})", path=folder.parent, hint=hint) from None
    try:
        if not try_lock(descriptor):
            log.info("another process makes %s; waiting for it", folder)
            while not try_lock(descriptor):
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _run(command: Sequence[str], failure: str) -> None:
    """Run a step; log how far pip is. NmtError, with the program's own last words, if it fails."""
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
    """Return pip's last error, else the last line."""
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines[-1:] or [f"exit code {code}"])[-1][:500]


def _hint(lines: Sequence[str]) -> str:
    said = "\n".join(lines)
    if "ensurepip" in said:
        return "install the package of your system that gives Python its module venv, such as python3-venv"
    if "torch" in said and "No matching distribution" in said:
        return (
            "nmt asks for the build of PyTorch that it runs with itself: name the index that it came from in "
            "$PIP_EXTRA_INDEX_URL"
        )
    return "nothing was kept; check the network and the space on the disk, and try again"
