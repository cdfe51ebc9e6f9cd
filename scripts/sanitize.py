"""Build the native decoder with AddressSanitizer and UndefinedBehaviorSanitizer, test it and fuzz it.

    python scripts/sanitize.py                    # the tests of the native engine, 60 s of fuzzing it, and 15 s
                                                  # of fuzzing the decoder of web pages; a leak check
    python scripts/sanitize.py --seconds 600      # fuzz for longer
    python scripts/sanitize.py --quick            # only 2 s of fuzzing; reuses an up-to-date build

Needs GCC or Clang on Linux. Builds a copy of the package with the instrumented extension in build/sanitize and does not
touch the installed one. Exit code 1 if a test fails, or if a sanitizer finds an error in the C code. The report shows
the line and, for the fuzzer, the seed and case to repeat.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "sanitize"
COMPILER = shlex.split(os.environ.get("CC", "gcc"))
# Overflowing conversions from floats are also undefined, but not included in `undefined`.
SANITIZERS = "-fsanitize=address,undefined,float-cast-overflow"
# With AVX_VNNI_BY_AVX512, processors with AVX-512 run the kernel avx-vnni too.
DEFINES = ["-DAVX_VNNI_BY_AVX512"]
FLAGS = ["-O1", "-g1", "-fPIC", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror"]
WEB = COPY / "libweb.so"
"""The decoder of exported web pages, for this machine."""
TEST = "tests/decoding/engines/test_native_engine.py"


def extension() -> dict[str, Any]:
    """Return the settings for building the extension in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(project["tool"]["setuptools"]["ext-modules"][0])


def compile_source(source: str, target: Path) -> None:
    """Compile a C file to `target`, unless that is newer than all sources. SystemExit if it does not compile."""
    newest = max(path.stat().st_mtime for path in (ROOT / "nmt" / "decoding" / "native").glob("*.[ch]"))
    if target.is_file() and target.stat().st_mtime > max(newest, Path(__file__).stat().st_mtime):
        return
    own = [flag for flag in extension()["extra-compile-args"] if not flag.startswith(("-O", "-g"))]
    include = f"-I{sysconfig.get_path('include')}"
    command = [*COMPILER, *own, *DEFINES, *FLAGS, SANITIZERS, include, "-c", str(ROOT / source), "-o", str(target)]
    if subprocess.run(command).returncode:
        raise SystemExit(f"{source} does not compile: {shlex.join(command)}")


def build() -> None:
    """Copy the package and its tests to build/sanitize, and put the instrumented extension there."""
    ignore = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
    for name in ("nmt", "tests", "scripts"):
        shutil.rmtree(COPY / name, ignore_errors=True)
        shutil.copytree(ROOT / name, COPY / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", COPY)
    objects = COPY / "objects"
    objects.mkdir(exist_ok=True)
    sources = [*extension()["sources"], "nmt/decoding/native/web.c"]
    targets = [objects / f"{Path(source).stem}.o" for source in sources]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_source, sources, targets))
    library = COPY / "nmt" / "decoding" / "native" / "_decoder.abi3.so"
    for left_out, target in (("web", library), ("module", WEB)):
        objects_of = [str(path) for path in targets if path.stem != left_out]
        subprocess.run([*COMPILER, "-shared", SANITIZERS, *objects_of, "-o", str(target)], check=True)


def environment() -> dict[str, str]:
    """Return the environment variables with which a Python without instrumentation loads the extension."""

    def library(name: str) -> str:
        command = [*COMPILER, f"-print-file-name={name}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    name = "libclang_rt.asan-x86_64.so" if "clang" in COMPILER[0] else "libasan.so"
    return {
        **os.environ,
        "PYTHONPATH": str(COPY),
        "PYTHONMALLOC": "malloc",  # so that Python objects are checked too
        "OMP_NUM_THREADS": "1",
        # libstdc++ before torch's exceptions, which AddressSanitizer intercepts. Python keeps memory until it exits.
        "LD_PRELOAD": f"{library(name)} {library('libstdc++.so.6')}",
        # Without fake stacks: GCC 12 aligns them to less than the 64 bytes of an AVX-512 register (PR 110027).
        "ASAN_OPTIONS": ":".join(
            (
                "detect_leaks=0",
                "detect_stack_use_after_return=0",
                "allocator_may_return_null=1",
                "max_allocation_size_mb=2000",
            )
        ),
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def run_tests() -> bool:
    """Run the tests of the native engine with the instrumented extension; return whether they pass.

    Output is not captured, because the report of a sanitizer ends the process.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", TEST]
    return subprocess.run(command, cwd=COPY, env=environment()).returncode == 0


def fuzz(arguments: list[str], script: str = "fuzz_native.py") -> bool:
    """Run a fuzzer with the instrumented extension; return whether it found nothing, else print the failing case."""
    command = [sys.executable, f"scripts/{script}", "--verbose", *arguments]
    last = ""
    with subprocess.Popen(command, cwd=COPY, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if line.startswith("case "):
                last = line.strip()
            else:
                sys.stdout.write(line)
                sys.stdout.flush()
    if process.returncode:
        sys.stdout.write(f"exit code {process.returncode} in {last or 'the leak check'}\n")
    return process.returncode == 0


def check_extension() -> None:
    """Raise SystemExit unless Python loads the instrumented extension instead of the installed one."""
    program = "from nmt.decoding.native import _decoder as d; print(d.__file__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=COPY, env=environment(), capture_output=True, text=True)
    if str(COPY) not in done.stdout:
        raise SystemExit(f"the instrumented extension was not loaded: {done.stdout}{done.stderr}")


def main() -> int:
    """Build, test, fuzz and look for leaks; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="time for the fuzzer (60)")
    parser.add_argument("--seed", help="seed of the fuzzer; default: from the clock")
    parser.add_argument("--leaks", type=int, default=2000, help="searches in the leak check (2000)")
    parser.add_argument("--quick", action="store_true", help="only fuzz for 2 s")
    arguments = parser.parse_args()
    build()
    check_extension()
    seed = ["--seed", arguments.seed] if arguments.seed else []
    if arguments.quick:
        passed = [fuzz([*seed, "--seconds", "2"])]
    else:
        passed = [run_tests(), fuzz([*seed, "--seconds", str(arguments.seconds)])]
        web = [str(WEB), "tests/models/digits", "--seconds", str(arguments.seconds / 4)]
        passed.append(fuzz([*web, *seed], "fuzz_web.py"))
        passed.append(fuzz(["--seed", "1", "--leaks", str(arguments.leaks)]))
    sys.stdout.write("no errors\n" if all(passed) else "FAILED\n")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
