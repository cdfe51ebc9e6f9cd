"""Find the run or the export that the user means."""

from __future__ import annotations

import os
from pathlib import Path

from nmt.errors import RunError
from nmt.exportdir import ExportDir, is_export
from nmt.rundir import RunDir, restore_replaced

_NAME_A_RUN = "name a folder that `nmt train` made"


def find_model(model: str | None) -> RunDir | ExportDir:
    """Return the run or the export `model` (--model), else $NMT_MODEL, else the newest run under ./runs.

    RunError if there is none, or it is a run without a checkpoint.
    """
    path = _named(model)
    if path is None:
        return _newest_run()
    return ExportDir(path) if is_export(path) else _checked_run(path)


def find_run(model: str | None) -> RunDir:
    """Return the run `model` (--model), else $NMT_MODEL, else the most recently trained run under ./runs.

    RunError if there is none, or it has no checkpoint.
    """
    path = _named(model)
    return _newest_run() if path is None else _checked_run(path)


def _named(model: str | None) -> Path | None:
    """Return the folder that the user names, with its name restored if a process was killed while replacing it."""
    name = model or os.environ.get("NMT_MODEL")
    if not name:
        return None
    restore_replaced(Path(name))
    return Path(name)


def _checked_run(path: Path) -> RunDir:
    run = RunDir(path)
    if not path.is_dir():
        raise RunError("no such run", path=path, hint=_NAME_A_RUN)
    if not run.config_file.is_file():
        is_other = (path / "config.json").is_file()
        hint = "import it with `nmt import hf`, if it is a Hugging Face folder" if is_other else _NAME_A_RUN
        raise RunError("not a run: it has no config.yaml", path=path, hint=hint)
    run.check()
    run.best_checkpoint()
    return run


def _newest_run() -> RunDir:
    runs = [RunDir(path.parent.parent) for path in Path("runs").glob("[!.]*/checkpoints/index.json")]
    if not runs:
        raise RunError(
            "no trained run under ./runs",
            hint="train one (`nmt train --config configs/demo-en-zh.yaml`), or name one with --model or $NMT_MODEL",
        )
    newest = max(runs, key=lambda run: run.index_file.stat().st_mtime)
    newest.check()
    return newest
