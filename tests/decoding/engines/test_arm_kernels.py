"""The kernels for ARM return the same bits, under an emulator, on machines that have one and a compiler for ARM."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[3] / "nmt" / "decoding" / "native"
COMPILER = shlex.split(os.environ.get("ARM_CC", "aarch64-linux-gnu-gcc"))  # or "python -m ziglang cc -target ..."
FLAGS = ["-static", "-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", f"-I{NATIVE}"]


def compiled(sources: list[Path], target: Path) -> subprocess.CompletedProcess[str]:
    command = [*COMPILER, *FLAGS, *map(str, sources), "-o", str(target), "-lm"]
    return subprocess.run(command, capture_output=True, text=True)


def test_all_arm_kernels_return_the_same_bits(tmp_path):
    for program, what in (
        (COMPILER[0], "a C compiler for ARM (ARM_CC)"),
        ("qemu-aarch64", "the emulator qemu-aarch64"),
    ):
        if not shutil.which(program):
            pytest.skip(f"needs {what}")
    hello = tmp_path / "hello.c"
    hello.write_text('#include <stdio.h>\nint main(void) { return puts("") < 0; }\n', encoding="utf-8")
    if compiled([hello], tmp_path / "hello").returncode:
        pytest.skip(f"{shlex.join(COMPILER)} lacks the C library for ARM")
    kernels = sorted(NATIVE.glob("kernels_*.c"))
    done = compiled([Path(__file__).with_name("compare_kernels.c"), NATIVE / "model.c", *kernels], tmp_path / "compare")
    assert done.returncode == 0, done.stderr
    command = ["qemu-aarch64", "-cpu", "max", str(tmp_path / "compare")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert lines[::2] == ["neon-i8mm", "neon-dot", "portable"]
    assert len(set(lines[1::2])) == 1
