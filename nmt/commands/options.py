"""What several commands share: options, and how they speak to the person."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nmt.decoding.options import SearchOptions
from nmt.errors import RunError
from nmt.exportdir import ExportDir, find_model, is_export
from nmt.rundir import RunDir, find_run

log = logging.getLogger(__name__)

Model = Annotated[
    str | None, typer.Option("--model", "-m", help="The run; default: $NMT_MODEL, else the newest in ./runs.")
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="The run, or its export; default: $NMT_MODEL, else the newest run in ./runs. Given again: an ensemble.",
    ),
]
Overrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change one key, such as training.lr=1e-3.")
]
Precision = Annotated[
    Literal["auto", "fp32", "bf16", "int8"],
    typer.Option("--precision", help="What a run's model computes in. auto: bf16 where it is faster; int8: on a CPU."),
]
Device = Annotated[Literal["auto", "cuda", "mps", "cpu"], typer.Option("--device", help="Where to compute.")]

Beam = Annotated[int | None, typer.Option("--beam", min=1, help="Beam size; 1: greedy. Default: the run's.")]
NBest = Annotated[int | None, typer.Option("--n-best", min=1, help="Outputs a text, best first; one a line.")]
LengthPenalty = Annotated[
    float | None, typer.Option("--length-penalty", min=0.0, help="Rank by log-probability / tokens^PENALTY.")
]
NoRepeatNgram = Annotated[
    int | None, typer.Option("--no-repeat-ngram", min=0, help="No n-gram of so many tokens comes twice.")
]
MinLength = Annotated[int | None, typer.Option("--min-length", min=0, help="Fewest tokens of an output.")]
MaxLength = Annotated[
    int | None, typer.Option("--max-length", min=1, help="Most tokens of an output, the end counted.")
]
Exact = Annotated[bool | None, typer.Option("--exact/--no-exact", help="Run the beam until no better output can come.")]
Prefix = Annotated[str | None, typer.Option("--prefix", help="What every translation begins with.")]
Sample = Annotated[bool, typer.Option("--sample", help="Draw at random; --n-best of them.")]
Temperature = Annotated[float | None, typer.Option("--temperature", help="Of --sample: less than 1 is bolder.")]
TopK = Annotated[int | None, typer.Option("--top-k", min=0, help="Of --sample: among the k most probable tokens.")]
TopP = Annotated[
    float | None, typer.Option("--top-p", help="Of --sample: among the fewest tokens with this probability.")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Of --sample.")]


def find_models(models: list[str] | None) -> list[RunDir] | ExportDir:
    """The runs or the export that --model names, or what to use where it names none, which is said."""
    if models and len(models) > 1:
        for model in models:
            if is_export(Path(model)):
                raise RunError("an export cannot be in an ensemble", path=model, hint="name runs, or the export alone")
        return [find_run(model) for model in models]
    found = find_model(models[0] if models else None)
    if not models:
        log.info(f"model: {found.path}")
    return found if isinstance(found, ExportDir) else [found]


def changed_options(
    options: SearchOptions, *, sample: bool = False, max_length: int | None = None, **flags: Any
) -> SearchOptions:
    """The run's `options`, changed by what was asked for on the command line: `flags` that are None change nothing.

    Raises typer.BadParameter where they do not go together.
    """
    changes = {name: value for name, value in flags.items() if value is not None}
    if max_length is not None:
        changes |= {"max_len_factor": 0.0, "max_len_offset": max_length}
    if sample:  # the run's own search is another one
        changes = {"beam_size": 1, "exact": False, **changes, "sample": True}
    try:
        return replace(options, **changes)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
