"""`nmt synthesize`: make synthetic training pairs from monolingual text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from nmt.apps.commands.identity import identify_models, identify_shortlist
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
from nmt.apps.commands.ray_options import Computation, Ray, RayWorkers, open_translator
from nmt.artifacts.exportdir import ExportDir
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.config.filters import THRESHOLDS

if TYPE_CHECKING:
    from nmt.apps.recipes.selection import Limits

Input = Annotated[
    str,
    typer.Option(
        "--input", "-i", help="Monolingual text, one sentence per line (.gz, .xz, .zst too); -: standard input."
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="File of pairs: .tsv with columns src and tgt, or .jsonl with score and line too; add .gz to compress.",
    ),
]
Forward = Annotated[
    bool,
    typer.Option(
        "--forward",
        help="Self-training and distillation: src is the given text, tgt the model's output. Default, "
        "back-translation: src is the model's output, tgt the given text.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the --output of an interrupted run after its last line.")
]
MinScore = Annotated[
    float | None,
    typer.Option(
        "--min-score",
        max=0.0,
        metavar="X",
        help="Drop outputs whose mean log-probability per token, in nats, is below X, such as -1.5.",
    ),
]
Keep = Annotated[
    float,
    typer.Option(
        "--keep",
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="Share of the valid pairs to keep, best scores first.",
    ),
]
LengthRatio = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1000.0,
        metavar="N",
        help="Drop pairs whose lengths differ from the usual ratio by more than N standard deviations (Gale and Church "
        "1993); 0: no limit.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="REASON", help="Keep pairs that would be dropped for this reason. May be repeated."),
]


@search_flags(
    "beam_size", "num_hypotheses", "length_penalty", "sample", "temperature", "top_k", "top_p", "seed", "split"
)
def synthesize(
    input: Input,
    output: Output,
    models: Models = None,
    checkpoint: Checkpoint = None,
    forward: Forward = False,
    resume: Resume = False,
    to: To = None,
    from_: From = None,
    search: SearchFlags = SearchFlags({}),  # noqa: B008 (one option per field)
    min_score: MinScore = None,
    keep: Keep = 1.0,
    length_ratio: LengthRatio = THRESHOLDS["length_ratio"],
    allow: Allow = None,
    ray: Ray = None,
    ray_workers: RayWorkers = None,
    engine: Engine = "auto",
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Make synthetic sentence pairs from monolingual text.

    Back-translation is the default: a model from en to de reads English and writes pairs (src de, tgt en) for training
    from de to en. Outputs that look wrong are dropped and counted. --output writes FILE.partial and renames it to FILE
    when complete; --resume continues a stopped command after the last line.
    """
    options = _Options(input, output, forward, resume, to, from_)
    limits = _limits(min_score, keep, length_ratio, allow or [])
    computation = Computation(engine, device, precision, ray, ray_workers)
    _run(options, find_models(models, checkpoint), search, limits, computation)


class _Options(NamedTuple):
    """The files of a command, and what they are for."""

    input: str
    output: Path
    forward: bool
    resume: bool
    to: str | None
    from_: str | None


def _run(
    options: _Options, models: list[RunDir] | ExportDir, search: SearchFlags, limits: Limits, computation: Computation
) -> None:
    from nmt.apps.commands.synthesis import Synthesis, check_files
    from nmt.apps.commands.synthetic_corpus import CorpusWriter, form_of
    from nmt.apps.ray.ray_worker import checksums_of_weights
    from nmt.translation.blocks import Request

    form = form_of(options.output)
    computation.check()
    check_files(options.input, options.output, models)
    scores = limits.needs_scores or form == "jsonl"
    with open_translator(models, computation, token_scores=scores) as translator:
        found = search.change(translator.options)
        if isinstance(models, ExportDir) and found.sample:
            raise NmtError("CTranslate2 cannot draw samples line by line", path=models.path, hint="sample with the run")
        direction = translator.languages.direction(options.to, options.from_)
        corpus = CorpusWriter(options.output, form, direction, options.forward)
        request = Request(found, None, options.to, options.from_, draw_by_line=True)
        synthesis = Synthesis(options.input, corpus, limits, request)
        synthesis.log_plan()
        weights = [*checksums_of_weights(models)]
        identity = {"models": identify_models(models), "weights": weights, **identify_shortlist(models, found)}
        synthesis.run(translator, identity, resume=options.resume)


def _limits(min_score: float | None, keep: float, length_ratio: float, allowed: list[str]) -> Limits:
    """Return the requirements on a pair given by the options."""
    from nmt.apps.recipes.candidates import FAULTS
    from nmt.apps.recipes.selection import Limits

    for reason in allowed:
        if reason not in FAULTS:
            raise typer.BadParameter(f"--allow {reason}: the reasons are {', '.join(FAULTS)}")
    return Limits(length_ratio or None, min_score, keep, frozenset(allowed))
