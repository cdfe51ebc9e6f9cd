"""Count how often each test set was scored: `counts.json` in the folder of the results."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import TypeAdapter

from nmt.base.files import write_text

_COUNTS = "counts.json"


def count_scoring(folder: Path, name: str) -> None:
    """Count in `folder` that the test set `name` was scored once more."""
    counts = {**_counts(folder), name: num_scorings(folder, name) + 1}
    write_text(folder / _COUNTS, json.dumps(counts, indent=2, ensure_ascii=False) + "\n")


def num_scorings(folder: Path, name: str) -> int:
    """Return how often the test set `name` was scored, as counted in `folder`."""
    return _counts(folder).get(name, 0)


def _counts(folder: Path) -> dict[str, int]:
    try:
        return TypeAdapter(dict[str, int]).validate_json((folder / _COUNTS).read_bytes())
    except (OSError, ValueError):  # there are none, or they are damaged
        return {}
