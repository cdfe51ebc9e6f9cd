"""`nmt export`: a run as a folder that another runtime translates with."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nmt.exportdir import Quantization, refuse_existing_export
from nmt.find_model import find_run

log = logging.getLogger(__name__)

app = typer.Typer(help="Make a run ready for another runtime.", no_args_is_help=True)


@app.callback()
def _several() -> None:
    """Make a run ready for another runtime."""


@app.command()
def ctranslate2(
    run: Annotated[Path, typer.Argument(help="The run to export.")],
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    quantization: Annotated[
        Quantization, typer.Option(help="How the weights are kept; none: fp32. See docs/how-to/export.md.")
    ] = "none",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that is there.")] = False,
) -> None:
    """Export a run to CTranslate2, which needs no torch; use it with: nmt translate --model OUT"""
    found = find_run(str(run))
    refuse_existing_export(out, overwrite=overwrite)  # here too, so that it is told before torch is imported
    from nmt.interop.export import export_ctranslate2

    export_ctranslate2(found, out, quantization=quantization, overwrite=overwrite)
    log.info(f"done: {out}, {_megabytes(out):.1f} MB\n  nmt translate --model {shlex.quote(str(out))} 'text'")


@app.command()
def hf(
    run: Annotated[Path, typer.Argument(help="The run to export.")],
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a Marian folder that is there.")] = False,
) -> None:
    """Export a run to a Hugging Face folder, which the transformers library reads as a Marian model."""
    found = find_run(str(run))
    from nmt.interop.hf_export import export_hf, refuse_existing_hf

    refuse_existing_hf(out, overwrite=overwrite)
    export_hf(found, out, overwrite=overwrite)
    log.info(f"done: {out}, {_megabytes(out):.1f} MB\n  MarianMTModel.from_pretrained({str(out)!r}) reads it")


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
