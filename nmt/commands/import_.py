"""`nmt import`: a model of another toolkit as a run."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nmt.rundir import refuse_existing

log = logging.getLogger(__name__)

app = typer.Typer(help="Make a run of a model that another toolkit trained.", no_args_is_help=True)


@app.callback()
def _several() -> None:
    """Make a run of a model that another toolkit trained."""


@app.command()
def hf(
    folder: Annotated[Path, typer.Argument(help="Hugging Face folder of a Marian model, such as one of OPUS-MT.")],
    run: Annotated[Path, typer.Argument(help="The run to make.")],
    src_lang: Annotated[
        str | None, typer.Option(help="Code of the source language. Default: that of tokenizer_config.json.")
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option(help="Code of the target language. Default: that of tokenizer_config.json.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run that is there.")] = False,
) -> None:
    """Import a Marian model (OPUS-MT) from a Hugging Face folder; use it with: nmt translate --model RUN"""
    if not overwrite:
        refuse_existing(run)  # here too, so that it is told before torch is imported
    from nmt.interop.hf_import import Languages, import_hf

    made = import_hf(folder, run, Languages(src_lang, tgt_lang), overwrite=overwrite)
    directions = made.config().data.directions
    to = f" --to {directions[0].tgt}" if len(directions) > 1 else ""
    log.info(
        f"done: {run}, {', '.join(map(str, directions))}\n  nmt translate --model {shlex.quote(str(run))}{to} 'text'"
    )
