"""Options shared by several commands."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt.apps.cli import RARE_PANEL
from nmt.base.errors import ConfigError
from nmt.base.machine import request_exact_mkl
from nmt.config.search import MAX_BEAM_SIZE, MAX_HYPOTHESES
from nmt.decoding.engines.interface import DeviceName, EngineName, PrecisionName

if TYPE_CHECKING:
    from nmt.artifacts.rundir import RunDir
    from nmt.config import SearchOptions
    from nmt.translation import Translator
    from nmt.translation.chain import Chain

log = logging.getLogger(__name__)

SEARCH_PANEL = "Search (defaults: those of the run)"


def not_dash(path: Path | None) -> Path | None:
    """Read `-` as an omitted option, which means standard input or standard output."""
    return None if path == Path("-") else path


def rare_option(*flags: str, **details: Any) -> Any:
    """Return an option in the last group of the help."""
    return typer.Option(*flags, rich_help_panel=RARE_PANEL, **details)


Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="Run directory, packed model or hf:user/name. Default: $NMT_MODEL, or the most recently trained run in "
        "./runs. Repeat for an ensemble.",
    ),
]
NewestRun = Annotated[
    str | None, typer.Argument(metavar="RUN", help="Run. Default: $NMT_MODEL, or the newest run in ./runs.")
]
Checkpoint = Annotated[
    str | None,
    rare_option(help="Checkpoint of the run to use, for example step-00002000 or average. Default: the best."),
]
ConfigPath = Annotated[Path, typer.Option("--config", "-c", help="Configuration file (YAML).")]
NewRun = Annotated[Path, typer.Option("--run", help="Run directory to write.")]
ReplaceRun = Annotated[bool, typer.Option("--overwrite", help="Replace the run if it exists.")]
ReplaceFile = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the --output of an interrupted run after its last line.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override one configuration key, for example training.lr=1e-3. May be repeated.",
    ),
]
Precision = Annotated[
    PrecisionName,
    rare_option(
        help="auto: int8 with the native engine, unless it lowers the run's quality; with torch, bf16 on GPUs where it "
        "is faster, else fp32.",
    ),
]
Engine = Annotated[
    EngineName,
    rare_option(
        help="Engine. auto: phrase, if the phrase table of the run is better than its network; else native, the "
        "fastest on a CPU, if it supports the model; else torch."
    ),
]
Device = Annotated[DeviceName, rare_option(help="Device to run on.")]
To = Annotated[
    str | None,
    typer.Option(
        metavar="LANG",
        help="Target language, such as fr. Needed if the model has several, unless texts start with a language tag.",
    ),
]
From = Annotated[
    str | None,
    rare_option(
        "--from",
        metavar="LANG",
        help="Source language, for M2M-100 models with several, and if they write sentences differently, such as zh "
        "and en. Default: the first one for --to in the configuration.",
    ),
]


def _search_option(*flags: str, **details: Any) -> Any:
    """Return an option of the search; without it, the value of the run counts."""
    return typer.Option(*flags, rich_help_panel=SEARCH_PANEL, **details)


Beam = Annotated[
    int | None, _search_option("--beam", min=1, max=MAX_BEAM_SIZE, metavar="N", help="Beam size; 1 is greedy search.")
]
NBest = Annotated[
    int | None,
    _search_option(
        min=1, max=MAX_HYPOTHESES, metavar="N", help="Number of translations per input, best first, one per line."
    ),
]
SearchSettings = Annotated[
    list[str],
    _search_option(
        "--set",
        metavar="KEY=VALUE",
        help="Set any key of the section decoding, such as decoding.split=never, length_penalty, sample, temperature, "
        "rerank or shortlist. May be repeated.",
    ),
]


class SearchFlags:
    """The search options given on the command line."""

    def __init__(self, settings: Sequence[str], **flags: object):
        """Keep the values given by --set, and by flags, by field of `SearchOptions` (None: not given).

        ConfigError if a setting is malformed, or is not one of the section `decoding`.
        """
        self.given = {name: value for name, value in flags.items() if value is not None}
        if settings:
            from nmt.config.load import load_search

            self.given |= load_search(settings)

    def change(self, options: SearchOptions) -> SearchOptions:
        """Return `options` changed by the given flags; typer.BadParameter if they conflict."""
        without_beam = {"beam_size": 1} if self.given.get("sample") is True else {}  # whatever the run's search is
        try:
            return options.changed(**without_beam | self.given)
        except ConfigError as error:
            raise typer.BadParameter(error.message.removeprefix("SearchOptions: ")) from None


def find_models(models: list[str] | None, checkpoint: str | None = None) -> Sequence[RunDir]:
    """Return the runs that --model names, or the default model, which is logged.

    `checkpoint` names the weights to use instead of the best ones, for a single run. RunError if it does not exist.
    """
    from nmt.artifacts.find_model import find_run  # only here: `nmt data` has these options, and no model

    if models and len(models) > 1:
        return [find_run(model) for model in models]
    run = find_run(models[0] if models else None)
    if checkpoint is not None:
        run.use_checkpoint(checkpoint)
    if not models:
        log.info("model: %s", run.path)
    return [run]


def load_translator(
    models: Sequence[RunDir], engine: EngineName, device: DeviceName, precision: PrecisionName, *, scores: bool = False
) -> Translator:
    """Load what `find_models` found, with the fastest environment settings; with scores, or without."""
    request_exact_mkl()
    for run in models:
        run.verify_ahead()
    from nmt.translation import Translator  # while the weights are verified

    return Translator.load(models, engine=engine, device=device, precision=precision, scores=scores)


def load_chain(
    models: Sequence[RunDir],
    engine: EngineName,
    device: DeviceName,
    precision: PrecisionName,
    *,
    scores: bool,
    last: Sequence[RunDir],
) -> Chain:
    """Load a chain of what `find_models` found; a model `last` translates what the others translated."""
    row = [models, last] if last else [models]
    translators = [load_translator(each, engine, device, precision, scores=scores) for each in row]
    from nmt.translation.chain import Chain

    return Chain(translators)
