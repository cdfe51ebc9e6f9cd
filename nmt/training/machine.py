"""What a run is trained with and on, and which promise ends where that changes between two sessions of it."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import nmt
from nmt.machine import processor

_PACKAGES = ("numpy", "safetensors", "sentencepiece", "sacrebleu")

_SHAPES_THE_BITS = {
    "nmt": "nmt {}",
    "torch": "torch {}",
    "device": "device {}",
    "gpu": "GPU {}",
    "threads": "{} threads",
    "instruction_set": "instruction set {}",
    "processor": "processor {}",
}
"""What the last digits of a sum may depend on, and so, in time, all of the weights."""


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Versions, threads, instruction set and device, as `run.json` records them."""
    return {
        "nmt": nmt.__version__,
        "commit": _git_commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "packages": {name: _version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "processor": processor(),  # kernels are also chosen by what `instruction_set` does not tell
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "device": device.type,
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "threads": torch.get_num_threads(),
    }


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What bears on the bits of the weights and differs; what an older run did not record is not compared."""
    return [
        f"{text.format(before[key])} before, {text.format(now[key])} now"
        for key, text in _SHAPES_THE_BITS.items()
        if key in before and before[key] != now[key]
    ]


def warning_of(differences: list[str]) -> str:
    """What a person is told before a resumed run goes on."""
    return (
        f"{'; '.join(differences)}. The run goes on as well as before, but its weights will not be "
        "bit for bit those of a run that was never stopped"
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of the code that trains, where it runs from a checkout of its own."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=True, timeout=5)
        done = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
