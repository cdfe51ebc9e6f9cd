"""Which device to compute on, and in which precision."""

from __future__ import annotations

import time
from typing import NamedTuple

import torch

from nmt.errors import ConfigError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}

_WORTHWHILE = 1.2  # bf16 must be this much faster: its rounding and its second copy of the weights cost something too


class Precision(NamedTuple):
    """What the model computes in, and how fast the device multiplies large matrices in it."""

    name: str  # fp32 or bf16
    flops: float  # operations a second, measured

    @property
    def dtype(self) -> torch.dtype:
        """The type of the model's weights and activations."""
        return DTYPES[self.name]


def choose_device(name: str) -> torch.device:
    """`auto` is cuda, else mps, else cpu; a named device that is not there is a ConfigError."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device in there if there[device]))
    if not there[name]:
        have = ", ".join(device for device in there if there[device])
        raise ConfigError(f"device {name} is not available on this machine", hint=f"available: {have}; auto chooses")
    return torch.device(name)


def choose_precision(name: str, device: torch.device) -> Precision:
    """`auto` is bf16 where a product in it is clearly faster here, by a trial of some tens of milliseconds, else fp32.

    What torch reports is no guide: it calls bf16 supported on processors where it runs several times slower than fp32.
    """
    if name != "auto":
        return Precision(name, product_rate(device, DTYPES[name]))
    rates = {each: product_rate(device, dtype) for each, dtype in DTYPES.items()}
    chosen = "bf16" if rates["bf16"] > _WORTHWHILE * rates["fp32"] else "fp32"
    return Precision(chosen, rates[chosen])


def product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations a second in a product of the kind that training makes: the best of three."""
    size = 8192 if device.type == "cuda" else 512
    left = torch.ones(size, size, dtype=dtype, device=device)
    right = torch.ones(size, size, dtype=dtype, device=device)
    seconds = []
    for _ in range(4):  # the first warms up
        _wait(device)
        started = time.perf_counter()
        left @ right
        _wait(device)
        seconds.append(time.perf_counter() - started)
    return 2.0 * size**3 / min(seconds[1:])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
