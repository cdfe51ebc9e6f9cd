"""Packed models: one zip file with everything needed for translation, unpacked for as long as the process runs.

A packed model is untrusted. Its members must be stored uncompressed, so that none is larger than the file, and only the
file names of a small run are allowed. The unpacked folder is then checked like any run.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import shutil
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from nmt.artifacts.rundir import MAX_JSON_BYTES
from nmt.base.errors import RunError
from nmt.base.files import read_at_most, write_atomically
from nmt.config.base import Section

FORMAT = 1
PACK_INFO = "packed.json"

TINY_MODEL = Path(__file__).with_name("digits.nmt")
"""A packed model of 93 kB for tests of programs: it reverses numbers of up to seven digits, "7319" to "9137"."""

PATTERNS = (
    "config.yaml", "packed.json", "statistics.json", "README.md", "lexicon.safetensors", "shortlist.safetensors",
    "phrases.safetensors",
    "eval/test.json", "checkpoints/index.json", "checkpoints/*.safetensors", "tokenizer/*.model",
)  # fmt: skip
"""Shell patterns that match all files of a packed model."""

_STEM = "[A-Za-z0-9][A-Za-z0-9._-]{0,100}"  # what the stars in them may stand for
_NAMES = re.compile("|".join(_STEM.join(map(re.escape, pattern.split("*"))) for pattern in PATTERNS))
_REQUIRED = ("config.yaml", PACK_INFO, "checkpoints/index.json")
_MAX_MEMBERS = 16
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
_ENCRYPTED = 0x1
_BLOCK_BYTES = 1 << 20
_unpacked: dict[tuple[str, int, int, int], Path] = {}
"""The folders of the packed models that this process has unpacked, by path, size, time and inode."""

_PACK_AGAIN = "copy the file again, or create it again with `nmt pack`"
_NEWER = f"this version of nmt reads format {FORMAT} of packed models; a newer version may read it"


class PackInfo(Section):
    """The contents of packed.json."""

    format: Literal[1] = FORMAT  # type: ignore[assignment]
    nmt: str = Field(description="version that packed the model")


def write_packed(folder: Path, out: Path) -> None:
    """Write the files of `folder` as the packed model `out`, atomically. Identical files give identical bytes."""
    check_names(files_in(folder), folder)
    zip_folder(folder, out)


def files_in(folder: Path) -> dict[str, Path]:
    """Return all files of a folder by their names in it, in order."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return dict(sorted(files.items()))


def zip_folder(folder: Path, out: Path) -> None:
    """Write the files of `folder` uncompressed into the zip file `out`, atomically and reproducibly."""
    with write_atomically(out) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        for name, path in files_in(folder).items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16  # 3: Unix, on every system
            info.file_size = path.stat().st_size
            with open(path, "rb") as source, archive.open(info, "w") as target:
                shutil.copyfileobj(source, target, _BLOCK_BYTES)


def unpack(path: Path) -> Path:
    """Unpack the packed model at `path` into a temporary folder, and return it; once in a process, unless it changes.

    RunError if the file is not a packed model, or is damaged.
    """
    status = path.stat()
    key = (str(path.resolve()), status.st_size, status.st_mtime_ns, status.st_ino)
    if key not in _unpacked:
        name = re.sub(r"[^A-Za-z0-9._-]", "-", path.stem).strip(".-")[:100] or "model"
        with temporary_model(name) as folder:
            _unpack_into(folder, path)
            check_info(folder, path)
        _unpacked[key] = folder
    return _unpacked[key]


@contextmanager
def temporary_model(name: str) -> Iterator[Path]:
    """Yield an empty folder called `name`, which is removed when the block raises, or else when this process ends.

    RunError if it cannot be written to.
    """
    try:
        parent = Path(tempfile.mkdtemp(prefix="nmt-"))
        process = os.getpid()
        try:
            (parent / name).mkdir()
            yield parent / name
        except BaseException:
            shutil.rmtree(parent, ignore_errors=True)
            raise
    except OSError as error:
        raise RunError(
            f"cannot unpack it ({error.strerror or error})",
            path=tempfile.gettempdir(),
            hint="a model is unpacked into the folder for temporary files: set $TMPDIR to one with enough space",
        ) from None
    atexit.register(_remove, parent, process)


def _remove(folder: Path, process: int) -> None:
    """Remove `folder` at the end of the process that made it, not at that of its forked children."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def is_name(name: str) -> bool:
    """Return whether a packed model may contain a file with this name."""
    return _NAMES.fullmatch(name) is not None


def check_names(names: Iterable[str], path: Path | str) -> None:
    """Raise RunError unless `names` are valid as the file names of a packed model, the one at `path`."""
    names = list(names)
    for name in names:
        if not is_name(name):
            raise RunError(f"{name[:100]!r} is not a file of a packed model", path=path, hint=_NEWER)
    if len(set(names)) < len(names):
        raise RunError("it contains the same file name twice", path=path, hint=_PACK_AGAIN)
    if len(names) > _MAX_MEMBERS:
        raise RunError(f"a packed model has at most {_MAX_MEMBERS} files, not {len(names):,}", path=path)
    for name in _REQUIRED:
        if name not in names:
            raise RunError(
                f"not a packed model: it has no {name}", path=path, hint="give a run folder, or a file from `nmt pack`"
            )


def check_info(folder: Path, path: Path | str) -> None:
    """Raise RunError unless the unpacked model in `folder`, from `path`, is of a format that this version reads."""
    try:
        PackInfo.model_validate_json(read_at_most(folder / PACK_INFO, MAX_JSON_BYTES))
    except (ValidationError, ValueError, RecursionError):
        raise RunError(f"cannot read its {PACK_INFO}", path=path, hint=_NEWER) from None


def _unpack_into(folder: Path, path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_names((member.filename for member in members), path)
            _check_members(members, path)
            for member in members:
                target = folder / member.filename
                target.parent.mkdir(exist_ok=True)
                with archive.open(member) as source, open(target, "xb") as file:
                    shutil.copyfileobj(source, file, _BLOCK_BYTES)
    except (zipfile.BadZipFile, struct.error, EOFError, RuntimeError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        fault = "it refers to data before the start of the file" if isinstance(error, OSError) else error
        raise RunError(f"not a packed model, or it is damaged ({fault})", path=path, hint=_PACK_AGAIN) from None


def _check_members(members: list[zipfile.ZipInfo], path: Path) -> None:
    """Raise RunError unless the members are plain files, stored uncompressed in the file at `path`."""
    for member in members:
        is_stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
        faults = {
            "is encrypted": member.flag_bits & _ENCRYPTED,
            "is compressed; packed models are stored uncompressed": not is_stored,
            "is a link or a special file": stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG),
        }
        for fault in (fault for fault, is_so in faults.items() if is_so):
            raise RunError(f"{member.filename} {fault}", path=path, hint=_PACK_AGAIN)
    if sum(member.file_size for member in members) > path.stat().st_size:
        raise RunError("its files claim to be larger than the zip file", path=path, hint=_PACK_AGAIN)
