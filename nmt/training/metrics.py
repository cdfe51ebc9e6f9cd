"""The records of a training, and the log that holds them: `logs/metrics.jsonl`."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from nmt.artifacts.rundir import AVERAGE
from nmt.base.errors import RunError
from nmt.base.files import MAX_METRICS_BYTES, read_at_most, write_text

Number = Annotated[int, Field(ge=0, le=1 << 40)]  # checked when a training state is read
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class TrainRecord:
    """One log line: means over the updates since the previous line."""

    kind: Literal["train"] = "train"
    update: int
    epoch: int
    loss: float | None  # nats per real target token; None if no update was finite
    lr: float
    grad_norm: float | None  # before clipping
    skipped: int  # updates whose loss or gradient was not finite
    tokens_per_second: float  # real target tokens
    flops_per_second: float  # FLOPs that the model needs, without padding
    num_micro_batches: int  # per batch
    num_launched: int = 0  # batches of this rank that were not replayed although there is a recording for them
    reading_share: float  # share of the time that the host spends reading batches
    utilization: float  # flops_per_second as a share of the speed of a large matrix product
    train_seconds: float
    stage: int | None = None  # from 1; None without stages


@dataclass(frozen=True, kw_only=True)
class ValidRecord:
    """The scores of one checkpoint."""

    kind: Literal["valid"] = "valid"
    update: int
    checkpoint: str
    loss: float
    perplexity: float
    bleu: float
    chrf: float
    seconds: float
    directions: dict[str, dict[str, float]] = field(default_factory=dict)  # loss, bleu, chrf; only if several
    stage: int | None = None  # from 1; None without stages


@dataclass
class Window:
    """Sums over the updates since the last log line."""

    loss_sum: NotNegative = 0.0
    norm_sum: NotNegative = 0.0
    num_tokens: Number = 0
    num_updates: Number = 0
    num_skipped: Number = 0  # updates whose loss or gradient was not finite; not in the sums
    flops: NotNegative = 0.0
    seconds: NotNegative = 0.0
    reading_seconds: NotNegative = 0.0  # part of `seconds` in which the host reads batches

    def add(self, loss_sum: float, num_tokens: int, norm: float) -> bool:
        """Add an update; return whether its loss and gradient are finite. If not, only count it as skipped."""
        if not (math.isfinite(loss_sum) and math.isfinite(norm)):
            self.num_skipped += 1
            return False
        self.loss_sum += loss_sum
        self.norm_sum += norm
        self.num_tokens += num_tokens
        self.num_updates += 1
        return True


class MetricsLog:
    """`logs/metrics.jsonl`: one JSON object per line, in the order of updates."""

    def __init__(self, path: Path):
        self.path = path

    def append(self, record: TrainRecord | ValidRecord) -> None:
        """Append a record and flush it, so that it is on disk before any state that includes it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(record)) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:  # of a full disk, which names no file
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def forget_after(self, update: int) -> None:
        """Drop the records after `update` and those of final checkpoints, because a resumed run rewrites them."""
        if self.path.exists():
            try:
                lines = read_at_most(self.path, MAX_METRICS_BYTES).decode("utf-8", errors="replace").split("\n")
            except ValueError as error:
                raise RunError(f"not a metrics file: {error}", path=self.path) from error
            write_text(self.path, "".join(line + "\n" for line in lines if _is_kept(line, update)))


def _is_kept(line: str, update: int) -> bool:
    try:
        record = json.loads(line)
        return bool(record["update"] <= update and record.get("checkpoint") != AVERAGE)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False  # a line truncated by a crash
