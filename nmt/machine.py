"""Facts about this machine: cores, processor, environment variables."""

from __future__ import annotations

import logging
import os
import platform
import sys
import time
from pathlib import Path

from nmt.errors import ConfigError

log = logging.getLogger(__name__)

BUSY = 0.25  # share of the cores' time that other processes use, from which threads had better not spin

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


def request_sleeping_threads_if_busy() -> None:
    """Let torch's threads sleep while they wait for one another if other processes keep this machine busy.

    GNU OpenMP's threads spin by default. That is a quarter faster on a quiet machine; on a busy one, a spinning thread
    takes the core that the thread it waits for needs, and training falls to a tenth of its rate. Sets OMP_WAIT_POLICY
    in the environment unless it is set; OpenMP reads it once, when torch is imported. Results do not depend on it.
    Only programs call this, never the library.
    """
    if "torch" in sys.modules or num_cores() == 1 or os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
        return
    if (share := busy_share()) >= BUSY:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        log.info(f"other processes use {share:.0%} of this machine: threads sleep while they wait for one another")


def busy_share(seconds: float = 0.1) -> float:
    """Return the share of this process's cores that others use during the next `seconds`; 0.0 where it is unknown."""
    if (before := _core_ticks()) is None:
        return 0.0
    time.sleep(seconds)  # this process uses none meanwhile
    busy, idle = (now - then for now, then in zip(_core_ticks() or before, before, strict=True))
    return busy / (busy + idle) if busy + idle > 0 else 0.0


def _core_ticks() -> tuple[int, int] | None:
    """Return the ticks for which the cores of this process were busy and idle since the machine started; on Linux."""
    try:
        names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
    except (AttributeError, OSError):
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal; the ticks of guests are among those of user
    ticks = [[int(number) for number in line[1:9]] for line in lines if line and line[0] in names]
    idle = sum(sum(each[3:5]) for each in ticks)
    return sum(map(sum, ticks)) - idle, idle


def environment_count(name: str, default: int, *, minimum: int = 0) -> int:
    """Return the whole number in the environment variable `name`; `default` if it is not set. ConfigError if odd."""
    text = os.environ.get(name, "")
    if not text:
        return default
    if not (text.isdecimal() and text.isascii() and len(text) <= 9 and int(text) >= minimum):
        hint = "correct it, or unset it; torchrun and `nmt train --num-processes` set such variables themselves"
        raise ConfigError(f"the environment variable {name} is {text!r}, not a number from {minimum}", hint=hint)
    return int(text)
