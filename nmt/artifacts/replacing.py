"""No output of a command or a recipe replaces what it reads, or a model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.partial_file import PARTIAL, PARTIAL_SETTINGS

if TYPE_CHECKING:
    from nmt.config import Config

_PAGES = {".html", ".png", ".svg"}  # extensions of results that no model reads


def refuse_replacing(
    outputs: Iterable[Path],
    inputs: Iterable[Path | int],
    models: Sequence[RunDir] = (),
    *,
    draws_curves: bool = False,
) -> None:
    """Raise NmtError if an output is, contains or lies in something that the command reads, or is named twice.

    Inputs are files, folders and file descriptors. No output may lie in any model, read or not, except pictures, pages
    and new files in its folder `eval`. Its learning curves are replaced only by an output that `draws_curves`. Links
    are followed; pipes and devices are allowed as outputs.
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
        _refuse_place(path, real, read, draws_curves=draws_curves)
        names = {_identity(name): name for name in (real, Path(f"{real}{PARTIAL}"), Path(f"{real}{PARTIAL_SETTINGS}"))}
        if clashing := next((name for key, name in names.items() if key in read or key in written), None):
            if written.get(_identity(real)) == real:
                raise NmtError("two outputs have this name", path=path, hint="choose another name for one of them")
            raise NmtError(
                f"this output clashes with {clashing}, a name that is in use while outputs are unfinished",
                path=path,
                hint="choose another name for it",
            )
        written |= dict.fromkeys(names, real)


def refuse_replacing_parts(run: Path, settings: Config, models: Sequence[RunDir] = ()) -> None:
    """Raise NmtError if the new `run` would replace, or lie in, something that it is made from, such as `models`."""
    from nmt.data.read.pairs import all_paths  # only here: a text is translated without the readers of corpora

    base = settings.training.init_from
    tokenizer = settings.tokenizer.path
    refuse_replacing([run], [*all_paths(settings.data), *map(Path, filter(None, (base, tokenizer)))], models)


def _identity(path: Path | int) -> object:
    """Return what all names of the same file or folder share; for a missing one, its path with links followed."""
    try:
        status = os.stat(path)
    except OSError:
        return path if isinstance(path, int) else Path(os.path.realpath(path))
    return status.st_dev, status.st_ino


def _refuse_place(path: Path, real: Path, read: Mapping[object, Path | int], *, draws_curves: bool) -> None:
    """Raise NmtError if the output `path`, which is `real` without links, lies in an input or a model, or around one.

    Results may be added to a model: pictures and pages, and new files in its folder `eval`.
    """
    for folder in real.parents:
        is_page = real.suffix.lower() in _PAGES
        is_of_run = real == RunDir(folder).curves and not draws_curves
        may_add = (real.parent == folder and is_page and not is_of_run) or (
            real.parent == folder / "eval" and (is_page or not os.path.exists(real))
        )
        is_run = os.path.isfile(folder / "config.yaml") and os.path.isfile(folder / "checkpoints" / "index.json")
        if (is_run or _identity(folder) in read) and not may_add:
            raise NmtError(
                f"{folder} is a model or another input, into which no output may be written",
                path=path,
                hint="choose a path outside it",
            )
    for source in read.values() if os.path.isdir(real) else ():
        if isinstance(source, Path) and real in Path(os.path.realpath(source)).parents:
            raise NmtError(f"this folder contains the input {source}", path=path, hint="choose another folder")
