"""Describe the machine that a run is trained on, and detect changes of machine."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch

import nmt
from nmt.artifacts.rundir import Environment
from nmt.base.device import Precision
from nmt.base.machine import processor
from nmt.training.update.distributed import ProcessGroup

_PACKAGES = ("numpy", "safetensors", "sentencepiece", "sacrebleu")


class Setup(NamedTuple):
    """The device, precision and threads of one rank."""

    device: torch.device
    precision: Precision
    group: ProcessGroup


# The facts that the last bits of a sum may depend on, and so eventually all weights.
_SHAPES_THE_BITS = {
    "nmt": "nmt {}",
    "torch": "torch {}",
    "device": "device {}",
    "gpu": "GPU {}",
    "threads": "training.threads {}",
    "instruction_set": "instruction set {}",
    "processor": "processor {}",
    "world_size": "number of processes {}",
}


def describe_environment(device: torch.device, world_size: int) -> Environment:
    """Describe the software and hardware that this process trains on."""
    return Environment(
        nmt=nmt.__version__,
        commit=_git_commit(),
        python=platform.python_version(),
        torch=torch.__version__,
        packages={name: version(name) for name in _PACKAGES},
        platform=platform.platform(),
        processor=processor(),
        instruction_set=torch.backends.cpu.get_cpu_capability(),
        device=device.type,
        gpu=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        threads=torch.get_num_threads(),
        world_size=world_size,
    )


def changes(before: Environment, now: Environment) -> list[str]:
    """Return the differences that can change the bits of the weights."""
    return [
        f"{text.format(getattr(before, key))} before, {text.format(getattr(now, key))} now"
        for key, text in _SHAPES_THE_BITS.items()
        if getattr(before, key) != getattr(now, key)
    ]


def _git_commit() -> str | None:
    """Return the commit of this code if it runs from its own git checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=True, timeout=5)
        done = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
