"""`nmt export`: write a run in the format of another runtime."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.options import ReplaceFile
from nmt.apps.commands.outputs import refuse_existing
from nmt.apps.interop.export_folder import Quantization
from nmt.artifacts.find_model import find_run
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import RunDir
from nmt.decoding.engines.selection import prefers_phrases

log = logging.getLogger(__name__)

RunToExport = Annotated[Path, typer.Argument(help="Run to export.")]
NewFolder = Annotated[Path, typer.Argument(help="Folder to write.")]

app = typer.Typer(help="Export a run for another runtime.", no_args_is_help=True)


@app.command()
def ctranslate2(
    run: RunToExport,
    out: NewFolder,
    quantization: Annotated[
        Quantization, typer.Option(help="Format of the stored weights; none: fp32. See docs/how-to/export.md.")
    ] = "none",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the export if it exists.")] = False,
) -> None:
    """Export a run to CTranslate2, and check that it translates like the run."""
    found = _find(run, out)
    from nmt.apps.interop.export import export_ctranslate2

    export_ctranslate2(found, out, quantization=quantization, overwrite=overwrite)
    _log_done(out, f"ctranslate2.Translator({str(out)!r}) loads it")


@app.command()
def hf(
    run: RunToExport,
    out: NewFolder,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it is such an export.")] = False,
) -> None:
    """Export a run to a Hugging Face folder, which the transformers library loads (as a Marian or Pegasus model)."""
    found = _find(run, out)
    from nmt.apps.interop.hf_export import export_hf

    export_hf(found, out, overwrite=overwrite)
    _log_done(out, f"AutoModelForSeq2SeqLM.from_pretrained({str(out)!r}) reads it")


@app.command()
def argos(
    run: RunToExport,
    out: Annotated[Path, typer.Argument(help="File to write, such as de_en.argosmodel.")],
    overwrite: ReplaceFile = False,
) -> None:
    """Export a run, quantized to int8, to a package for Argos Translate and LibreTranslate."""
    found = _find(run, out)
    refuse_existing(out, overwrite=overwrite)
    from nmt.apps.interop.argos import export_argos

    export_argos(found, out)
    _log_done(out, f"argostranslate.package.install_from_path({str(out)!r}) installs it")


@app.command()
def web(
    run: RunToExport,
    out: NewFolder,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the web page if it exists.")] = False,
) -> None:
    """Export a run to a web page that translates in the reader's browser, without a server."""
    found = _find(run, out)
    from nmt.apps.web.export import export_web

    export_web(found, out, overwrite=overwrite)
    _log_done(out, f"try it: python -m http.server --directory {out}")


def _find(run: Path, out: Path) -> RunDir:
    """Return the run to export. NmtError if there is none, or if the export would replace it."""
    found = find_run(str(run))
    refuse_replacing([out], [], [found])
    if prefers_phrases([found]):
        log.warning("exporting the network only: nmt translates with the phrase table of this run, which is better")
    return found


def _log_done(out: Path, use: str) -> None:
    """Log the size of the file or folder `out`, and how to use it."""
    megabytes = sum(path.stat().st_size for path in (out, *out.rglob("*")) if path.is_file()) / 1e6
    log.info(f"done: {out}, {megabytes:.1f} MB\n  {use}")
