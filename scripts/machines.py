"""Run the numerical tests as on other machines: without AVX-512, AVX2 or MKL, on one core, with four threads.

    python scripts/machines.py                              # every machine, the tests named in TESTS
    python scripts/machines.py avx2 generic -- tests/model  # two machines, and pytest's own arguments

Each machine is a set of environment variables that libraries read when they start: torch (ATEN_CPU_CAPABILITY),
oneDNN (ONEDNN_MAX_CPU_ISA), MKL (MKL_ENABLE_INSTRUCTIONS) and CTranslate2 (CT2_USE_MKL, CT2_FORCE_CPU_ISA). A
processor cannot emulate instructions that it lacks. On `one-core`, the tests may use only one core (if the system
supports that); on `four-threads`, every library uses four threads. Exit code 1 if a test fails on any machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
MACHINES = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "no-simd": {"ATEN_CPU_CAPABILITY": "default"},
    "onednn-avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "mkl-avx2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "ct2-no-mkl": {"CT2_USE_MKL": "0"},
    "ct2-avx2": {"CT2_FORCE_CPU_ISA": "AVX2"},
    "ct2-generic": {"CT2_FORCE_CPU_ISA": "GENERIC"},
    "old-laptop": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
    },
    "one-core": {},
    "four-threads": {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"},
}
ENGINE_TESTS = ["tests/engines", "tests/interop"]
TESTS = ["tests/model", "tests/decoding", *ENGINE_TESTS, "tests/translate", "tests/training"]


def run_tests(machine: str, arguments: list[str]) -> bool:
    """Run pytest on one machine with `arguments`, or on the tests that the machine's variables can change."""
    variables = MACHINES[machine]
    only_engines = bool(variables) and all(name.startswith("CT2_") for name in variables)
    arguments = arguments or (ENGINE_TESTS if only_engines else TESTS)
    setting = " ".join(f"{name}={value}" for name, value in variables.items())
    sys.stdout.write(f"== {machine}: {setting}\n")
    sys.stdout.flush()
    started = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-n", "logical", "--dist", "loadfile", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    passed = _run(command, environment, one_core=machine == "one-core") == 0
    sys.stdout.write(f"== {machine}: {'passed' if passed else 'FAILED'}, {time.perf_counter() - started:.0f} s\n")
    return passed


def _run(command: list[str], environment: dict[str, str], *, one_core: bool) -> int:
    """Run a command, on one of the cores of this process if `one_core`, and return its exit code."""
    if not (one_core and hasattr(os, "sched_setaffinity")):
        return subprocess.run(command, cwd=ROOT, env=environment).returncode
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # children inherit it
    try:
        return subprocess.run(command, cwd=ROOT, env=environment).returncode
    finally:
        os.sched_setaffinity(0, cores)


def main(words: list[str]) -> int:
    """Run the tests on the machines named before `--` (all, if none is), and return the exit code."""
    split = words.index("--") if "--" in words else len(words)
    names, arguments = words[:split] or list(MACHINES), words[split + 1 :]
    if unknown := [name for name in names if name not in MACHINES]:
        sys.stderr.write(f"no such machine: {', '.join(unknown)}; there are {', '.join(MACHINES)}\n")
        return 2
    failed = [name for name in names if not run_tests(name, arguments)]
    sys.stdout.write(f"failed on: {', '.join(failed)}\n" if failed else f"passed on all {len(names)} machines\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
