"""Time `nmt --help` against `import torch`: medians of alternating runs, and their ratio.

    .venv/bin/python benchmarks/startup.py

The command line imports torch only when a model is needed, so the ratio should be well below 1.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version

RUNS = 7  # of each, after an uncounted one that fills the disk cache
COMMANDS = {
    "nmt --help": [sys.executable, "-m", "nmt", "--help"],
    'python -c "import torch"': [sys.executable, "-c", "import torch"],
}


def wall_seconds(command: list[str]) -> float:
    """Return the seconds of one run of `command`; CalledProcessError if it fails."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Run both commands alternately and print medians, ranges and their ratio."""
    for command in COMMANDS.values():
        wall_seconds(command)
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(RUNS):
        for name, command in COMMANDS.items():
            seconds[name].append(wall_seconds(command))
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "typer", "pydantic"))
    sys.stdout.write(f"Python {platform.python_version()}, {versions}; {platform.platform()}\n")
    for name, values in seconds.items():
        median, low, high = statistics.median(values), min(values), max(values)
        sys.stdout.write(f"{name:<26} median {median:.3f} s ({low:.3f} to {high:.3f}, {RUNS} runs)\n")
    ours, torch = (statistics.median(values) for values in seconds.values())
    sys.stdout.write(f"ratio {ours / torch:.2f}\n")


if __name__ == "__main__":
    main()
