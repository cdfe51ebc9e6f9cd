"""`nmt eval`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.commands.translate import Model
from nmt.data.corpus import read_lines
from nmt.errors import DataError
from nmt.evaluate import METRICS, score
from nmt.files import write_text
from nmt.rundir import find_run


def evaluate(
    model: Model = None,
    src: Annotated[Path | None, typer.Option(help="Source sentences; default: the run's test set.")] = None,
    ref: Annotated[Path | None, typer.Option(help="Their reference translations.")] = None,
    split: Annotated[Literal["test", "valid"], typer.Option(help="Which of the run's sets.")] = "test",
    metrics: Annotated[str, typer.Option(help="Of bleu, chrf and ter, with commas.")] = "bleu,chrf",
    format: Annotated[Literal["text", "json"], typer.Option(help="How to print the scores.")] = "text",
    device: Annotated[Literal["auto", "cuda", "mps", "cpu"], typer.Option(help="Where to compute.")] = "auto",
) -> None:
    """Score a run on its test set, or on given files; the hypotheses are kept in the run."""
    if (src is None) != (ref is None):
        raise typer.BadParameter("--src and --ref go together")
    names = [name.strip().lower() for name in metrics.split(",")]
    if unknown := [name for name in names if name not in METRICS]:
        raise typer.BadParameter(f"unknown metric {unknown[0]!r}; there are {', '.join(METRICS)}")
    run = find_run(model)
    typer.echo(f"model: {run.path}", err=True)
    if src is not None and ref is not None:
        sources, references, name = list(read_lines(src)), list(read_lines(ref)), src.stem
    else:
        (sources, references), name = run.read_pairs(split), split
    if len(sources) != len(references):
        mend = "line n of the references must translate line n of the sources"
        raise DataError(f"{len(sources)} sources but {len(references)} references", path=ref, mend=mend)

    from nmt.translate import Translator

    hypotheses = Translator.load(run, device).translate(sources)
    scores = score(hypotheses, references, run.config().data.tgt_lang, names)
    result = {
        "run": str(run.path),
        "checkpoint": run.best_checkpoint().stem,
        "set": name,
        "sentences": len(sources),
        "scores": {s.name: {"value": round(s.value, 2), "signature": s.signature} for s in scores},
    }
    kept = run.evaluations / f"{name}.hyp"
    write_text(kept, "".join(line + "\n" for line in hypotheses))
    run.write_json(run.evaluations / f"{name}.json", result)
    typer.echo(f"{len(sources)} sentences; hypotheses in {kept}", err=True)
    if format == "json":
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        for s in scores:
            typer.echo(f"{s.name:<5} {s.value:6.2f}  {s.signature}")
