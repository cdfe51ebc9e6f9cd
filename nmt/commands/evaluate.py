"""`nmt eval`."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nmt.commands.options import Device, Model, Precision, SearchFlags, load_translator, search_flags
from nmt.config import SearchOptions
from nmt.data.corpus import read_lines
from nmt.errors import DataError
from nmt.evaluate import METRICS, MetricScore, score
from nmt.files import sha256_of, write_text
from nmt.rundir import RunDir, find_run

log = logging.getLogger(__name__)


@search_flags("beam_size", "length_penalty")
def evaluate(
    model: Model = None,
    src: Annotated[Path | None, typer.Option(help="Source sentences; default: the run's test set.")] = None,
    ref: Annotated[Path | None, typer.Option(help="Their reference translations.")] = None,
    split: Annotated[Literal["test", "valid"], typer.Option(help="Which of the run's sets.")] = "test",
    metrics: Annotated[str, typer.Option(help="Of bleu, chrf and ter, with commas.")] = "bleu,chrf",
    format: Annotated[Literal["text", "json"], typer.Option(help="How to print the scores.")] = "text",
    search: SearchFlags = SearchFlags({}),  # noqa: B008 (one option per field)
    device: Device = "auto",
    precision: Precision = "fp32",
) -> None:
    """Score a run with BLEU, chrF or TER on its test set or on your files. Hypotheses are saved in the run."""
    if (src is None) != (ref is None):
        raise typer.BadParameter("--src and --ref go together")
    names = [name.strip().lower() for name in metrics.split(",")]
    if unknown := [name for name in names if name not in METRICS]:
        raise typer.BadParameter(f"unknown metric {unknown[0]!r}; there are {', '.join(METRICS)}")
    run = find_run(model)
    log.info(f"model: {run.path}")
    name, sources, references = _read(run, split, src, ref)
    options = search.change(run.config().decoding)
    hypotheses, precision_used = _translate(run, sources, device, precision, options)
    scores = score(hypotheses, references, run.config().data.tgt_lang, names)
    result = {
        "run": str(run.path),
        "checkpoint": run.usable_checkpoint().stem,
        "set": name,
        "sentences": len(sources),
        "beam_size": options.beam_size,
        "precision": precision_used,
        "scores": {s.name: {"value": round(s.value, 2), "signature": s.signature} for s in scores},
    }
    _print(scores, result, format)
    kept = run.evaluations / f"{name}.hyp"
    write_text(kept, "".join(line + "\n" for line in hypotheses))
    run.write_json(run.evaluations / f"{name}.json", result)
    log.info(f"{len(sources)} sentences; hypotheses in {kept}")


def _read(run: RunDir, split: str, src: Path | None, ref: Path | None) -> tuple[str, list[str], list[str]]:
    """(name to keep the result under, sources, references)."""
    if src is None or ref is None:
        return split, *run.read_pairs(split)
    sources, references = list(read_lines(src)), list(read_lines(ref))
    if len(sources) != len(references):
        hint = "line n of the references must translate line n of the sources"
        raise DataError(f"{len(sources)} sources but {len(references)} references", path=ref, hint=hint)
    # With a mark of its contents, so that another file of the name, or the run's test set, keeps its own result.
    return f"{src.stem}-{sha256_of(src)[:8]}", sources, references


def _translate(
    run: RunDir, sources: list[str], device: str, precision: str, options: SearchOptions
) -> tuple[list[str], str]:
    """The translations, and the precision that they were computed in."""
    translator = load_translator([run], device, precision=precision)
    translations = translator.translate(sources, options)
    for number, translation in enumerate(translations, 1):
        if translation.truncated:
            log.warning(f"source {number} is longer than {translator.max_src_len} tokens; its end is not translated")
    return [translation.text for translation in translations], translator.engine.precision


def _print(scores: list[MetricScore], result: dict[str, Any], format: str) -> None:
    if format == "json":
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False))
        return
    for s in scores:
        typer.echo(f"{s.name:<5} {s.value:6.2f}  {s.signature}")
