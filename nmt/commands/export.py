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
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    log.info(f"done: {out}, {size / 1e6:.1f} MB\n  nmt translate --model {shlex.quote(str(out))} 'text'")
