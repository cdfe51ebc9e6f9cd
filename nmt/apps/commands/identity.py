"""Identify the model of a command, so that its output is not resumed with another model."""

from __future__ import annotations

from pathlib import Path

from nmt.artifacts.exportdir import ExportDir
from nmt.artifacts.rundir import RunDir
from nmt.base.files import sha256_of
from nmt.config import SearchOptions

_CHECKSUM_CHARACTERS = 16


def identify_models(models: list[RunDir] | ExportDir) -> list[str]:
    """Return names that identify the weights."""
    if isinstance(models, ExportDir):
        return [models.path.resolve().name]
    return [f"{run.path.resolve().name}/{run.usable_checkpoint().stem}" for run in models]


def identify_shortlist(models: list[RunDir] | ExportDir, options: SearchOptions) -> dict[str, str]:
    """Return the checksum of the shortlist used by the search, keyed by the option's name; empty if it uses none."""
    if not options.shortlist or isinstance(models, ExportDir) or not models[0].shortlist.is_file():
        return {}  # the engine reports the error
    return {"shortlist": sha256_of(models[0].shortlist)[:_CHECKSUM_CHARACTERS]}


def identify_glossary(path: Path | None) -> dict[str, str]:
    """Return the checksum of the glossary, keyed by the option's name; empty without one."""
    return {} if path is None else {"glossary": sha256_of(path)[:_CHECKSUM_CHARACTERS]}
