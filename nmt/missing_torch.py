"""The error for what needs PyTorch, which only the extra `train` installs."""

from __future__ import annotations

from nmt import DISTRIBUTION
from nmt.errors import NmtError

INSTALL_TORCH = f'pip install "{DISTRIBUTION}[train]"'


def missing_torch(error: ModuleNotFoundError, message: str = "this command needs PyTorch") -> NmtError:
    """Return what to tell the user if `error` says that PyTorch is not installed; raise `error` if it does not."""
    if error.name != "torch":
        raise error
    return NmtError(f"{message}, which is not installed", hint=INSTALL_TORCH)
