"""Run the tests as on other machines: with other instructions, numbers of threads and cores, weights and loads.

    python scripts/machines.py                        # every machine, all tests
    python scripts/machines.py avx2 busy -- tests/model  # two machines, and pytest's own arguments

Most machines are environment variables that libraries read when they start: torch (ATEN_CPU_CAPABILITY), oneDNN
(ONEDNN_MAX_CPU_ISA), MKL (MKL_ENABLE_INSTRUCTIONS) and CTranslate2 (CT2_USE_MKL, CT2_FORCE_CPU_ISA). A processor cannot
emulate instructions that it lacks. `disturbed` changes the weights of the stored models by as much as another
processor's rounding can (tests/stored.py). On `one-core`, the tests may use only one core (if the system supports
that). On `busy`, two other processes compute at the same time.

The results are in build/machines.json. A machine whose tests passed at this commit is skipped, unless there are
uncommitted changes. Exit code 1 if a test fails on any machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build" / "machines.json"
MACHINES = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "no-simd": {"ATEN_CPU_CAPABILITY": "default"},
    "onednn-avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "ct2-generic": {"CT2_USE_MKL": "0", "CT2_FORCE_CPU_ISA": "GENERIC"},
    "old-laptop": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
    },
    "one-thread": {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    "four-threads": {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"},
    "one-core": {},
    "disturbed": {"NMT_TEST_DISTURB": "1e-4"},
    "busy": {},
}


class Result(TypedDict):
    """The outcome of a run of the tests; `failed` is -1 if pytest did not get to its end."""

    commit: str
    arguments: list[str]
    passed: int
    failed: int
    seconds: int


@contextmanager
def _conditions(machine: str) -> Iterator[None]:
    """Make what the environment cannot: one core for all children, or other processes that compute."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    endless = f"import os\nwhile os.getppid() == {os.getpid()}: pass"  # until this script ends, however it ends
    others = [subprocess.Popen([sys.executable, "-c", endless]) for _ in range(2) if machine == "busy"]
    try:
        if machine == "one-core" and cores:
            os.sched_setaffinity(0, {min(cores)})
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
        for other in others:
            other.kill()
            other.wait()


def run_tests(machine: str, commit: str, arguments: list[str]) -> Result:
    """Run pytest with `arguments` on one machine."""
    report = RESULTS.with_name(f"machine-{machine}.xml")
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-n", "logical", "--dist", "loadfile", "--no-loadscope-reorder"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **MACHINES[machine]}
    started = time.perf_counter()
    with _conditions(machine):
        code = subprocess.run([*command, f"--junitxml={report}", *arguments], cwd=ROOT, env=environment).returncode
    seconds = round(time.perf_counter() - started)
    if code not in (0, 1) or not report.exists():
        return Result(commit=commit, arguments=arguments, passed=0, failed=-1, seconds=seconds)
    (suite,) = ElementTree.parse(report).getroot()
    tests, failures, errors, skipped = (int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped"))
    failed = failures + errors
    return Result(commit=commit, arguments=arguments, passed=tests - failed - skipped, failed=failed, seconds=seconds)


def _commit() -> str:
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown-dirty"


def main(words: list[str]) -> int:
    """Run the tests on the machines named before `--` (all, if none is), and return the exit code."""
    split = words.index("--") if "--" in words else len(words)
    names, arguments = words[:split] or list(MACHINES), words[split + 1 :]
    if unknown := [name for name in names if name not in MACHINES]:
        sys.stderr.write(f"no such machine: {', '.join(unknown)}; there are {', '.join(MACHINES)}\n")
        return 2
    commit = _commit()
    RESULTS.parent.mkdir(exist_ok=True)
    results: dict[str, Result] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in names:
        before = results.get(name)
        known = before is not None and (before["commit"], before["arguments"]) == (commit, arguments)
        if before and known and before["failed"] == 0 and not commit.endswith("-dirty"):
            continue
        sys.stdout.write(f"== {name}: {' '.join(f'{key}={value}' for key, value in MACHINES[name].items())}\n")
        sys.stdout.flush()
        results[name] = run_tests(name, commit, arguments)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"\n{'machine':<14}{'passed':>8}{'failed':>8}{'seconds':>9}\n")
    for name in names:
        result = results[name]
        sys.stdout.write(f"{name:<14}{result['passed']:>8}{result['failed']:>8}{result['seconds']:>9}\n")
    return 1 if any(results[name]["failed"] for name in names) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
