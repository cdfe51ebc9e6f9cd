"""Draw learning curves: the loss and scores of a run over its updates."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from nmt.base.errors import RunError
from nmt.base.files import MAX_METRICS_BYTES, read_at_most
from nmt.evaluation.plots.drawing import drawing, require_svg, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = list[tuple[int, float]]  # (update, value), by update
Records = list[dict[str, Any]]  # of a metrics.jsonl
_MAX_DRAWN = 1e12  # training writes no larger numbers, and matplotlib cannot scale an axis to 1e308
_TRAIN, _VALID, _CHRF = "#9db8d2", "#1f4e79", "#c8641e"
_OF_RUNS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe and Ito (2008)


def read_metrics(path: Path) -> Records:
    """Read the records of a metrics.jsonl, one JSON object per line.

    A last line without a line end is skipped, because a running training is still writing it. For any other line that
    is not a JSON object, raises RunError with the line number.
    """
    try:
        lines = read_at_most(path, MAX_METRICS_BYTES).decode("utf-8").split("\n")[:-1]
    except FileNotFoundError as error:
        raise RunError("no metrics yet", path=path, hint="train the run first") from error
    except ValueError as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise RunError(f"not a metrics file: {reason}", path=path) from error
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RunError("not a line of JSON", path=path, line=number) from error
        if not isinstance(record, dict):
            raise RunError("not a JSON object", path=path, line=number)
        records.append(record)
    return records


def draw_curves(records: Records | Mapping[str, Records], path: Path | str) -> None:
    """Write the learning curves in `records` to `path` (.svg): loss on the left, BLEU and chrF on the right.

    `records` are those of metrics.jsonl: `{"kind": "train", "update", "loss", ...}` and `{"kind": "valid", "update",
    "loss", "bleu", "chrf", ...}`, with losses in nats per token and scores 0-100. If an update was recorded twice (by a
    resumed run), the later record counts. A record whose update or value is not a number leaves a gap. A star marks the
    best validation of each curve. Of several runs, given by name, the validation loss and BLEU are drawn. RunError if
    there is no loss to draw.
    """
    require_svg(path)
    runs = records if isinstance(records, Mapping) else {"": records}
    if not any(_series(each, kind, "loss") for each in runs.values() for kind in ("train", "valid")):
        raise RunError("no metrics yet", hint="train the run first")
    with drawing():
        save_picture(_figure(runs), path)


def _series(records: Records, kind: str, key: str) -> Points:
    points = {}
    for record in records:
        update = record.get("update")
        value = record.get(key)
        if record.get("kind") == kind and _can_be_drawn(update) and _can_be_drawn(value):
            points[int(update)] = float(value)
    return sorted(points.items())


def _can_be_drawn(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_DRAWN


def _figure(runs: Mapping[str, Records]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08, wspace=0.06)  # type: ignore[union-attr, call-arg]
    losses, scores = figure.subplots(1, 2)
    of_several = len(runs) > 1
    for number, (name, records) in enumerate(runs.items()):
        loss, bleu = (_series(records, "valid", key) for key in ("loss", "bleu"))
        color, label = (_OF_RUNS[number % len(_OF_RUNS)], name) if of_several else (_VALID, "")
        if not of_several:
            losses.plot(*_columns(_series(records, "train", "loss")), color=_TRAIN, linewidth=1.2, label="training")
        _curve(losses, loss, label or "validation", color, best=min, digits=3)
        _curve(scores, bleu, label or "BLEU", color, best=max, digits=1)
        if not of_several:
            _curve(scores, _series(records, "valid", "chrf"), "chrF", _CHRF, best=max, digits=1)
    _finish(losses, "Validation loss" if of_several else "Loss", "nats per target token")
    _finish(scores, "Validation BLEU (fp32)" if of_several else "Validation scores (fp32)", "score, 0-100")
    return figure


def _columns(points: Points) -> tuple[list[int], list[float]]:
    return [update for update, _ in points], [value for _, value in points]


def _curve(axes: Axes, points: Points, label: str, color: str, *, best: Callable[..., Any], digits: int) -> None:
    """Draw a curve with a mark at each validation and a star, with its value, at the best (`min` or `max`)."""
    if not points:
        return
    update, value = best(points, key=lambda point: point[1])
    name = f"{label}: best {value:.{digits}f} at update {update:,}"
    mark = 3.5 if len(points) <= 60 else 0
    axes.plot(*_columns(points), color=color, linewidth=1.6, marker="o", markersize=mark, label=name)
    axes.plot([update], [value], color=color, marker="*", markersize=14, markeredgecolor="white", zorder=5)


def _finish(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, loc="left", fontsize=12)
    axes.set_xlabel("update", color="0.3")
    axes.set_ylabel(unit, color="0.3")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(color="0.6", labelcolor="0.3", labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("0.6")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9)
