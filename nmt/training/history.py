"""The checkpoints of a run: which there are, which is best, which are kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from nmt.rundir import RunDir
from nmt.training.validation import Scores


@dataclass
class History:
    """Validated checkpoints, oldest first, and the standing of early stopping; `index.json` is its image."""

    best_by: str
    checkpoints: dict[str, dict[str, float]] = field(default_factory=dict)
    best: str | None = None
    last: str | None = None
    without_better: int = 0  # validations since the best

    def add(self, name: str, scores: Scores) -> bool:
        """Count a validated checkpoint in; returns whether it is the best so far."""
        self.checkpoints[name] = scores._asdict()
        self.last = name
        better = self.best is None or self._value(name) > self._value(self.best)
        self.best = name if better else self.best
        self.without_better = 0 if better else self.without_better + 1
        return better

    def _value(self, name: str) -> float:
        value = self.checkpoints[name][self.best_by]
        return -value if self.best_by == "loss" else value

    def newest(self, count: int) -> list[str]:
        """The last `count` checkpoints of the run, oldest first."""
        return [name for name in self.checkpoints if name.startswith("step-")][-count:]

    def write(self, run: RunDir, keep: int) -> None:
        """Write the index, then delete what is neither the best nor among the newest `keep`."""
        kept = {*self.newest(keep), self.best, self.last}
        kept |= {name for name in self.checkpoints if not name.startswith("step-")}
        for name in [name for name in self.checkpoints if name not in kept]:
            del self.checkpoints[name]
        run.write_json(run.index_file, self.state_dict())
        for path in run.checkpoints.glob("*.safetensors"):
            if path.stem not in self.checkpoints:
                path.unlink()

    def state_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)
