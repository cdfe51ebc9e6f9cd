"""What training reports: one JSON object a line in the run, and progress for the person who waits."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from nmt.errors import RunError
from nmt.files import MAX_METRICS_BYTES, read_at_most, write_text

log = logging.getLogger(__name__)


class MetricsLog:
    """`logs/metrics.jsonl`: records of kind `train` and `valid`, in the order of updates."""

    def __init__(self, path: Path):
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Add one record; it is on the disk before a state that counts it in."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def forget_after(self, update: int) -> None:
        """Drop what was logged after `update`, and the average: a resumed run makes them again."""
        if self.path.exists():
            try:
                lines = read_at_most(self.path, MAX_METRICS_BYTES).decode("utf-8", errors="replace").split("\n")
            except ValueError as error:
                raise RunError(f"these are no metrics: {error}", path=self.path) from error
            write_text(self.path, "".join(line + "\n" for line in lines if _is_kept(line, update)))


def _is_kept(line: str, update: int) -> bool:
    try:
        record = json.loads(line)
        return record["update"] <= update and record.get("checkpoint") != "average"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False  # a line cut short by a crash


class Progress:
    """A tqdm bar where stderr is a terminal, plain lines elsewhere."""

    def __init__(self, max_updates: int, start: int, silent: bool = False):
        """`silent`: say nothing, as one process speaks for several."""
        self.max_updates = max_updates
        self.silent = silent
        self.bar = tqdm(
            total=max_updates, initial=start, unit="update", disable=silent or not sys.stderr.isatty(), smoothing=0.05
        )

    def advance(self) -> None:
        """One update is done."""
        self.bar.update(1)

    def report(self, record: dict[str, Any], seconds_left: float) -> None:
        """Show a `train` record."""
        loss = "none" if record["loss"] is None else f"{record['loss']:.3f}"
        shown = f"loss {loss}  {record['tokens_per_second']:,.0f} tokens/s  "
        shown += f"{record['utilization']:.0%} of peak  lr {record['lr']:.2e}"
        if self.bar.disable:
            left = f"{seconds_left / 60:.0f} min left"
            log.info(f"update {record['update']}/{self.max_updates}  {shown}  {left}")
        else:
            self.bar.set_postfix_str(shown)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self.bar.close()
