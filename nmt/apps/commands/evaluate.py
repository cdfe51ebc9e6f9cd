"""`nmt eval`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.apps.commands.comet import prepared_metrics
from nmt.apps.commands.evaluation import Computation
from nmt.apps.commands.evaluation_request import Request, run_evaluation
from nmt.apps.commands.options import (
    Checkpoint,
    Device,
    Engine,
    From,
    Models,
    Precision,
    SearchFlags,
    To,
    find_models,
    search_flags,
)
from nmt.apps.commands.outputs import refuse_replacing, refuse_unwritable
from nmt.apps.commands.test_sets import Files, Languages, read_set
from nmt.artifacts.exportdir import ExportDir
from nmt.artifacts.rundir import RunDir
from nmt.config.data import AUGMENT_KINDS
from nmt.evaluation import METRICS
from nmt.evaluation.scores import COMET, DEFAULT_COMET_MODEL

Source = Annotated[Path | None, typer.Option(help="Source sentences to translate. Default: the run's test set.")]
Reference = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Reference translations for --src. Repeat for several references."),
]
Table = Annotated[Path | None, typer.Option(help="Tab-separated file: source, reference; instead of --src and --ref.")]
Split = Annotated[Literal["test", "valid"], typer.Option(help="Data set of the run to evaluate on.")]
Hypotheses = Annotated[
    Path | None,
    typer.Option(
        "--hyp",
        help="File of translations to score, one per line, instead of translating. With --ref or --tsv it needs no "
        "model: give the target language with --to.",
    ),
]
Compare = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="OTHER",
        help="Run, export or file of translations of the same sentences to compare with. Tests whether the difference "
        "is significant. May be repeated.",
    ),
]
SignificanceTest = Annotated[
    Literal["bootstrap", "randomization"],
    typer.Option(
        "--significance",
        help="Test for --compare: paired bootstrap resampling (1,000 samples) or approximate randomization (10,000 "
        "trials).",
    ),
]
MetricNames = Annotated[str, typer.Option(help="Comma-separated metrics: bleu, chrf, chrf++, ter, spbleu, comet.")]
CometModel = Annotated[
    str | None,
    typer.Option(
        "--comet-model",
        help="Model for the comet metric: a name on the Hugging Face Hub, or a COMET folder or checkpoint (.ckpt). "
        f"Default: {DEFAULT_COMET_MODEL}.",
    ),
]
Augment = Annotated[
    str,
    typer.Option(
        help="Comma-separated kinds of changes, as in data.augment: upper, title, typos, no_final_punctuation, noise, "
        "merge, emoji. After the unchanged set, score it once per kind with every pair changed in that way. typos and "
        "noise change only the source, the others also the reference. Scores are case-sensitive."
    ),
]
ShowDetails = Annotated[
    bool,
    typer.Option(
        "--details",
        help="Also print scores by sentence length, by rare words and by words that are not in the training data; the "
        "number of outputs that are empty, copied, in the wrong language, looped, too short or too long; and the 30 "
        "worst sentences.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(help="Write scores and details, with every sentence, as a self-contained HTML page."),
]
Format = Annotated[Literal["text", "json"], typer.Option(help="Output format.")]


@search_flags("beam_size", "length_penalty", "sample", "temperature", "seed")
def evaluate(
    models: Models = None,
    checkpoint: Checkpoint = None,
    to: To = None,
    from_: From = None,
    src: Source = None,
    ref: Reference = None,
    tsv: Table = None,
    split: Split = "test",
    hyp: Hypotheses = None,
    compare: Compare = None,
    significance: SignificanceTest = "bootstrap",
    metrics: MetricNames = "bleu,chrf",
    comet_model: CometModel = None,
    augment: Augment = "",
    details: ShowDetails = False,
    report: Report = None,
    format: Format = "text",
    search: SearchFlags = SearchFlags({}),  # noqa: B008 (one option per field)
    engine: Engine = "auto",
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Compute BLEU, chrF, TER and COMET, with confidence intervals.

    Evaluates on the run's test set or on your own files. Saves hypotheses and scores in the folder `eval` of the run
    or export.
    """
    files, kinds = Files(src, ref or [], tsv), _names(augment, AUGMENT_KINDS, "kind of change") if augment else []
    _check_usage(files, hyp, kinds, checkpoint)
    _refuse_idle(files, split, hyp, compare or [], search)
    names = _metric_names(metrics, comet_model)
    found = find_models(models, checkpoint) if hyp is None or models or not files else None
    _check_report(report, [hyp, files.src, files.tsv, *files.refs, comet_model, *(compare or [])], found or ())
    test_set = read_set(found, files, split, Languages(to, from_))
    with prepared_metrics(names, test_set, comet_model or DEFAULT_COMET_MODEL, device) as chosen:
        request = Request(chosen, kinds, hyp, compare or [], significance, details, report, format)
        run_evaluation(request, test_set, found, checkpoint, Computation(search, engine, device, precision))


def _refuse_idle(files: Files, split: str, hyp: Path | None, compared: list[str], search: SearchFlags) -> None:
    """Reject options that would have no effect."""
    if files and split != "test":
        raise typer.BadParameter("--split names a data set of the run; omit it, or the files")
    if hyp is not None and search.given and not compared:
        raise typer.BadParameter("--hyp scores a file; search options need a model")


def _check_report(
    report: Path | None, inputs: Sequence[Path | str | None], found: Sequence[RunDir] | ExportDir
) -> None:
    """Raise NmtError if the report cannot be written, or would replace an input."""
    if report is not None:
        refuse_unwritable(report)
        refuse_replacing([report], [Path(name) for name in inputs if name], found)


def _metric_names(given: str, comet_model: str | None) -> list[str]:
    """Return the metrics in lower case. typer.BadParameter if one is unknown, or comet is missing for `comet_model`."""
    names = _names(given, (*METRICS, COMET.lower()), "metric")
    if comet_model is not None and COMET.lower() not in names:
        raise typer.BadParameter("--comet-model needs the comet metric; add comet to --metrics")
    return names


def _names(given: str, known: Sequence[str], what: str) -> list[str]:
    names = [name.strip().lower() for name in given.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"unknown {what} {unknown[0]!r}; choose from {', '.join(known)}")
    return list(dict.fromkeys(names))


def _check_usage(files: Files, hyp: Path | None, kinds: list[str], checkpoint: str | None) -> None:
    """Reject conflicting options before computing anything."""
    if (files.src is not None and not files.refs) or (files.src is None and files.refs and hyp is None):
        raise typer.BadParameter("--src and --ref go together")
    if files.tsv is not None and (files.src is not None or files.refs):
        raise typer.BadParameter("give --src and --ref, or --tsv, not both")
    if hyp is not None and (kinds or checkpoint is not None):
        raise typer.BadParameter("--hyp scores a file; --augment and --checkpoint need a model")
    if kinds and len(files.refs) > 1:
        raise typer.BadParameter("--augment works with only one reference; give one --ref")
