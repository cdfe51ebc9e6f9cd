"""The checkpoints of a run: their scores, the best one, and which ones to keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Literal

from nmt.artifacts.run_records import CheckpointIndex, checkpoint_quality
from nmt.artifacts.rundir import AVERAGE, RunDir
from nmt.training.metrics import Number
from nmt.training.validation import ValidationResult


def checkpoint_name(update: int) -> str:
    """Return the name of the weights after `update`."""
    return f"step-{update:08d}"


# The first terms of a quality (`checkpoint_quality`), the metric and chrF, by which patience counts.
_NUM_PROGRESS_TERMS = 2


@dataclass
class CheckpointHistory:
    """Validated checkpoints, oldest first, and the state of early stopping, as saved in `index.json`."""

    early_stopping_metric: Literal["bleu", "chrf", "loss"]
    checkpoints: dict[str, dict[str, float]] = field(default_factory=dict)  # scores by name
    best: str | None = None
    validations_since_best: Number = 0
    signatures: dict[str, str] = field(default_factory=dict)  # sacreBLEU signatures of the scores
    listed_before: list[str] = field(default_factory=list)  # the checkpoints in the state saved before this one

    @property
    def last(self) -> str | None:
        """The newest checkpoint, except those computed at the end of training."""
        return next(iter(self.newest(1)), None)

    def newest(self, count: int) -> list[str]:
        """Return the last `count` checkpoints, oldest first, except those computed at the end of training."""
        names = [name for name in self.checkpoints if name.startswith("step-")]
        return names[max(0, len(names) - count) :]

    def add(self, name: str, result: ValidationResult, num_kept: int) -> bool:
        """Add a validated checkpoint; return whether it is the best so far.

        The history keeps only the best checkpoint and the newest `num_kept`.
        """
        self.listed_before = list(self.checkpoints)
        self.checkpoints[name] = result.values()
        self.signatures = result.signatures
        before = self._quality(self.best) if self.best else ()
        now = self._quality(name)
        is_best = now > before
        self.best = name if is_best else self.best
        # A loss that goes on falling beside equal translations does not count as progress: it may fall forever.
        progresses = now[:_NUM_PROGRESS_TERMS] > before[:_NUM_PROGRESS_TERMS]
        self.validations_since_best = 0 if progresses else self.validations_since_best + 1
        listed = {*self.newest(num_kept), self.best, AVERAGE}
        self.checkpoints = {name: scores for name, scores in self.checkpoints.items() if name in listed}
        return is_best

    def _quality(self, name: str) -> tuple[float, ...]:
        return checkpoint_quality(self.checkpoints[name], self.early_stopping_metric)

    def remove(self, names: Iterable[str]) -> None:
        """Remove checkpoints whose weights are lost, and choose the best of the rest."""
        for name in names:
            del self.checkpoints[name]
        if self.best not in self.checkpoints:
            self.best = max(self.checkpoints, key=self._quality, default=None)

    def write_index(self, run: RunDir) -> None:
        """Write `index.json` without the comparison of int8 and fp32, which is added at the end of training."""
        fields = asdict(self)
        del fields["listed_before"]
        run.write_json(run.index_file, CheckpointIndex(last=self.last, **fields))

    def delete_unlisted(self, run: RunDir) -> None:
        """Delete weights listed neither in the saved state nor in the previous one; training may resume from either."""
        for path in run.checkpoints.glob("*.safetensors"):
            if path.stem not in self.checkpoints and path.stem not in self.listed_before:
                path.unlink()
