"""`nmt import`: convert a model of another toolkit into a run."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.options import ReplaceRun
from nmt.artifacts.replacing import refuse_replacing

log = logging.getLogger(__name__)

app = typer.Typer(help="Convert a model trained with another toolkit into a run.", no_args_is_help=True)


@app.command()
def hf(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Hugging Face folder of a Marian (OPUS-MT) or M2M-100 (NLLB) model, or of an exported run."
        ),
    ],
    run: Annotated[Path, typer.Argument(help="Run directory to write.")],
    src_lang: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            "--src-lang",
            help="Code of the source language, as the model spells it (fr, fra_Latn). Repeat for several languages of "
            "an M2M-100 model. Default for Marian models: the code in tokenizer_config.json.",
        ),
    ] = None,
    tgt_lang: Annotated[
        list[str] | None, typer.Option("--to", "--tgt-lang", help="Code of the target language, given as with --from.")
    ] = None,
    overwrite: ReplaceRun = False,
) -> None:
    """Import a Marian or M2M-100 model from a Hugging Face folder; use it with: nmt translate --model RUN"""
    refuse_replacing([run], [folder])
    from nmt.apps.interop.hf_import import Languages, direction_options, import_hf

    languages = Languages(tuple(src_lang or ()), tuple(tgt_lang or ()))
    made = import_hf(folder, run, languages, overwrite=overwrite)
    directions = made.config().data.directions
    options = direction_options(made.config())
    use = f"nmt translate --model {shlex.quote(str(run))}{options} 'text'"
    log.info(f"done: {run}, {', '.join(map(str, directions))}\n  {use}")
