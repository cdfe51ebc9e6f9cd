"""The outputs of a command: standard output, pipes and files; none of them replaces what the command reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import typer

from nmt.apps.commands.streams import standard_output
from nmt.base.errors import NmtError
from nmt.base.files import is_writable, resolve_output
from nmt.base.partial_file import PartialFile, Settings


class StreamOutput:
    """Standard output, or a named pipe or device."""

    num_texts = 0  # to continue after

    def __init__(self, file: IO[str]):
        self._file = file

    def write(self, lines: str, sources: Sequence[str] = ()) -> None:
        """Write whole lines, and flush."""
        self._file.write(lines)
        self._file.flush()


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise NmtError if something exists at `path`, unless `overwrite` is given."""
    if os.path.lexists(path) and not overwrite:
        raise NmtError(
            "this file already exists", path=path, hint="replace it with --overwrite, or choose another name"
        )


def refuse_unwritable(path: Path) -> None:
    """Raise NmtError if no file can be written at `path`, whose folder may be missing."""
    if not is_writable(resolve_output(path).parent):
        raise NmtError(
            "cannot be written: no permission, or its folder is not a folder",
            path=path,
            hint="name a file in another folder",
        )


@contextmanager
def open_output(
    path: Path | None, settings: Settings, lines_per_text: int, *, resume: bool
) -> Iterator[StreamOutput | PartialFile]:
    """Yield standard output (`path` is None), a pipe, a device, or a file that is complete at the end of the block."""
    if path is None:
        with standard_output() as stream:
            yield StreamOutput(stream)
    elif path.exists() and not path.is_file():  # it cannot be replaced by a complete file
        if resume:
            raise NmtError("--resume needs a regular file as output", path=path)
        try:
            with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as pipe:
                yield StreamOutput(pipe)
        except BrokenPipeError:  # its reader has read enough
            raise typer.Exit from None
        except OSError as error:
            if error.filename is not None:
                raise
            raise NmtError(f"cannot be written ({error.strerror or error})", path=path) from None
    else:
        with PartialFile(path, settings, lines_per_text, resume=resume) as partial:
            yield partial
