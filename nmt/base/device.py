"""Choose the device and the precision."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from nmt.base.errors import ConfigError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

_OTHER_PRECISION = "set training.precision to auto, which picks bf16 if it is clearly faster on this device, else fp32"
_WORTHWHILE = 1.2  # bf16 must be this many times faster to make up for its rounding and its extra copy of the weights


class Precision(NamedTuple):
    """The precision of a model, and how fast large matrix products are in it."""

    name: str  # fp32, bf16 or fp16
    flops: float  # operations per second, measured

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the model's weights and activations."""
        return DTYPES[self.name]


def choose_device(name: str) -> torch.device:
    """Return the device `name`; `auto` is cuda, else mps, else cpu. ConfigError if this machine has no such device."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device in available if available[device]))
    if not available[name]:
        names = ", ".join(device for device in available if available[device])
        raise ConfigError(f"device {name} is not available on this machine", hint=f"available: {names}; auto picks one")
    return torch.device(name)


def refuse_unfit_precision(name: str, device: torch.device, hint: str = _OTHER_PRECISION) -> None:
    """Raise ConfigError with this `hint` for fp16 on anything but a CUDA device."""
    if name == "fp16" and device.type != "cuda":
        raise ConfigError(
            f"precision fp16 is only for training on CUDA devices; this device is {device.type}", hint=hint
        )


def choose_precision(name: str, device: torch.device) -> Precision:
    """Return the precision `name`; `auto` is bf16 if matrix products in it are clearly faster here, else fp32.

    ConfigError for fp16 on anything but a CUDA device.

    `auto` is decided by measuring for a few tens of milliseconds, because torch reports bf16 as supported even on
    processors that compute it several times slower than fp32.
    """
    refuse_unfit_precision(name, device)
    if name != "auto":
        return Precision(name, product_rate(device, DTYPES[name]))
    rates = {each: product_rate(device, dtype) for each, dtype in DTYPES.items() if each != "fp16"}
    chosen = "bf16" if rates["bf16"] > _WORTHWHILE * rates["fp32"] else "fp32"
    return Precision(chosen, rates[chosen])


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy `tensor` to `device`; the copy to a GPU is asynchronous, from page-locked memory."""
    if device.type == "cuda" and not tensor.is_cuda:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@contextmanager
def tf32_products(device: torch.device) -> Iterator[None]:
    """Let fp32 matrix products on a CUDA device round their inputs to TF32, which is several times faster.

    Sums stay in fp32. For training only: 10 bits of mantissa suffice for gradients (Stosic and Micikevicius 2021).
    """
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def product_rate(device: torch.device, dtype: torch.dtype, size: int = 0) -> float:
    """Measure the FLOPs per second of a matrix product like those in training: the best of three.

    Its matrices are of `size` x `size`, or less if they do not fit into memory; 0: as in a large training.
    """
    size = size or (8192 if device.type == "cuda" else 512)
    # Random numbers, because on constant ones a GPU draws less power and so runs faster than in training.
    numbers = torch.Generator(device).manual_seed(1)
    wait = getattr(torch, device.type).synchronize
    seconds = []
    try:
        left, right = (torch.randn(size, size, generator=numbers, device=device).to(dtype) for _ in range(2))
        with tf32_products(device):
            for _ in range(4):  # the first one is a warm-up
                wait()
                started = time.perf_counter()
                left @ right
                wait()
                seconds.append(time.perf_counter() - started)
    except torch.OutOfMemoryError:
        if size <= 512:
            raise
        return product_rate(device, dtype, size // 2)
    return 2.0 * size**3 / min(seconds[1:])


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error of torch says that a device or the host has too little memory for a tensor."""
    signs = ("out of memory", "not enough memory", "can't allocate memory", "_ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in signs)
