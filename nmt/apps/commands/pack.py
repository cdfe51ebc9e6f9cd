"""`nmt pack`: pack a run into one file."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.options import Checkpoint
from nmt.apps.commands.outputs import refuse_replacing
from nmt.artifacts.find_model import find_run
from nmt.artifacts.packed import StoredPrecision
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError

log = logging.getLogger(__name__)

Precision = Annotated[
    StoredPrecision, typer.Option(help="Precision of the stored weights. fp16 halves the file, and unpacks to fp32.")
]


def pack(
    run: Annotated[Path, typer.Argument(help="Run to pack.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, such as model.zip.")],
    checkpoint: Checkpoint = None,
    precision: Precision = "fp32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Pack a run into one file, for use with --model FILE.

    The file contains the weights of one checkpoint, tokenizer, configuration, model card and scores, but neither the
    training state nor text from the corpus.
    """
    found = find_run(str(run))
    refuse_replacing([output], [run], [found])
    if output.exists() and not overwrite:
        hint = "replace it with --overwrite, or choose another name"
        raise NmtError("this path already exists", path=output, hint=hint)
    if checkpoint is not None:
        found.use_checkpoint(checkpoint)
    from nmt.apps.interop.sharing import pack as write_file

    write_file(found, output, precision)
    warn_of_no_license(found)
    size = output.stat().st_size / 1e6
    log.info(f"done: {output}, {size:.1f} MB\n  nmt translate --model {shlex.quote(str(output))} 'text'")


def warn_of_no_license(run: RunDir) -> None:
    """Warn if the model card of `run` names no license."""
    from nmt.apps.interop.license import license_of

    if license_of(run.card) is None:
        log.warning("%s names no license: start the file with the lines ---, license: NAME, ---", run.card)
