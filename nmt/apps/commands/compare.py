"""`nmt compare`: compare several runs side by side."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nmt.apps.commands.streams import print_text
from nmt.artifacts.find_model import find_run, is_in_one_file
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.base.files import to_json
from nmt.base.tables import TableFormat, formatted

if TYPE_CHECKING:
    from nmt.evaluation.runs import RunComparison, RunSummary

log = logging.getLogger(__name__)

_NAME_MODELS = "give folders made by `nmt train`, or files made by `nmt pack`"
_MAX_VALUE = 24  # characters of a setting in the table

Runs = Annotated[list[Path] | None, typer.Argument(help="Runs or packed models. Default: all runs in ./runs.")]


Format = Annotated[
    Literal["text", "markdown", "latex", "json"],
    typer.Option(help="Tables for reading, for a page or for a paper, or one JSON object with whole settings."),
]


def compare(runs: Runs = None, format: Format = "text") -> None:
    """Compare models: scores, size, minutes, settings that differ.

    For each run or packed model: BLEU and chrF of its best checkpoint on the validation set, and the test-set
    scores that `nmt eval` saved. For runs that differ only in their seeds: mean and standard deviation.
    Of two such groups, it tests the difference.
    """
    from nmt.evaluation.runs import compare_runs

    found = _find_models(runs)
    comparison = compare_runs(list(found.values()), list(found))
    for warning in comparison.warnings:
        log.warning(warning)
    print_text(to_json(asdict(comparison), indent=2) if format == "json" else "\n".join(_render(comparison, format)))


def _find_models(given: list[Path] | None) -> dict[str, RunDir]:
    """Return the models among the given paths, by name; RunError if there are none, or if a path does not exist."""
    candidates = {str(path): _model_at(path) for path in given or sorted(Path("runs").glob("[!.]*"))}
    found = {name: model for name, model in candidates.items() if model is not None}
    if not found:
        raise RunError("no run to compare", hint=f"train one, or {_NAME_MODELS}")
    if left_out := [name for name in candidates if name not in found]:
        log.info("skipped, because they are not runs: %s", ", ".join(left_out))
    return found


def _model_at(path: Path) -> RunDir | None:
    """Return the run, packed model or model on the Hub; None for another file or folder."""
    if is_in_one_file(path):
        return find_run(str(path))
    if not path.exists():
        raise RunError("no such run", path=path, hint=_NAME_MODELS)
    return RunDir(path) if RunDir(path).config_file.is_file() else None


def _render(comparison: RunComparison, format: TableFormat) -> Iterator[str]:
    """Yield the lines of the tables, with an empty line between two."""
    for number, (title, rows, texts) in enumerate(_tables(comparison)):
        yield from [""] * (number > 0)
        yield from {"text": [title], "markdown": [title, ""], "latex": [f"% {title}"]}[format] if title else []
        yield from formatted(rows, texts, format)


def _tables(comparison: RunComparison) -> Iterator[tuple[str, list[list[str]], int]]:
    """Yield runs, settings that differ, spreads over seeds, and groups: title, rows, and the number of text columns."""
    names = list(dict.fromkeys(name for run in comparison.runs for name in run.scores))
    head = ["", "run", *names, "parameters", "minutes", "seed"]
    yield "", [head, *(_row(number, run, names) for number, run in enumerate(comparison.runs, 1))], 2
    if comparison.differing:
        head = ["setting", *(str(number) for number in range(1, len(comparison.runs) + 1))]
        rows = [
            [key, *(_value(run.settings[key]) if key in run.settings else "-" for run in comparison.runs)]
            for key in comparison.differing
        ]
        yield "", [head, *rows], 1
    for seeds in comparison.seeds:
        rows = [[name, f"{mean:.2f} ± {deviation:.2f}"] for name, (mean, deviation) in seeds.scores.items()]
        title = f"mean and standard deviation of {len(seeds.runs)} seeds: {', '.join(seeds.runs)}"
        yield title, [["score", "mean"], *rows], 1
    for group in comparison.groups:
        rows = [["score", "difference", "95% interval", "p", "over"]]
        for each in group.differences:
            over = "seeds and sentences" if each.over_sentences else "seeds"
            interval = f"{each.low:+.2f} to {each.high:+.2f}"
            rows.append([each.name, f"{each.value:+.2f}", interval, f"{each.p_value:.3f}", over])
        yield f"mean of {', '.join(group.first)}, minus that of {', '.join(group.second)}", rows, 1


def _row(number: int, run: RunSummary, names: Sequence[str]) -> list[str]:
    scores = [f"{run.scores[name]:.2f}" if name in run.scores else "-" for name in names]
    parameters = "-" if run.parameters is None else f"{run.parameters / 1e6:.2f}M"
    minutes = "-" if run.minutes is None else f"{run.minutes:.1f}"
    return [str(number), run.run, *scores, parameters, minutes, str(run.seed)]


def _value(value: object) -> str:
    """Return a setting, shortened at its start, because the end of a path says more. --format json prints all of it."""
    text = value if isinstance(value, str) else to_json(value)
    return text if len(text) <= _MAX_VALUE else "…" + text[1 - _MAX_VALUE :]
