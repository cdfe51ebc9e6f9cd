"""Check the structure of CTranslate2's model.bin, to reject an invalid file before memory is allocated for it.

Layout, little-endian: version, name, revision, number of variables; for each variable its name, shape, type, number of
bytes, and the bytes; then pairs of names. Source: `ctranslate2.specs.ModelSpec.save`.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import BinaryIO

_MAX_VARIABLES = 1_000_000
_MAX_RANK = 8
_TYPE_BYTES = (4, 1, 2, 4, 2, 2)  # fp32, int8, int16, int32, fp16, bf16


def find_corruption(path: Path) -> str:
    """Describe what is wrong with the structure of a model.bin; an empty string if nothing is.

    Reads the descriptions of the variables and skips their values, so even large files take milliseconds. Raises
    OSError if the file cannot be read.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            _walk(file, size)
        except (struct.error, ValueError) as error:
            return f"damaged: {error}" if isinstance(error, ValueError) else "damaged: it ends too early"
        end = file.tell()
    return "" if end == size else f"damaged: it has {size:,} bytes, but should have {end:,}"


def _walk(file: BinaryIO, size: int) -> None:
    """Read to the end of the model. Raises ValueError or struct.error if the file is not a model."""
    version = _number(file, "I")
    if not 1 <= version <= 1000:
        raise ValueError("it does not begin like a CTranslate2 model")
    _skip_name(file)
    _number(file, "I")
    num_variables = _number(file, "I")
    if num_variables > _MAX_VARIABLES:
        raise ValueError(f"it claims {num_variables:,} variables")
    for _ in range(num_variables):
        _skip_variable(file, size)
    for _ in range(_number(file, "I")):
        _skip_name(file)
        _skip_name(file)


def _skip_variable(file: BinaryIO, size: int) -> None:
    name = _skip_name(file)
    rank = _number(file, "B")
    if rank > _MAX_RANK:
        raise ValueError(f"{name} has {rank} dimensions")
    num_values = math.prod(_number(file, "I") for _ in range(rank))
    type_id, num_bytes = _number(file, "B"), _number(file, "I")
    if type_id >= len(_TYPE_BYTES) or num_values * _TYPE_BYTES[type_id] != num_bytes:
        raise ValueError(f"the size of {name} does not match its shape")
    if file.tell() + num_bytes > size:
        raise ValueError(f"{name} extends past the end of the file")
    file.seek(num_bytes, os.SEEK_CUR)


def _number(file: BinaryIO, kind: str) -> int:
    return int(struct.unpack(f"<{kind}", file.read(struct.calcsize(f"<{kind}")))[0])


def _skip_name(file: BinaryIO) -> str:
    """Read a NUL-terminated name."""
    raw = file.read(_number(file, "H"))
    if not raw.endswith(b"\0"):
        raise ValueError("a name is not terminated")
    try:
        return raw[:-1].decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("a name is not valid UTF-8") from None
