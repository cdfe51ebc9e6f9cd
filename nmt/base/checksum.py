"""A checksum in the header of a safetensors file, so that file and checksum cannot get separated.

The header's metadata contains `sha256`: the hash of the whole file, with zeros in place of the checksum itself.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nmt.base.errors import RunError

NO_CHECKSUM = {"sha256": "0" * 64}
"""Metadata for saving a file that `write_checksum` then completes: it reserves space for the checksum."""

_MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library
_BLOCK_BYTES = 1 << 20


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let safetensors raise an OSError about `path` where it cannot write, for example because the disk is full."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        number = re.search(r"os error ([0-9]+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of each tensor in a safetensors file; reads only the header. RunError if it cannot."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read these weights ({error})", path=path, hint="copy the file again") from None


def count_parameters(path: Path) -> int:
    """Return the number of parameters in a safetensors file, counting tied ones once. RunError if it is damaged."""
    return sum(map(math.prod, tensor_shapes(path).values()))


def write_checksum(path: Path) -> None:
    """Write the checksum into a safetensors file that was saved with the metadata `NO_CHECKSUM`."""
    with open(path, "r+b") as file:
        offset, _ = _find(file)
        digest = _digest(file, offset)
        file.seek(offset)
        file.write(digest.encode())


def find_corruption(path: Path) -> str:
    """Describe what is wrong with a safetensors file; an empty string if it is intact."""
    try:
        with open(path, "rb") as file:
            offset, digest = _find(file)
            return "" if _digest(file, offset) == digest else "damaged: the checksum does not match"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"not readable: {error.strerror or error}"
    except ValueError as error:
        return f"damaged: {error}"


def _find(file: BinaryIO) -> tuple[int, str]:
    """Return the position and the value of the checksum in a file. ValueError if the header is damaged."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
        raise ValueError(f"the header claims {length:,} bytes, but the file has {size:,}")
    raw = file.read(length)
    try:
        header = json.loads(raw)
        metadata = header.pop("__metadata__", None)
        end = max((int(entry["data_offsets"][1]) for entry in header.values()), default=0)
        digest = "" if metadata is None else metadata["sha256"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
        raise ValueError("the header is not readable") from None
    if 8 + length + end != size:
        raise ValueError(f"the file has {size:,} bytes, but should have {8 + length + end:,}")
    if metadata is None:
        raise ValueError("there is no checksum")
    at = raw.find(b'"sha256":"')
    if at < 0 or not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError("the checksum is not readable")
    return 8 + at + len(b'"sha256":"'), digest


def _digest(file: BinaryIO, offset: int) -> str:
    """Return the SHA-256 of the file, with zeros in place of the 64 bytes at `offset`, as hex."""
    hashed = hashlib.sha256()
    file.seek(0)
    hashed.update(file.read(offset))
    file.seek(64, os.SEEK_CUR)
    hashed.update(b"0" * 64)
    while block := file.read(_BLOCK_BYTES):
        hashed.update(block)
    return hashed.hexdigest()
