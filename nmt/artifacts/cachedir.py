"""The cache: a folder for unpacked and downloaded models.

Each model in the cache is a folder with a file `.NAME.use` beside it. A process that uses the model holds a shared lock
on that file and updates its modification time. When the models exceed the size limit, the least recently used ones are
removed, except those that a lock marks as in use.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from nmt.base.errors import NmtError, RunError
from nmt.base.files import new_folder
from nmt.base.locks import try_lock

log = logging.getLogger(__name__)

LIMIT_VARIABLE = "NMT_CACHE_GB"
DEFAULT_LIMIT_GB = 20.0
GB = 10**9

_FOLDERS = ("packed/[!.]*", "hub/*/*/[!.]*")
_REMOVED = ".removed"  # suffix of a model that is being removed
_POLL_SECONDS = 0.02
_in_use: dict[Path, int] = {}
"""The file descriptors of the locks that this process holds until it ends, by model folder."""


class CachedModel(NamedTuple):
    """A model in the cache."""

    folder: Path
    num_bytes: int
    last_use: float  # seconds since 1970

    @property
    def name(self) -> str:
        """The file name of the packed model, or the model's name on the hub."""
        parts = self.folder.relative_to(cache_folder()).parts
        if parts[0] == "hub":
            return f"hf:{parts[1]}/{parts[2]}@{parts[3]}"
        return next((path.name for path in sorted(self.folder.glob("[!.]*"))), parts[-1])


def cache_folder() -> Path:
    """Return the cache folder: $NMT_CACHE, else `nmt` in the user's cache folder."""
    if named := os.environ.get("NMT_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "nmt")


def gigabytes_from(variable: str, default: float) -> float:
    """Return the number of gigabytes in an environment variable. NmtError if it is not a positive number."""
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not value > 0:
        raise NmtError(f"${variable} is {text[:100]!r}", hint="set it to a number of gigabytes, such as 20")
    return value


def cache_limit() -> float:
    """Return the size limit of the models in the cache, in gigabytes: $NMT_CACHE_GB, else 20."""
    return gigabytes_from(LIMIT_VARIABLE, DEFAULT_LIMIT_GB)


@contextmanager
def into_cache(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `folder` in the cache, unless another process creates it first.

    RunError if the cache is not writable.
    """
    try:
        with suppress(FileExistsError), new_folder(folder) as partial:
            yield partial
    except OSError as error:
        hint = "set $NMT_CACHE to another folder for the cache"
        raise RunError(f"cannot be written to ({error.strerror or error})", path=folder, hint=hint) from None


@contextmanager
def using(folder: Path) -> Iterator[None]:
    """Mark the model `folder` of the cache as in use until this process ends, unless the block raises.

    At the end of the block, remove the least recently used models if the cache is larger than its limit.
    """
    limit, new, path = cache_limit(), not folder.is_dir(), _use_file(folder)
    descriptor = _in_use.get(folder)
    if descriptor is None or not _is_at(path, descriptor):  # the user may have deleted the cache
        descriptor = _lock_for_use(path)
    try:
        yield
    except BaseException:
        if descriptor is not None and folder not in _in_use:
            with suppress(OSError):
                folder.rmdir()  # only if it is empty
            if not folder.exists():
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            os.close(descriptor)
        raise
    if descriptor is not None:
        _in_use[folder] = descriptor
        with suppress(OSError):
            os.utime(path)
    if new:
        prune(limit)


def _use_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.use")


def _lock_for_use(path: Path) -> int | None:
    """Return the descriptor of the file `path`, locked; None if the cache cannot be written to, or has no locks."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return None
        try:
            if try_lock(descriptor, shared=True) and _is_at(path, descriptor):
                return descriptor
        except OSError:
            os.close(descriptor)
            return None
        os.close(descriptor)
        time.sleep(_POLL_SECONDS)  # another process is removing the model; wait, then unpack it again


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether the open file is still the one at `path`: another process may have removed it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def cached_models() -> list[CachedModel]:
    """Return the models in the cache, least recently used first."""
    folders = [path for pattern in _FOLDERS for path in cache_folder().glob(pattern) if path.is_dir()]
    found = []
    for folder in folders:
        with suppress(OSError):  # removed in the meantime
            used = _use_file(folder)
            last_use = (used if used.exists() else folder).stat().st_mtime
            found.append(CachedModel(folder, _size(folder), last_use))
    return sorted(found, key=lambda model: (model.last_use, model.folder))


def prune(limit: float) -> None:
    """Remove the least recently used models, except those in use, until the rest take at most `limit` gigabytes."""
    for pattern in _FOLDERS:  # leftovers of killed processes
        for left in cache_folder().glob(pattern.replace("[!.]*", f".*{_REMOVED}")):
            shutil.rmtree(left, ignore_errors=True)
    models = cached_models()
    total = sum(model.num_bytes for model in models)
    removed = list[CachedModel]()
    for model in models:
        if total <= limit * GB:
            break
        if _remove(model.folder):
            removed.append(model)
            total -= model.num_bytes
    if removed:
        freed = sum(model.num_bytes for model in removed) / GB
        log.info(
            "removed the %d least recently used models from the cache %s (%.2f GB) to stay within %g GB ($%s)",
            len(removed),
            cache_folder(),
            freed,
            limit,
            LIMIT_VARIABLE,
        )


def _remove(folder: Path) -> bool:
    """Remove a model unless a process is using it."""
    path = _use_file(folder)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return False
    try:
        if not (try_lock(descriptor) and _is_at(path, descriptor)):
            return False
        gone = folder.with_name(f".{folder.name}{_REMOVED}")
        os.rename(folder, gone)  # so that no process mistakes a half-deleted folder for the model
        if os.name != "nt":
            path.unlink(missing_ok=True)
        shutil.rmtree(gone, ignore_errors=True)
    except OSError:  # one of its files is open, or the file system has no locks
        return False
    finally:
        os.close(descriptor)
    return True


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
