"""Shared by the benchmarks: options, cores, worker processes, alternation, medians, tables and their JSON."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent


class WorkerError(Exception):
    """A system could not be measured; the message is the end of its output."""


@dataclass
class Contender:
    """A table row: a system in one precision, and a function that measures it once."""

    system: str
    precision: str
    measure: Callable[[], dict[str, Any]]
    setting: dict[str, Any] = field(default_factory=dict)
    results: list[dict[str, Any]] = field(default_factory=list)
    fault: str = ""

    @property
    def name(self) -> str:
        """The name for progress messages."""
        setting = " ".join(f"{key}={value}" for key, value in self.setting.items())
        return f"{self.system} {self.precision}{' (' + setting + ')' if setting else ''}"


def names(text: str) -> list[str]:
    """Split a comma-separated list of names."""
    return [name.strip() for name in text.split(",")]


def make_parser(description: str | None, systems: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser with the options that the benchmarks share."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0] if description else None)
    parser.add_argument("--systems", type=names, help="of " + ", ".join(systems))
    parser.add_argument("--repeats", type=int, help="measurements of each, alternating (3)")
    parser.add_argument("--threads", type=int, default=0, help="cores for each system (0: all available)")
    parser.add_argument("--json", type=Path, help="file for the result")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "bench", help="folder for data and runs")
    parser.add_argument("--envs", type=Path, help="folder of the peers' environments (CACHE/envs)")
    parser.add_argument("--quick", action="store_true", help="run for seconds on a tiny model, to check that it works")
    return parser


def claim_machine(num_threads: int) -> tuple[int, dict[str, Any]]:
    """Restrict this process and its workers to `num_threads` cores (0: all); return their number and `machine`."""
    end_workers_on_sigterm()
    threads = use_cores(num_threads)
    facts = machine(threads)
    warn_of_load(facts)
    return threads, facts


def show_faults(faults: dict[str, str]) -> None:
    """Print the systems that could not be measured, each with the last line of its error."""
    for name, fault in faults.items():
        sys.stdout.write(f"not measured: {name}: {fault.splitlines()[-1]}\n")


def say(line: str) -> None:
    """Print a progress line to standard error; standard output is for the tables."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def use_cores(count: int) -> int:
    """Restrict this process and its children to `count` cores (0: no restriction); return the number of cores.

    This makes the number of threads equal even for systems that count the cores themselves.
    """
    if not hasattr(os, "sched_getaffinity"):
        return count or os.cpu_count() or 1
    cores = sorted(os.sched_getaffinity(0))
    if count > len(cores):
        raise SystemExit(f"--threads {count}: this process may only use {len(cores)} cores")
    if count:
        os.sched_setaffinity(0, cores[:count])
    return count or len(cores)


def end_workers_on_sigterm() -> None:
    """Let SIGTERM unwind this process like Ctrl-C, so that no worker outlives it."""

    def unwind(number: int, frame: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, unwind)


def clean_environment(threads: int | None = None) -> dict[str, str]:
    """Return the environment of a worker: offline, `threads` for every thread pool (None: the system's default)."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    if threads is not None:
        environment |= {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    return environment | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}


def foreign_environment(threads: int) -> dict[str, str]:
    """Return `clean_environment` for a Python that must not see nmt."""
    return {name: value for name, value in clean_environment(threads).items() if name != "PYTHONPATH"}


def run_worker(command: Sequence[str | Path], environment: dict[str, str], timeout: float) -> dict[str, Any]:
    """Run a program that prints a JSON object as its last line, and return the object. WorkerError if it fails."""
    process = subprocess.Popen(
        [str(part) for part in command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # including its children
        _, err = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise WorkerError(f"no result after {timeout:.0f} s; output:\n{tail(err)}") from None
        raise
    if process.returncode or not out.strip():
        raise WorkerError(f"exit code {process.returncode}; output:\n{tail(err or out)}")
    return json.loads(out.splitlines()[-1])


def tail(text: str) -> str:
    """Return the last lines of `text`."""
    return "\n".join(text.strip().splitlines()[-15:])


def measure_once(contender: Contender) -> None:
    """Measure `contender` once and store the result or the error."""
    say(f"  {contender.name} ...")
    try:
        contender.results.append(contender.measure())
    except WorkerError as error:
        contender.fault = str(error)
        say(f"  {contender.name}: not measured: {error}")


def take_turns(contenders: Iterable[Contender], repeats: int) -> None:
    """Measure all alternately, A B C A B C, so that slow phases of the machine affect all; drop those that fail."""
    contenders = list(contenders)
    for repeat in range(repeats):
        say(f"repeat {repeat + 1} of {repeats}")
        for contender in contenders:
            if not contender.fault:
                measure_once(contender)


def spread(values: Sequence[float], digits: int = 1) -> dict[str, Any]:
    """Return the median, the minimum and the maximum of `values`, and the values."""
    rounded = [round(value, digits) for value in values]
    median = round(statistics.median(values), digits)
    return {"median": median, "min": min(rounded), "max": max(rounded), "repeats": rounded}


def ratio(value: float, base: float | None) -> float | None:
    """Return `value` / `base`; None if there is no base."""
    return round(value / base, 2) if base else None


def table(rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> str:
    """Format `rows` as aligned text; `columns` has the heading of each field."""
    cells = [list(columns.values()), *([_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "".join(line.rstrip() + "\n" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return " ".join(f"{key}={inner}" for key, inner in value.items()) or "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
    return str(value)


def command_line() -> str:
    """Return the command that runs this program from the root of the checkout."""
    program = Path(sys.argv[0]).resolve()
    root = ROOT.resolve()
    shown = program.relative_to(root).as_posix() if program.is_relative_to(root) else program.name
    return shlex.join(["python", shown, *sys.argv[1:]])


def machine(threads: int) -> dict[str, Any]:
    """Return the facts that figures depend on: processor, cores in use, load, versions, commit."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    return {
        "processor": _processor(),
        "cores_of_machine": os.cpu_count(),
        "threads": threads,
        "load_before": round(os.getloadavg()[0], 2),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "commit": commit or None,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def warn_of_load(facts: dict[str, Any]) -> None:
    """Warn if other processes would distort the figures."""
    if facts["load_before"] > 0.5:
        say(f"warning: the machine is not idle (load {facts['load_before']}): the figures will be unreliable")


def keep(path: Path | None, result: dict[str, Any]) -> None:
    """Write the result as JSON if a file is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        say(f"saved in {path}")
