"""`nmt info` and `nmt plot`: describe a model or a folder, and draw the learning curves of a run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt.apps.commands.folder import describe_folder, state_of
from nmt.apps.commands.options import AsJson
from nmt.apps.commands.streams import print_text
from nmt.artifacts.find_model import find_runs
from nmt.artifacts.replacing import refuse_replacing
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import printable
from nmt.base.files import to_json

if TYPE_CHECKING:
    from nmt.apps.interop.describe import ModelInfo

log = logging.getLogger(__name__)

_OF_MODELS = ("run.json", "config.yaml", "config.json", "export.json")  # files that tell a model from other folders


def info(
    model: Annotated[
        str, typer.Argument(help="Run, packed model, Hugging Face folder, or a folder with corpora and runs.")
    ] = ".",
    as_json: AsJson = False,
) -> None:
    """Describe a model, or the corpora and runs of a folder.

    Of a model, it shows size, languages, scores, license and exports; of a folder, the next command.
    """
    folder = Path(model)
    if folder.is_dir() and not any((folder / name).is_file() for name in _OF_MODELS):
        described = describe_folder(folder)
        print_text(to_json(described) if as_json else _listing(described))
        return
    from nmt.apps.interop.describe import describe_model

    found = describe_model(model)
    state, step = state_of(RunDir(folder), model) if (folder / "run.json").is_file() else ([], "")
    if as_json:
        print_text(to_json({**found._asdict(), "state": state, "next": step or None}))
    else:
        print_text(_table(found, {"state": ", ".join(state), "next": step}))


def _listing(described: dict[str, Any]) -> str:
    lines: list[str] = []
    for title, found in described.items():
        if title == "next":
            lines.append(f"next: {found}")
        else:
            lines.append(f"{title}:" if found else f"{title}: none")
            lines += [printable(f"  {name}: {said}") for name, said in found.items()]
    return "\n".join(lines)


def _table(found: ModelInfo, state: dict[str, str]) -> str:
    rows = {
        "path": found.path,
        "kind": found.kind,
        "languages": ", ".join(found.languages),
        "size": f"{found.parameters:,} parameters, {found.megabytes:,.1f} MB",
        "model": found.architecture,
        "vocabulary": ", ".join(f"{size:,} tokens ({side})" for side, size in found.vocabulary.items()),
        "scores": ", ".join(f"{name} {value:.2f}" for name, value in found.scores.items()) or "none",
        "license": found.license or "not named in README.md",
        **{name: said for name, said in state.items() if said},
    }
    lines = [f"{name:<11}{value}" for name, value in rows.items()]
    lines += [f"{'verdict' if not number else '':<11}{line}" for number, line in enumerate(found.verdict)]
    return "\n".join([*lines, *(f"{name:<24}{why or 'possible'}" for name, why in found.can_become.items())])


def plot(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Runs. Default: $NMT_MODEL, or the newest run in ./runs.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write (.svg). Default: curves.svg in the run."),
    ] = None,
) -> None:
    """Draw the learning curves of a run, or of several.

    The picture shows training and validation loss, BLEU and chrF; of several runs, validation loss and BLEU.
    """
    from nmt.evaluation.plots import draw_curves, read_metrics  # not needed by the other commands

    runs = {str(run.path): run for run in find_runs(models or None)}
    if output is None and len(runs) > 1:
        raise typer.BadParameter("a picture of several runs belongs to none of them: name a file with --output")
    (first, *_) = runs.values()
    picture = output or first.curves
    refuse_replacing([picture], [], [*runs.values()], draws_curves=True)
    names = [run.path.name for run in runs.values()]  # a legend has no room for long paths
    labels = names if len({*names}) == len(names) else [*runs]
    records = {label: read_metrics(run.metrics) for label, run in zip(labels, runs.values(), strict=True)}
    draw_curves(records, picture)
    log.info("learning curves: %s", picture)
