"""Which device to compute on."""

from __future__ import annotations

import torch

from nmt.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """`auto` is cuda, else mps, else cpu; a named device that is not there is a ConfigError."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device in there if there[device]))
    if not there[name]:
        have = ", ".join(device for device in there if there[device])
        raise ConfigError(f"device {name} is not available on this machine", mend=f"available: {have}; auto chooses")
    return torch.device(name)
