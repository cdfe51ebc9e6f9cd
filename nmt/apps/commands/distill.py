"""`nmt distill`: train a small, fast model on the translations of a larger one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.options import NewRun, Overrides, ReplaceRun
from nmt.apps.commands.streams import print_text
from nmt.apps.commands.train import exit_unfinished, log_next_steps, prepare_to_train, stopping
from nmt.apps.recipes.defaults import BEAM_SIZE
from nmt.config.search import MAX_BEAM_SIZE

Teachers = Annotated[
    list[Path], typer.Argument(help="Run to learn from; several form an ensemble.", show_default=False)
]
StudentConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="Configuration of the student (YAML). If it has no data.train, the teacher's data is used. Default: "
        "the fast model that nmt config new --student suggests for the teacher's data.",
    ),
]
Beam = Annotated[
    int, typer.Option("--beam", min=1, max=MAX_BEAM_SIZE, metavar="N", help="Beam size of the teacher's translations.")
]
NBest = Annotated[
    int,
    typer.Option(
        min=1,
        max=MAX_BEAM_SIZE,
        metavar="N",
        help="Number of translations of each source that the student learns from, at most --beam.",
    ),
]
MixOriginal = Annotated[
    float,
    typer.Option(
        min=0.0, max=0.95, metavar="SHARE", help="Share of training pairs that keep the original translation."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted distillation, with the same options.")]


def distill(
    teachers: Teachers,
    run: NewRun,
    config: StudentConfig = None,
    beam: Beam = BEAM_SIZE,
    n_best: NBest = 1,
    mix_original: MixOriginal = 0.0,
    overrides: Overrides = [],  # noqa: B006 (typer reads it, nobody changes it)
    resume: Resume = False,
    overwrite: ReplaceRun = False,
) -> None:
    """Train a student on the translations of a teacher.

    `nmt distill runs/teacher --run runs/student`: the teacher translates the training sources, and the student is
    trained on the result (Kim and Rush 2016). Validation and test set keep their original translations. It prints BLEU
    and decoding time of both at the end.
    """
    prepare_to_train()
    from nmt.apps.recipes.distill import NAMES
    from nmt.apps.recipes.distill import distill as recipe

    arguments = [argument for argument in sys.argv[1:] if argument not in ("--overwrite", "--resume")]
    how_to_resume = f"nmt {shlex.join([*arguments, '--resume'])}"
    with stopping(run, how_to_resume, overwrite=overwrite) as interrupt:
        result = recipe(
            teachers,
            run,
            config,
            beam_size=beam,
            n_best=n_best,
            mix_original=mix_original,
            overrides=overrides,
            resume=resume,
            overwrite=overwrite,
            interrupt=interrupt,
        )
    if result.comparison is None:
        exit_unfinished(interrupt, how_to_resume)
    print_text(result.comparison.render(NAMES))
    log_next_steps(run)
