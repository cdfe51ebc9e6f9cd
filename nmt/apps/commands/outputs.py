"""The outputs of a command: standard output, pipes and files; none of them replaces what the command reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import typer

from nmt.apps.commands.streams import standard_output
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.files import is_writable, resolve_output
from nmt.base.partial_file import PARTIAL, PARTIAL_SETTINGS, PartialFile, Settings

_PAGES = {".html", ".png", ".svg"}  # extensions of results that no model reads


class StreamOutput:
    """Standard output, or a named pipe or device."""

    num_texts = 0  # to continue after

    def __init__(self, file: IO[str]):
        self._file = file

    def write(self, lines: str, sources: Sequence[str] = ()) -> None:
        """Write whole lines, and flush."""
        self._file.write(lines)
        self._file.flush()


def refuse_replacing(outputs: Iterable[Path], inputs: Iterable[Path | int], models: Sequence[RunDir] = ()) -> None:
    """Raise NmtError if an output is, contains or lies in something that the command reads, or is named twice.

    Inputs are files, folders and file descriptors. No output may lie in any model, read or not, except pictures, pages
    and new files in its folder `eval`. Links are followed; pipes and devices are allowed as outputs.
    """
    read = {_identity(path): path for path in (*inputs, *(model.source for model in models))}
    written: dict[object, Path] = {}  # the outputs, by their own names and by those that they have until finished
    for path in outputs:
        real = Path(os.path.realpath(path))
        if os.path.exists(real) and not (os.path.isfile(real) or os.path.isdir(real)):
            continue
        if _identity(real) in read:
            what = "folder" if os.path.isdir(real) else "file"
            raise NmtError(f"this {what} is the input", path=path, hint="choose another name for the output")
        _refuse_place(path, real, read)
        names = {_identity(name): name for name in (real, Path(f"{real}{PARTIAL}"), Path(f"{real}{PARTIAL_SETTINGS}"))}
        if clashing := next((name for key, name in names.items() if key in read or key in written), None):
            if written.get(_identity(real)) == real:
                raise NmtError("two outputs have this name", path=path, hint="choose another name for one of them")
            message = f"this output clashes with {clashing}, a name that is in use while outputs are unfinished"
            raise NmtError(message, path=path, hint="choose another name for it")
        written |= dict.fromkeys(names, real)


def _identity(path: Path | int) -> object:
    """Return what all names of the same file or folder share; for a missing one, its path with links followed."""
    try:
        status = os.stat(path)
    except OSError:
        return path if isinstance(path, int) else Path(os.path.realpath(path))
    return status.st_dev, status.st_ino


def _refuse_place(path: Path, real: Path, read: Mapping[object, Path | int]) -> None:
    """Raise NmtError if the output `path`, which is `real` without links, lies in an input or a model, or around one.

    Results may be added to a model: pictures and pages, and new files in its folder `eval`.
    """
    for folder in real.parents:
        is_page = real.suffix.lower() in _PAGES
        may_add = (real.parent == folder and is_page) or (
            real.parent == folder / "eval" and (is_page or not os.path.exists(real))
        )
        is_run = os.path.isfile(folder / "config.yaml") and os.path.isfile(folder / "checkpoints" / "index.json")
        if (is_run or _identity(folder) in read) and not may_add:
            message = f"{folder} is a model or another input, into which no output may be written"
            raise NmtError(message, path=path, hint="choose a path outside it")
    for source in read.values() if os.path.isdir(real) else ():
        if isinstance(source, Path) and real in Path(os.path.realpath(source)).parents:
            raise NmtError(f"this folder contains the input {source}", path=path, hint="choose another folder")


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise NmtError if something exists at `path`, unless `overwrite` is given."""
    if os.path.lexists(path) and not overwrite:
        hint = "replace it with --overwrite, or choose another name"
        raise NmtError("this file already exists", path=path, hint=hint)


def refuse_unwritable(path: Path) -> None:
    """Raise NmtError if no file can be written at `path`, whose folder may be missing."""
    if not is_writable(resolve_output(path).parent):
        hint = "name a file in another folder"
        raise NmtError("cannot be written: no permission, or its folder is not a folder", path=path, hint=hint)


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
