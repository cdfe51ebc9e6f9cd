"""Write files and folders atomically: readers see the old or the new version, never a part. Limit how much is read.

Unfinished files have a temporary name beside their final one: `.NAME.TOKEN.partial`. The writer holds a lock on
`.NAME.TOKEN.lock`, so that any process can distinguish a running writer from the leftovers of a killed one. (A process
id would not work: containers that share a folder have separate process ids.)
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

from nmt.base.errors import NmtError, RunError

MAX_METRICS_BYTES = 200_000_000  # the largest metrics.jsonl that is read; a day of training writes a few MB
_BLOCK_BYTES = 1 << 20
_LOCK_NAME = re.compile(r"\.(?P<name>.+)\.(?P<token>[0-9a-f]{8})\.lock", re.DOTALL)
_NO_WAITING = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # in case a lock's name is a link or a pipe
FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # raised by a write, without a file name

Guard = Callable[[Path], AbstractContextManager[None] | None]
"""Raises if the folder at a path must not be replaced. What it returns, such as a lock, is held until it is moved."""


def to_json(value: object, *, indent: int | None = None) -> str:
    """Return `value` as JSON. NmtError if it contains NaN or infinity, which JSON does not have."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise NmtError("a score is not a finite number", hint="the model's weights are damaged or overflow") from None


def try_lock(descriptor: int) -> bool:
    """Lock the open file `descriptor` exclusively; return False if it is already locked.

    The lock lasts until the descriptor is closed or the process ends. Raises OSError if the file system has no locks.
    """
    import portalocker  # here, because it takes 60 ms to import and most commands lock nothing

    try:
        portalocker.lock(descriptor, portalocker.LOCK_EX | portalocker.LOCK_NB)
    except portalocker.AlreadyLocked:
        return False
    except portalocker.LockException as error:
        raise OSError(*getattr(error.__cause__, "args", (0, "cannot be locked"))) from error
    return True


def resolve_output(path: Path) -> Path:
    """Follow the links of the output `path`. NmtError if it is a folder, a pipe, a device or `-`."""
    if path == Path("-"):
        raise NmtError("this output must be a file, not standard output", path=path, hint="name a file")
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise NmtError("cannot be written: it is not a regular file", path=path, hint="name another file")
    return path


def is_writable(folder: Path) -> bool:
    """Return whether files can be written into `folder`, which may be missing."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


@contextmanager
def write_atomically(path: Path, keep_old_as: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success flush it to disk and rename it to `path`.

    If the block raises, the temporary file is removed and `path` stays unchanged. Links are followed. If `keep_old_as`
    is given, the old file at `path` is renamed to it once the new one is on disk. The new file gets the mode that the
    umask gives to new files, whatever the block did. NmtError if `path` is a folder, a pipe, a device or `-`.
    """
    path = resolve_output(path)
    with _temporary_names(path) as (folder, _, mode):
        folder.mkdir()  # a folder, because libraries create their own temporary files beside a file that they write
        partial = folder / path.name
        yield partial
        os.chmod(partial, mode)
        flush(partial)
        if keep_old_as is not None and path.exists():
            os.replace(path, keep_old_as)
        _give_name(partial, path)


@contextmanager
def new_folder(path: Path, *, replace: Guard | None = None) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success flush its files to disk and rename it to `path`.

    If the block raises, the folder is removed and `path` stays unchanged. Links are followed. If `path` exists before
    or after the block, `replace` decides: it raises, or else the old content is removed once the new folder is in
    place. Without `replace`, raises FileExistsError. If the process is killed while replacing a folder, the next
    `remove_leftovers` or `new_folder` there restores the old name.
    """
    path = Path(os.path.realpath(path))
    if not path.name:
        raise NmtError("the root folder cannot be replaced", path=path, hint="choose another folder")
    with _temporary_names(path) as (partial, old, _):
        _set_aside(path, None, replace)
        partial.mkdir()
        yield partial
        for made in (*partial.rglob("*"), partial):
            flush(made)
        _set_aside(path, old, replace)
        _give_name(partial, path)


def move_folder(folder: Path, path: Path, *, replace: Guard) -> None:
    """Rename `folder`, whose files are on disk, to `path` beside it; what is there is replaced as by `new_folder`."""
    with _temporary_names(path) as (_, old, _):
        _set_aside(path, old, replace)
        _give_name(folder, path)


def _set_aside(path: Path, old: Path | None, replace: Guard | None) -> None:
    """If `path` exists, ask `replace` whether it may be replaced, and rename it to `old`, if given."""
    if not os.path.lexists(path):
        return
    if Path.cwd().is_relative_to(path):
        raise NmtError("cannot replace the current folder", path=path, hint="run the command in another folder")
    if replace is None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with replace(path) or nullcontext():
        if old is not None and os.name != "nt":
            os.rename(path, old)
    if old is not None and os.name == "nt":  # where a folder with an open file in it, such as a lock, cannot be renamed
        os.rename(path, old)


def _give_name(partial: Path, path: Path) -> None:
    """Rename `partial` to `path`, and wait until the new name is on disk."""
    os.replace(partial, path)
    flush(path.parent)


def write_text(path: Path, text: str) -> None:
    r"""Write `text` to `path` as UTF-8 with LF line ends, atomically.

    A lone surrogate, as in a file name that is not UTF-8, becomes an escape, such as `\udcff`, which JSON can read.
    """
    with write_atomically(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def write_all(file: BinaryIO, content: bytes) -> None:
    """Write `content` to an unbuffered file, which may take it in parts. OSError if it does not take all."""
    rest = memoryview(content)
    while rest:
        if not (num_written := file.write(rest)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = rest[num_written:]


def flush(path: Path) -> None:
    """Wait until the contents of a file, or the names in a folder, are on disk. Windows cannot flush folders."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _temporary_names(path: Path) -> Iterator[tuple[Path, Path, int]]:
    """Yield locked temporary names for the new and the old content of `path`, and the mode for a new file.

    At the end, nothing is left under either name. If the old content was not replaced, it gets its name back. An
    OSError about a temporary name or a full disk is changed to name `path`.
    """
    try:
        _make_folder(path.parent)
        remove_leftovers(path.parent, path.name)
        token, lock = _lock_new_token(path)
        try:
            yield _temporary(path, token, "partial"), _temporary(path, token, "old"), os.fstat(lock).st_mode & 0o777
        finally:
            _restore_or_remove(path, token)
            os.close(lock)
            _temporary(path, token, "lock").unlink(missing_ok=True)
    except OSError as error:
        is_full = error.filename is None and error.errno in FULL_DISK
        if is_full or f"{os.sep}.{path.name}." in str(error.filename):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _make_folder(folder: Path) -> None:
    """Create `folder` and its missing parents. NotADirectoryError if one of them is a file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None


def _temporary(path: Path, token: str, kind: Literal["partial", "old", "lock"]) -> Path:
    return path.with_name(f".{path.name}.{token}.{kind}")


def _lock_new_token(path: Path) -> tuple[str, int]:
    """Return a token that no other process uses for `path`, and the file descriptor of its lock."""
    while True:
        token = secrets.token_hex(4)
        name = _temporary(path, token, "lock")
        try:
            lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        try:
            locked = try_lock(lock)
        except OSError:
            return token, lock  # a file system without locks: no process can lock this file, so none removes our work
        # Another process may have seen the file before we locked it, assumed that we are dead, and removed it.
        if locked and name.exists() and os.path.samestat(os.fstat(lock), name.stat()):
            return token, lock
        os.close(lock)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove leftovers of killed processes from `folder`; only those of the file or folder `name`, if given.

    Files that were being replaced get their names back. Files of running processes are left alone.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for match in filter(None, map(_LOCK_NAME.fullmatch, names)):
        if name in (None, match["name"]):
            _clean_up_after(folder / match["name"], match["token"])


def restore_replaced(path: Path) -> None:
    """Restore the name of a run, an export or a tokenizer if a process was killed while replacing it."""
    if not os.path.lexists(path):
        real = Path(os.path.realpath(path))
        remove_leftovers(real.parent, real.name)


def _clean_up_after(path: Path, token: str) -> None:
    """Remove the leftovers of the writer of `path` with this `token`, if it has ended."""
    name = _temporary(path, token, "lock")
    try:
        lock = os.open(name, os.O_RDWR | _NO_WAITING)
    except OSError:
        return
    is_dead = False
    try:
        with suppress(OSError):
            is_dead = try_lock(lock)
        if is_dead:
            _restore_or_remove(path, token)
    finally:
        os.close(lock)
    if is_dead:
        name.unlink(missing_ok=True)


def _restore_or_remove(path: Path, token: str) -> None:
    """Remove the temporary files of `path`; if the old content was not replaced, restore its name."""
    partial = _temporary(path, token, "partial")
    old = _temporary(path, token, "old")
    shutil.rmtree(partial, ignore_errors=True)
    if not old.exists():
        return
    if not os.path.lexists(path):
        os.rename(old, path)
        return
    os.rename(old, partial)  # so that `old` is never incomplete, even if this process is killed now
    shutil.rmtree(partial, ignore_errors=True)


def refuse_special_files(root: Path) -> None:
    """Raise RunError if the folder of a run contains a pipe, a device, or a link to outside it."""
    real = os.path.realpath(root)
    hint = "runs must not contain links to other folders or special files: copy the original here, or delete it"
    for folder, folders, files in os.walk(real):
        for name in (*folders, *files):
            path = Path(folder, name)
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:  # deleted in the meantime by a training
                continue
            if stat.S_ISLNK(mode) and not os.path.realpath(path).startswith(real + os.sep):
                raise RunError("a link that points outside the run", path=path, hint=hint)
            if not (stat.S_ISLNK(mode) or stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise RunError("neither a file nor a folder", path=path, hint=hint)


def read_at_most(path: Path, limit: int) -> bytes:
    """Read a file's bytes. Raises ValueError if there are over `limit`, without reading further."""
    content = bytearray()
    with open(path, "rb") as file:
        # In blocks, because `read(limit)` takes the memory for so many bytes before it reads the first.
        while len(content) <= limit and (block := file.read(min(_BLOCK_BYTES, limit + 1 - len(content)))):
            content += block
    if len(content) > limit:
        raise ValueError(f"over {limit:,} bytes")
    return bytes(content)


def read_json_object(path: Path, limit: int, what: str = "this file") -> dict[str, Any]:
    """Read a JSON object. RunError about `what` if it is missing, damaged, over `limit` bytes, or not an object."""
    if path.exists() and not path.is_file():
        raise RunError(f"cannot read {what} (not a regular file)", path=path)
    try:
        value = json.loads(read_at_most(path, limit))
    except RecursionError:
        raise RunError(f"cannot read {what} (nested too deeply)", path=path) from None
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {what} ({getattr(error, 'strerror', None) or error})", path=path) from error
    if not isinstance(value, dict):
        raise RunError("not a JSON object", path=path)
    return value


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def short_sha256(path: Path) -> str:
    """Return the first 16 hex digits of a file's SHA-256, which are enough to notice that it has changed."""
    return sha256_of(path)[:16]
