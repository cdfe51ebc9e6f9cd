"""Find the run to use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nmt.artifacts.rundir import HUB_PREFIX, RunDir
from nmt.base.errors import RunError, require_type
from nmt.base.files import restore_replaced

Models = str | Path | RunDir | Sequence[str | Path | RunDir]  # one model, or several that form an ensemble

_NAME_A_RUN = "give a run folder from `nmt train`, or a file from `nmt pack`"


def find_run(model: str | None) -> RunDir:
    """Return the run `model` (--model), else $NMT_MODEL, else the most recently trained run under ./runs.

    A packed model, or one on the hub (`hf:user/name`), is returned as a run in a temporary folder. RunError if there is
    no such run, or it has no checkpoint.
    """
    name = model or os.environ.get("NMT_MODEL")
    if not name:
        return _newest_run()
    path = Path(name)
    if name.startswith(HUB_PREFIX):
        from nmt.artifacts.hub import fetch  # only here: most models are folders

        run = RunDir(fetch(name))
        run.source = path
        run.results = Path(f"{run.path.name}-eval")
    else:
        restore_replaced(path)  # if a process was killed while replacing it
        run = RunDir(path)
        if path.is_file():
            from nmt.artifacts.packed import unpack

            run = RunDir(unpack(path))
            run.source = path
            run.results = path.with_name(f"{path.stem}-eval")
    _check(run)
    return run


def find_runs(models: Models | None) -> list[RunDir]:
    """Find one model, or each of several; None: the default of `find_run`."""
    if models is None:
        return [find_run(None)]
    several = [models] if isinstance(models, str | Path | RunDir) else models
    require_type("a model", several, Sequence, "a path, a RunDir or a list of them")
    return [model if isinstance(model, RunDir) else find_run(str(model)) for model in several]


def is_in_one_file(path: Path) -> bool:
    """Return whether `path` names a model on the hub, or a zip file, as packed models are."""
    from zipfile import is_zipfile

    return str(path).startswith(HUB_PREFIX) or (path.is_file() and is_zipfile(path))


def _check(run: RunDir) -> None:
    path = run.path
    if not path.is_dir():
        raise RunError("no such run", path=path, hint=_NAME_A_RUN)
    if not run.config_file.is_file():
        if (path / "export.json").is_file():
            raise RunError(
                "an export for CTranslate2, which nmt does not load",
                path=path,
                hint="give the run that it was exported from: nmt translates faster with it",
            )
        is_other = (path / "config.json").is_file()
        raise RunError(
            "not a run: it has no config.yaml",
            path=path,
            hint="if it is a Hugging Face folder, import it with `nmt import hf`" if is_other else _NAME_A_RUN,
        )
    run.check()
    run.best_checkpoint()


def _newest_run() -> RunDir:
    runs = [RunDir(path.parent.parent) for path in Path("runs").glob("[!.]*/checkpoints/index.json")]
    if not runs:
        raise RunError(
            "no trained run under ./runs",
            hint="train one (`nmt train --config configs/demo-en-zh.yaml`), or choose one with --model or $NMT_MODEL",
        )
    newest = max(runs, key=lambda run: run.index_file.stat().st_mtime)
    newest.check()
    return newest
