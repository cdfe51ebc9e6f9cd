"""Several runs side by side: scores, size, minutes, settings that differ, and the spread over seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from nmt.errors import NmtError, RunError
from nmt.plots.curves import read_metrics
from nmt.rundir import RunDir

SEED_KEY = "training.seed"
_NOT_SETTINGS = (SEED_KEY, "data.store_dir")  # what tells runs of one configuration apart
_VALID = {"bleu": "valid BLEU", "chrf": "valid chrF2"}


@dataclass(frozen=True)
class RunSummary:
    """The row of one run in `nmt compare`. Scores by set and metric: `valid BLEU`, `test chrF2`."""

    run: str
    seed: int
    scores: dict[str, float]
    parameters: int | None  # None without a checkpoint
    minutes: float | None  # of training, without validation
    updates: int | None
    settings: dict[str, Any]  # by key, such as training.lr
    test_set: str | None  # a mark of its sentences


@dataclass(frozen=True)
class SeedSummary:
    """Runs of one configuration with several seeds: mean and standard deviation of each score that all of them have."""

    runs: list[str]
    scores: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class RunComparison:
    """Several runs. `differing` are the keys of settings that are not the same in all of them."""

    runs: list[RunSummary]
    differing: list[str]
    seeds: list[SeedSummary]
    warnings: list[str]


def compare_runs(runs: Sequence[RunDir]) -> RunComparison:
    """Compare `runs`, in their order. RunError if one of them is damaged."""
    warnings: list[str] = []
    summaries = [_summarize(run, warnings) for run in runs]
    keys = dict.fromkeys(key for each in summaries for key in each.settings)
    differing = [
        key
        for key in keys
        if key not in _NOT_SETTINGS and len({_comparable(each.settings.get(key)) for each in summaries}) > 1
    ]
    scored = {each.test_set for each in summaries if any(name.startswith("test") for name in each.scores)}
    if len(scored) > 1:
        warnings.append("the runs have different test sets, so their test scores do not compare")
    return RunComparison(summaries, differing, _summarize_seeds(summaries), warnings)


def _summarize(run: RunDir, warnings: list[str]) -> RunSummary:
    config, index = run.config(), run.index()
    best = index.best
    of_best = index.checkpoints.get(best or "", {})
    scores = {name: round(of_best[key], 2) for key, name in _VALID.items() if key in of_best}
    weights = None if best is None else run.checkpoint(best)
    trained = [record for record in _metrics(run) if record.get("kind") == "train"]
    seconds = [record["train_seconds"] for record in trained if isinstance(record.get("train_seconds"), int | float)]
    return RunSummary(
        run=str(run.path),
        seed=config.training.seed,
        scores=scores | _test_scores(run, best, warnings),
        parameters=None if weights is None or not weights.exists() else count_parameters(weights),
        minutes=round(seconds[-1] / 60, 1) if seconds else None,
        updates=trained[-1].get("update") if trained else None,
        settings=_flatten(config.model_dump(mode="json")),
        test_set=_mark_of_test_set(run),
    )


def _metrics(run: RunDir) -> list[dict[str, Any]]:
    return read_metrics(run.metrics) if run.metrics.exists() else []


def _test_scores(run: RunDir, best: str | None, warnings: list[str]) -> dict[str, float]:
    """Return the scores that `nmt eval` with default options saved; nothing if they are of other weights."""
    path = run.evaluations / "test.json"
    if not path.exists():
        return {}
    record = run.read_json(path)
    if record.get("checkpoints") != [best]:
        warnings.append(f"{path}: these scores are of another checkpoint than the best; run `nmt eval` again")
        return {}
    try:
        return {f"test {name}": round(float(score["value"]), 2) for name, score in record["scores"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunError("these are no scores of `nmt eval`", path=path, hint="delete it and run `nmt eval`") from None


def _mark_of_test_set(run: RunDir) -> str | None:
    """Return a hash of the test sentences of a run; None if it has none."""
    try:
        texts = run.read_pairs("test")
    except NmtError:
        return None
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def count_parameters(weights: Path) -> int:
    """Return the number of parameters in a weights file; those that are tied count once. RunError if it is damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, framework="np") as file:
            return sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 (no mapping)
    except (OSError, SafetensorError) as error:
        raise RunError(f"these weights are damaged ({error})", path=weights, hint="copy the run again") from None


def _flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested sections as one, with keys such as training.lr; lists are values."""
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flatten(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {f"{prefix}{key}": inner}
    return flat


def _comparable(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _summarize_seeds(summaries: Sequence[RunSummary]) -> list[SeedSummary]:
    """Return mean and standard deviation of the runs that differ in nothing but their seeds, if there are several."""
    groups: dict[str, list[RunSummary]] = {}
    for each in summaries:
        settings = {key: value for key, value in each.settings.items() if key not in _NOT_SETTINGS}
        groups.setdefault(_comparable([settings, each.test_set]), []).append(each)
    return [_spread(group) for group in groups.values() if len({each.seed for each in group}) > 1]


def _spread(group: Sequence[RunSummary]) -> SeedSummary:
    names = [name for name in group[0].scores if all(name in each.scores for each in group)]
    values = {name: [each.scores[name] for each in group] for name in names}
    scores = {name: (round(fmean(of_runs), 2), round(stdev(of_runs), 2)) for name, of_runs in values.items()}
    return SeedSummary([each.run for each in group], scores)
