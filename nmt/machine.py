"""Facts about this machine: cores, processor, environment variables."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from nmt.errors import ConfigError

_limit: int | None = None


def num_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return count if _limit is None else min(count, _limit)


def limit_cores(count: int) -> None:
    """Let this process, one of several on its machine, use `count` cores at most. Engines read it when they load."""
    global _limit
    _limit = count


def processor() -> str:
    """Return the processor's name, as its maker writes it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def request_exact_mkl() -> None:
    """Ask Intel's MKL to sum in one order for any number of rows, on processors where that is as fast.

    Sets MKL_CBWR in the environment unless it is set; MKL reads it once, before its first product in this process. On
    other makers' processors MKL would take its slowest code. Only programs call this, never the library.
    """
    if "Intel" in processor() and _has_avx512():
        os.environ.setdefault("MKL_CBWR", "AVX512,STRICT")


def _has_avx512() -> bool:
    """Return whether the processor has the AVX-512 instructions that MKL and torch use; false if it cannot be told."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    return {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= {*flags}


def environment_count(name: str, default: int, *, minimum: int = 0) -> int:
    """Return the whole number in the environment variable `name`; `default` if it is not set. ConfigError if odd."""
    text = os.environ.get(name, "")
    if not text:
        return default
    if not (text.isdecimal() and text.isascii() and len(text) <= 9 and int(text) >= minimum):
        hint = "correct it, or unset it; torchrun and `nmt train --num-processes` set such variables themselves"
        raise ConfigError(f"the environment variable {name} is {text!r}, not a number from {minimum}", hint=hint)
    return int(text)
