"""How often each test set was scored: `counts.json` in the folder of the results."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.base.files import write_text

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
