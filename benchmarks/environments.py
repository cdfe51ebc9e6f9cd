"""Create a separate virtual environment for each peer, so that none shares packages with nmt or another peer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import HERE, WorkerError, say, tail

REQUIREMENTS = HERE / "peers" / "requirements"


def python_of(system: str, folder: Path) -> Path:
    """Return the Python of `system`'s environment in `folder`; create the environment if it is missing or outdated.

    WorkerError if pip cannot install it.
    """
    wanted = REQUIREMENTS / f"{system}.txt"
    place = folder.resolve() / system
    python, stamp = place / "bin" / "python", place / ".installed"
    if stamp.is_file() and stamp.read_bytes() == wanted.read_bytes():
        return python
    say(f"installing {system} into {place}")
    _run([sys.executable, "-m", "venv", "--clear", str(place)])
    packages = wanted.read_text(encoding="utf-8").splitlines()
    torch = [line for line in packages if line.startswith("torch==")]
    built = [line.split()[0] for line in packages if line.endswith("# built here")]
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    if torch:
        _run([*pip, *torch])  # with the dependencies of its build for this machine
    # All other packages are listed with their versions; some would reject a torch as new as nmt's.
    _run([*pip, "--no-deps", *(line for line in packages if line not in torch and not line.endswith("# built here"))])
    if built:
        _run([*pip, "--no-deps", "--no-build-isolation", *built])
    stamp.write_bytes(wanted.read_bytes())
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise WorkerError(tail(done.stderr))
