"""What this machine has."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from nmt.errors import ConfigError


def num_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name, as its maker writes it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def environment_count(name: str, default: int, *, minimum: int = 0) -> int:
    """Return the whole number in the environment variable `name`; `default` if it is not set. ConfigError if odd."""
    text = os.environ.get(name, "")
    if not text:
        return default
    if not (text.isdecimal() and text.isascii() and len(text) <= 9 and int(text) >= minimum):
        hint = "correct it, or unset it; torchrun and `nmt train --num-processes` set such variables themselves"
        raise ConfigError(f"the environment variable {name} is {text!r}, not a number from {minimum}", hint=hint)
    return int(text)
