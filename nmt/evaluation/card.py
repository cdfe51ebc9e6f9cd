"""The scores of a run's test set in its model card, and how often the set was scored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import counted
from nmt.base.files import write_text

HEADING = "## Test scores"
_KEYS = ("set", "sentences", "beam_size", "length_penalty", "precision", "checkpoints", "near_twins")
_COUNTS = "counts.json"


def count_scoring(folder: Path, name: str) -> None:
    """Count in `folder` that the test set `name` was scored once more."""
    counts = {**_counts(folder), name: num_scorings(folder, name) + 1}
    write_text(folder / _COUNTS, json.dumps(counts, indent=2, ensure_ascii=False) + "\n")


def num_scorings(folder: Path, name: str) -> int:
    """Return how often the test set `name` was scored, as counted in `folder`."""
    count = _counts(folder).get(name)
    return count if isinstance(count, int) else 0


def _counts(folder: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        counts = json.loads((folder / _COUNTS).read_text(encoding="utf-8"))
        return counts if isinstance(counts, dict) else {}
    return {}


def test_record(run: RunDir, checkpoint: str | None) -> dict[str, Any]:
    """Return the test-set scores of `checkpoint` saved by `nmt eval`, without paths; empty if there are none.

    RunError if the record is damaged.
    """
    path = run.evaluations / "test.json"
    record = run.read_json(path) if path.is_file() else {}
    scores = record.get("scores")
    if record.get("checkpoints") != [checkpoint] or not isinstance(scores, dict):
        return {}
    kept = {
        name: {"value": score["value"], "signature": str(score.get("signature", ""))} | _interval(score)
        for name, score in scores.items()
        if isinstance(score, dict) and isinstance(score.get("value"), int | float) and math.isfinite(score["value"])
    }
    return {**{key: record[key] for key in _KEYS if key in record}, "scores": kept} if kept else {}


def _interval(score: dict[str, Any]) -> dict[str, Any]:
    interval = score.get("interval")
    width = interval.get("half_width") if isinstance(interval, dict) else None
    return {"interval": interval} if isinstance(width, int | float) else {}


def scores_section(run: RunDir) -> str:
    """Return the section of the card with the test scores of the best checkpoint; empty if there are none."""
    record = test_record(run, run.index().best)
    if not record:
        return ""
    lines = []
    for name, score in record["scores"].items():
        interval = f" ± {score['interval']['half_width']:.2f}" if "interval" in score else ""
        lines.append(f"- {name} {score['value']:.2f}{interval} (`{score['signature']}`)")
    if twins := record.get("near_twins"):
        lines += ["", twins_line(twins["sentences"], record["sentences"], twins["scores_without"]) + "."]
    times = num_scorings(run.evaluations, "test")
    scored = f" {counted(times, 'time')}" if times else ""
    paragraphs = (
        HEADING,
        f"On {record.get('sentences', '?')} sentences, with 95% confidence intervals:",
        "\n".join(lines),
        f"The test set was scored{scored}. The more often settings are chosen by its scores, the less these say about "
        "other\ntext.",
    )
    return "\n\n".join(paragraphs)


def twins_line(num_twins: int, num_sentences: int, others: Mapping[str, float]) -> str:
    """Return how many test sentences have a near-twin in the training data, and the scores of the others, in words."""
    scores = ", ".join(f"{name} {value:.2f}" for name, value in others.items())
    without = f"; without them: {scores}" if scores else ""
    return f"{num_twins:,} of {num_sentences:,} test sentences have a near-twin in the training data{without}"


def update_card(run: RunDir) -> None:
    """Replace or add the test scores in the run's card, if it has one; the rest of its text stays."""
    section = scores_section(run)
    if not section or not run.card.is_file():
        return
    with suppress(OSError, UnicodeDecodeError):  # of a card that the user has replaced
        before, found, old = run.card.read_text(encoding="utf-8").partition(HEADING)
        if found:
            _, mark, after = old.partition("\n## ")
        else:  # a card without scores gets them before the section on use, or at its end
            before, mark, after = before.partition("\n## Use\n")
            after = f"Use\n{after}" if mark else ""
        write_text(run.card, f"{before.rstrip()}\n\n{section}\n" + (f"\n## {after}" if mark else ""))
