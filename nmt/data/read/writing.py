"""Write new text files, plain or compressed according to their extension."""

from __future__ import annotations

import gzip
import io
from contextlib import ExitStack
from pathlib import Path
from typing import IO, BinaryIO, cast

from nmt.base.files import write_atomically
from nmt.data.read.lines import MODULES, compression_module


def open_new_text(stack: ExitStack, path: Path) -> IO[str]:
    """Open a file that appears under its name when `stack` closes: it is closed and flushed, then renamed.

    Files that end in `.gz`, `.xz` or `.zst` are compressed; equal text gives equal bytes. DataError if the module for
    the compression is missing.
    """
    module = compression_module(path) if path.suffix in MODULES else None
    partial = stack.enter_context(write_atomically(path))
    file: BinaryIO = stack.enter_context(open(partial, "wb"))  # noqa: SIM115 (the stack closes it)
    if path.suffix == ".gz":  # without name and time in its header, so that equal text gives equal bytes
        file = cast(BinaryIO, stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
    elif module is not None:
        file = stack.enter_context(module.open(file, "wb"))
    return stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline="\n"))


def as_cell(text: str) -> str:
    """Return `text` as a cell of tab-separated text: a tab inside it becomes a space."""
    return text.replace("\t", " ")
