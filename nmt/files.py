"""Writing files so that a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success flush it to the disk and rename it to `path`.

    If the block raises, the temporary file is removed and `path` stays as it was. A link is followed.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        flush(partial)
        os.replace(partial, path)
        flush(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` as UTF-8 with LF line ends, atomically."""
    with write_atomically(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
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

    def of(self, file: Path) -> str:
        """The SHA-256 of `file`, as hex."""
        name, status = str(file.resolve()), file.stat()
        stamp: list[object] = [status.st_size, status.st_mtime_ns, status.st_ino]
        known = self.known.get(name)
        if not isinstance(known, list) or known[:3] != stamp:
            known = self.known[name] = [*stamp, sha256_of(file)]
            write_text(self.path, json.dumps(self.known, indent=1))
        return str(known[3])


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, as hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
