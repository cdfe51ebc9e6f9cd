"""Facts about this machine: cores, processor, environment variables."""

from __future__ import annotations

import functools
import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from nmt.base.errors import ConfigError

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
"""The control groups of Linux, by which Docker and SLURM limit processes, and the file that names those of this one."""

BUSY = 0.25  # if other processes use this share of the cores' time or more, a training takes longer


def num_cores() -> int:
    """Return the number of CPU cores that this process may use; a quota of one and a half counts as two."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [math.ceil(quota / period) for quota, period in _cpu_quotas() if quota > 0 and period > 0]
    return min([count, *quotas])


def bounded(threads: int) -> int:
    """Return a number of threads or processes, but at most one per core of the machine: more only cost memory."""
    return min(threads, os.cpu_count() or 1)


def _cpu_quotas() -> Iterator[tuple[int, int]]:
    """Yield the microseconds of CPU time that the control groups of this process have in a period, and the period."""
    for group in _control_groups("cpu"):
        quota, _, period = _text_of(group / "cpu.max").partition(" ")  # version 2; "max" means no limit
        yield _number(quota), _number(period)
        yield _number(_text_of(group / "cpu.cfs_quota_us")), _number(_text_of(group / "cpu.cfs_period_us"))


def free_in_cgroups() -> int | None:
    """Return how many bytes of memory the control groups of this process leave to it; None without a limit."""
    free = []
    for group in _control_groups("memory"):
        lines = map(str.split, _text_of(group / "memory.stat").splitlines())
        stat = {line[0]: line[1] for line in lines if len(line) == 2}
        # The kernel drops cached files when memory is short. Version 1 counts those of groups below in `total_`.
        kinds = ("inactive_file", "active_file")
        cached = sum(max(0, _number(stat.get(f"total_{kind}", stat.get(kind, "")))) for kind in kinds)
        for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            allowed, used = (_number(_text_of(group / name)) for name in (limit, usage))
            if allowed >= 0 and used >= 0:
                free.append(max(0, allowed - max(0, used - cached)))
    return min(free, default=None)


def available_bytes() -> int | None:
    """Return the free memory of this machine or container in bytes; None if it is unknown."""
    free = [known for known in (_free_on_machine(), free_in_cgroups()) if known is not None]
    return min(free, default=None)


def _free_on_machine() -> int | None:
    if (left := _proc("meminfo", "MemAvailable")) is not None:
        return int(left.removesuffix("kB")) << 10
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def own_bytes() -> int:
    """Return the memory that this process occupies, in bytes, without mapped files; 0 if it is unknown."""
    return int((_proc("self/status", "RssAnon") or "0").removesuffix("kB")) << 10


def _control_groups(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and of those above it, which limit it too.

    In a container, `OWN_CGROUP` may name a group that is not visible there; the topmost folder is then its group.
    """
    for line in _text_of(OWN_CGROUP).splitlines():
        names, _, path = line.partition(":")[2].partition(":")
        if not names or controller in names.split(","):
            top = CGROUPS / controller if names else CGROUPS  # versions 1 and 2
            parts = [part for part in path.split("/") if part not in ("", "..")]
            yield from (top.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _text_of(path: Path) -> str:
    """Return the text of a small file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return ""


def _proc(file: str, name: str) -> str | None:
    """Return the first value called `name` in a file of /proc; None if there is none, as always outside Linux."""
    lines = (line.partition(":") for line in _text_of(Path("/proc", file)).splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), None)


def _number(text: str) -> int:
    """Return the number in `text`; -1 if it is none, such as max."""
    try:
        return int(text)
    except ValueError:
        return -1


def processor() -> str:
    """Return the processor's model name."""
    return _proc("cpuinfo", "model name") or platform.processor() or platform.machine()


@functools.cache
def prefers_onednn() -> bool:
    """Return whether oneDNN's fp32 products beat MKL's: on AMD from Zen 5 on, unless variables forbid AVX-512."""
    limits = (os.environ.get(name) or "AVX512" for name in ("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"))
    has_avx512 = "avx512vl" in (_proc("cpuinfo", "flags") or "") and all("AVX512" in each.upper() for each in limits)
    return has_avx512 and "AMD" in processor() and _number(_proc("cpuinfo", "cpu family") or "") >= 26


def request_exact_mkl() -> None:
    """Make Intel's MKL sum in the same order for any number of rows, on processors where that costs no speed.

    Sets MKL_CBWR in the environment if it is unset. MKL reads it once, before its first matrix product in this process.
    On processors of other vendors, MKL would use its slowest code. Only programs call this, never the library.
    """
    has_avx512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= {*(_proc("cpuinfo", "flags") or "").split()}
    if has_avx512 and "Intel" in processor():
        os.environ.setdefault("MKL_CBWR", "AVX512,STRICT")


def seconds_waited(thread: int) -> float | None:
    """Return how long a thread of this process was ready to run, but had no core; None if that is unknown."""
    times = _text_of(
        Path(f"/proc/self/task/{thread}/schedstat")
    ).split()  # nanoseconds on a core, and in a queue for one
    return int(times[1]) / 1e9 if times[1:] else None


def busy_share() -> float:
    """Return the share of this machine's cores that programs used or waited for in the last minute; 0.0 if unknown."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return min(1.0, load / (os.cpu_count() or 1))


def environment_count(name: str, default: int, *, minimum: int = 0) -> int:
    """Return the integer in the environment variable `name`, or `default` if it is unset. ConfigError if invalid."""
    text = os.environ.get(name, "")
    if not text:
        return default
    if not (text.isdecimal() and text.isascii() and len(text) <= 9 and int(text) >= minimum):
        raise ConfigError(
            f"the environment variable {name} is {text!r}, not a number from {minimum} up",
            hint="correct it, or unset it; torchrun and `nmt train --num-processes` set such variables themselves",
        )
    return int(text)
