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
    without_better: int = 0  # validations since the best
    signatures: dict[str, str] = field(default_factory=dict)  # sacreBLEU's, of the scores

    @property
    def last(self) -> str | None:
        """The newest checkpoint that is no average."""
        return next(iter(self.newest(1)), None)

    def add(self, name: str, scores: Scores) -> bool:
        """Count a validated checkpoint in; returns whether it is the best so far."""
        self.checkpoints[name] = scores.values()
        self.signatures = scores.signatures
        better = self.best is None or self._value(name) > self._value(self.best)
        self.best = name if better else self.best
        self.without_better = 0 if better else self.without_better + 1
        return better

    def _value(self, name: str) -> float:
        value = self.checkpoints[name][self.best_by]
        return -value if self.best_by == "loss" else value

    def newest(self, count: int) -> list[str]:
        """The last `count` checkpoints of the run, oldest first."""
        names = [name for name in self.checkpoints if name.startswith("step-")]
        return names[max(0, len(names) - count) :]

    def forget(self, keep: int) -> None:
        """Drop what is neither the best nor among the newest `keep`."""
        kept = {*self.newest(keep), self.best, "average"}
        self.checkpoints = {name: scores for name, scores in self.checkpoints.items() if name in kept}

    def write(self, run: RunDir) -> None:
        """Write the index."""
        run.write_json(run.index_file, {"last": self.last, **self.state_dict()})

    def delete_others(self, run: RunDir) -> None:
        """Delete the weights that are forgotten. The saved state must have forgotten them too."""
        for path in run.checkpoints.glob("*.safetensors"):
            if path.stem not in self.checkpoints:
                path.unlink()

    def state_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)
