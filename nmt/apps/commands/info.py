"""`nmt info` and `nmt plot`: describe a model, and draw the learning curves of a run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.apps.commands.options import AsJson, NewestRun
from nmt.apps.commands.streams import print_text
from nmt.artifacts.find_model import find_run
from nmt.artifacts.replacing import refuse_replacing
from nmt.base.files import to_json

if TYPE_CHECKING:
    from nmt.apps.interop.describe import ModelInfo

log = logging.getLogger(__name__)


def info(
    model: Annotated[
        str | None,
        typer.Argument(help="Run or Hugging Face folder. Default: $NMT_MODEL, else the newest run in ./runs."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a model: size, languages, scores, license, exports."""
    from nmt.apps.interop.describe import describe_model

    found = describe_model(model)
    print_text(to_json(found.as_json()) if as_json else _table(found))


def _table(found: ModelInfo) -> str:
    parameters = f"{found.parameters:,} parameters, " if found.parameters is not None else ""
    rows = {
        "path": found.path,
        "kind": found.kind,
        "languages": ", ".join(found.languages),
        "size": f"{parameters}{found.megabytes:,.1f} MB",
        "model": found.architecture,
        "vocabulary": ", ".join(f"{size:,} tokens ({side})" for side, size in found.vocabulary.items()),
        "scores": ", ".join(f"{name} {value:.2f}" for name, value in found.scores.items()) or "none",
        "license": found.license or "not named in README.md",
    }
    lines = [f"{name:<11}{value}" for name, value in rows.items()]
    return "\n".join([*lines, *(f"{name:<24}{why or 'possible'}" for name, why in found.can_become.items())])


def plot(
    model: NewestRun = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write (.svg or .png). Default: curves.svg in the run."),
    ] = None,
) -> None:
    """Draw the learning curves of a run.

    The picture shows training and validation loss, BLEU and chrF.
    """
    from nmt.evaluation.plots import draw_curves, read_metrics  # not needed by the other commands

    run = find_run(model)
    picture = output or run.curves
    refuse_replacing([picture], [], [run], draws_curves=True)
    draw_curves(read_metrics(run.metrics), picture)
    log.info("learning curves: %s", picture)
