"""The cache: the folder for unpacked models, downloaded ones, and environments of other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nmt.errors import RunError
from nmt.files import new_folder


def cache_folder() -> Path:
    """Return the folder of the cache: $NMT_CACHE, else `nmt` in the user's cache folder."""
    if named := os.environ.get("NMT_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "nmt")


@contextmanager
def into_cache(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `folder` in the cache, unless another process was faster.

    RunError if the cache cannot be written to.
    """
    try:
        with suppress(FileExistsError), new_folder(folder) as partial:
            yield partial
    except OSError as error:
        hint = "name another folder for the cache in $NMT_CACHE"
        raise RunError(f"cannot be written to ({error.strerror or error})", path=folder, hint=hint) from None
