"""`nmt plot`: draw the learning curves of a run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.options import NewestRun
from nmt.apps.commands.outputs import refuse_replacing
from nmt.artifacts.find_model import find_run

log = logging.getLogger(__name__)


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
    picture = output or run.path / "curves.svg"
    refuse_replacing([picture], [], [run])
    draw_curves(read_metrics(run.metrics), picture)
    log.info("learning curves: %s", picture)
