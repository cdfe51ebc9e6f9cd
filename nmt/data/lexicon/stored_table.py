"""Tables of a run that belong to its tokenizers: a safetensors file with a checksum. Without numpy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, deserialize

from nmt.base.checksum import NO_CHECKSUM, find_corruption, write_checksum
from nmt.base.errors import RunError
from nmt.base.files import read_at_most, write_atomically
from nmt.data.tokens.tokenizer import TokenizerPair

MAX_BYTES = 400_000_000

Table = TypeVar("Table")


def save_table(path: Path, arrays: Mapping[str, Any], tokenizers: TokenizerPair) -> None:
    """Write numpy `arrays` with a checksum and a hash of their tokenizers, atomically. Raises OSError."""
    import numpy as np  # slow to import, and not needed to translate
    from safetensors.numpy import save

    tensors = {**arrays, "tokenizers": np.frombuffer(_mark(tokenizers), dtype=np.uint8)}
    with write_atomically(path) as partial:
        partial.write_bytes(save(tensors, NO_CHECKSUM))
        write_checksum(partial)


def load_table(
    path: Path, tokenizers: TokenizerPair, kind: tuple[str, str], parse: Callable[[dict[str, Any]], Table]
) -> Table:
    """Return what `parse` makes of the entries that `save_table` wrote; `kind` is the table's name, and a hint.

    RunError if the file is damaged or too large, if `parse` raises a ValueError, or for other tokenizers.
    """
    name, hint = kind
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"over {MAX_BYTES:,} bytes")
        if fault := find_corruption(path):
            raise ValueError(fault)
        entries = dict(deserialize(read_at_most(path, MAX_BYTES)))
        table = parse(entries)
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"this is not a {name}, or it is damaged ({error})", path=path, hint=hint) from None
    if bytes(entries.get("tokenizers", {}).get("data", b"")) != _mark(tokenizers):
        raise RunError(f"this {name} was built for other tokenizers", path=path, hint=hint)
    return table


def entry_data(entries: dict[str, Any], name: str, dtype: str) -> Any:
    """Return the data of an array of a file. Raises ValueError if it is missing or of another type."""
    entry = entries.get(name)
    if entry is None or entry["dtype"] != dtype:
        raise ValueError(f"{name} is missing")
    return entry["data"]


def _mark(tokenizers: TokenizerPair) -> bytes:
    """Return a hash of both tokenizers, to detect the table of another run."""
    return hashlib.sha256(f"{tokenizers.src.fingerprint} {tokenizers.tgt.fingerprint}".encode()).digest()
