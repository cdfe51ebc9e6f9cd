"""`nmt export`: write a run in the format of another runtime."""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.outputs import refuse_replacing
from nmt.artifacts.exportdir import Quantization, refuse_existing_export
from nmt.artifacts.find_model import find_run
from nmt.base.errors import NmtError

log = logging.getLogger(__name__)

app = typer.Typer(help="Export a run for another runtime.", no_args_is_help=True)


@app.callback()
def _several() -> None:
    """Export a run for another runtime."""


@app.command()
def ctranslate2(
    run: Annotated[Path, typer.Argument(help="Run to export.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    quantization: Annotated[
        Quantization, typer.Option(help="Format of the stored weights; none: fp32. See docs/how-to/export.md.")
    ] = "none",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the export if it exists.")] = False,
) -> None:
    """Export a run to CTranslate2, which needs no torch; use it with: nmt translate --model OUT"""
    found = find_run(str(run))
    refuse_replacing([out], [], [found])
    refuse_existing_export(out, overwrite=overwrite)  # here too, so that the error comes before torch is imported
    from nmt.apps.interop.export import export_ctranslate2

    export_ctranslate2(found, out, quantization=quantization, overwrite=overwrite)
    log.info(f"done: {out}, {_megabytes(out):.1f} MB\n  nmt translate --model {shlex.quote(str(out))} 'text'")


@app.command()
def hf(
    run: Annotated[Path, typer.Argument(help="Run to export.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the Marian folder if it exists.")] = False,
) -> None:
    """Export a run to a Hugging Face folder, which the transformers library loads as a Marian model."""
    found = find_run(str(run))
    from nmt.apps.interop.hf_export import export_hf, refuse_existing_hf

    refuse_replacing([out], [], [found])
    refuse_existing_hf(out, overwrite=overwrite)
    export_hf(found, out, overwrite=overwrite)
    log.info(f"done: {out}, {_megabytes(out):.1f} MB\n  MarianMTModel.from_pretrained({str(out)!r}) reads it")


@app.command()
def argos(
    run: Annotated[Path, typer.Argument(help="Run to export.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, such as de_en.argosmodel.")],
    quantization: Annotated[
        Quantization, typer.Option(help="Format of the stored weights; none: fp32. See docs/how-to/export.md.")
    ] = "int8",
    package_version: Annotated[str, typer.Option(help="Version of the package.")] = "1.0",
    from_name: Annotated[str | None, typer.Option(help="Name of the source language. Default: its code.")] = None,
    to_name: Annotated[str | None, typer.Option(help="Name of the target language. Default: its code.")] = None,
    sentences: Annotated[
        Path | None,
        typer.Option(
            help="Sentence splitter to include: a MiniSBD model (.onnx) or a stanza folder. Default: none; Argos "
            "Translate downloads its own."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Export a run to a package for Argos Translate and LibreTranslate."""
    found = find_run(str(run))
    if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.]*", package_version):
        raise typer.BadParameter("a version consists of numbers and dots, such as 1.0")
    refuse_replacing([output], filter(None, [sentences]), [found])
    if output.exists() and not overwrite:
        hint = "replace it with --overwrite, or choose another name"
        raise NmtError("this path already exists", path=output, hint=hint)
    from nmt.apps.interop.argos import PackageOptions, export_argos

    export_argos(found, output, PackageOptions(package_version, from_name, to_name, sentences), quantization)
    size = output.stat().st_size / 1e6
    log.info(f"done: {output}, {size:.1f} MB\n  argostranslate.package.install_from_path({str(output)!r}) installs it")


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
