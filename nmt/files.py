"""Writing files so that a reader sees the old one or the new one, never a part; reading no more than is meant."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_METRICS_BYTES = 200_000_000
"""A larger metrics.jsonl is none: a day's training writes a few million bytes."""

_LEFTOVER = re.compile(r"\.(?P<name>.+)\.(?P<pid>[0-9]+)\.(partial|old)")


@contextmanager
def write_atomically(path: Path, keep_old_as: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success flush it to the disk and rename it to `path`.

    If the block raises, the temporary file is removed and `path` stays as it was. A link is followed. What was at
    `path` is renamed to `keep_old_as`, where that is given, once the new file is on the disk.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        flush(partial)
        if keep_old_as is not None and path.exists():
            os.replace(path, keep_old_as)
        os.replace(partial, path)
        flush(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` as UTF-8 with LF line ends, atomically."""
    with write_atomically(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def flush(path: Path) -> None:
    """Have a file's contents, or a folder's names, on the disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FileHashes:
    """SHA-256 of files, remembered by their size and time of change, so that a large corpus is not read each time."""

    def __init__(self, path: Path):
        """`path` is the JSON file to remember in; what cannot be read there is computed anew."""
        self.path = path
        try:
            self.known: dict[str, list[object]] = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            self.known = {}

    def sha256(self, file: Path) -> str:
        """The SHA-256 of `file`, as hex."""
        name, status = str(file.resolve()), file.stat()
        stamp: list[object] = [status.st_size, status.st_mtime_ns, status.st_ino]
        known = self.known.get(name)
        if not isinstance(known, list) or known[:3] != stamp:
            known = self.known[name] = [*stamp, sha256_of(file)]
            write_text(self.path, json.dumps(self.known, indent=1))
        return str(known[3])


def read_at_most(path: Path, limit: int) -> bytes:
    """A file's bytes. Raises ValueError, having read no more than that, if there are over `limit`."""
    with open(path, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"over {limit:,} bytes")
    return content


def leftovers(folder: Path, name: str | None = None) -> list[Path]:
    """What processes that are dead left in `folder` under a temporary name; of the file or folder `name`, if given."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        match = _LEFTOVER.fullmatch(path.name)
        if match and name in (None, match["name"]) and not _is_alive(int(match["pid"])):
            found.append(path)
    return found


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what `leftovers` finds."""
    for path in leftovers(folder, name):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, as hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
