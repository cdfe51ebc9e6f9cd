"""The error for features that need PyTorch, which only the extra `train` installs."""

from __future__ import annotations

from importlib.util import find_spec

from nmt.base.errors import NmtError, how_to_install

INSTALL_TORCH = how_to_install("train")


_COMMAND = "this command needs PyTorch"


def require_torch() -> None:
    """Raise NmtError unless PyTorch is installed, for commands that would need it only after other work."""
    if find_spec("torch") is None:
        raise NmtError(f"{_COMMAND}, which is not installed", hint=INSTALL_TORCH)


def missing_torch(error: ModuleNotFoundError, message: str = _COMMAND) -> NmtError:
    """Return an NmtError if `error` means that PyTorch is not installed; otherwise raise `error`."""
    if error.name != "torch":
        raise error
    return NmtError(f"{message}, which is not installed", hint=INSTALL_TORCH)
