"""`nmt plot`: the learning curves of a run as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.commands.options import Model, say
from nmt.plots import draw_curves, read_metrics
from nmt.rundir import find_run


def plot(
    model: Model = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .svg or .png file; default: curves.svg in the run.")
    ] = None,
) -> None:
    """Draw a run's learning curves: training and validation loss, BLEU and chrF."""
    run = find_run(model)
    picture = output or run.path / "curves.svg"
    draw_curves(read_metrics(run.metrics), picture)
    say(f"learning curves: {picture}")
