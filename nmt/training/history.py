"""The checkpoints of a run: which there are, which is best, which are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from nmt.rundir import RunDir
from nmt.training.validation import ValidationResult


@dataclass
class History:
    """Validated checkpoints, oldest first, and the standing of early stopping; `index.json` is its image."""

    early_stopping_metric: str
    checkpoints: dict[str, dict[str, float]] = field(default_factory=dict)
    best: str | None = None
    without_better: int = 0  # validations since the best
    signatures: dict[str, str] = field(default_factory=dict)  # sacreBLEU's, of the scores
    before: list[str] = field(default_factory=list)  # checkpoints as the state saved before this one lists them

    @property
    def last(self) -> str | None:
        """The newest checkpoint that is no average."""
        return next(iter(self.newest(1)), None)

    def add(self, name: str, scores: ValidationResult) -> bool:
        """Count a validated checkpoint in; returns whether it is the best so far."""
        self.before = list(self.checkpoints)
        self.checkpoints[name] = scores.values()
        self.signatures = scores.signatures
        better = self.best is None or self._value(name) > self._value(self.best)
        self.best = name if better else self.best
        self.without_better = 0 if better else self.without_better + 1
        return better

    def _value(self, name: str) -> float:
        value = self.checkpoints[name][self.early_stopping_metric]
        return -value if self.early_stopping_metric == "loss" else value

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
        index = {name: value for name, value in self.state_dict().items() if name != "before"}
        run.write_json(run.index_file, {"last": self.last, **index})

    def delete_others(self, run: RunDir) -> None:
        """Delete the weights that neither the saved state nor the one before it lists: either may be gone on from."""
        for path in run.checkpoints.glob("*.safetensors"):
            if path.stem not in self.checkpoints and path.stem not in self.before:
                path.unlink()

    def remove(self, names: Iterable[str]) -> None:
        """Go on without these checkpoints, whose weights are lost; the best is the best of the others."""
        for name in names:
            del self.checkpoints[name]
        if self.best not in self.checkpoints:
            self.best = max(self.checkpoints, key=self._value, default=None)

    def state_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)
