"""Compare several models: scores, size, training time, differing settings, and the spread over seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, stdev
from typing import Any

from nmt.artifacts.packed import PACK_INFO
from nmt.artifacts.run_records import VALID_SCORES
from nmt.artifacts.rundir import RunDir
from nmt.base.checksum import count_parameters
from nmt.base.errors import NmtError, RunError
from nmt.config import Config
from nmt.config.training import Stage
from nmt.evaluation.groups import GroupComparison, compare_groups, saved_name
from nmt.evaluation.plots.curves import read_metrics

SEED_KEY = "training.seed"
_OF_STAGES = "training.stages."
_NOT_SETTINGS = (SEED_KEY, "data.store_dir")  # may differ between runs of the same configuration
_TEST = ("BLEU", "chrF2")  # saved by `nmt eval` with default options


@dataclass(frozen=True)
class RunSummary:
    """The row of one model in `nmt compare`. Scores by set and metric: `valid BLEU`, `test chrF2`."""

    run: str  # as given by the user
    seed: int
    scores: dict[str, float]
    parameters: int | None  # None without a checkpoint
    minutes: float | None  # of training, without validation
    updates: int | None
    settings: dict[str, Any]  # by key, such as training.lr
    test_set: str | None  # a hash of its sentences; None if the model does not contain them


@dataclass(frozen=True)
class SeedSummary:
    """Runs of a configuration, one per seed: mean and standard deviation of each score that all of them have."""

    runs: list[str]
    scores: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class RunComparison:
    """Several runs, and the keys of the settings in which they differ."""

    runs: list[RunSummary]
    differing: list[str]
    seeds: list[SeedSummary]
    groups: list[GroupComparison]  # each two of `seeds`
    warnings: list[str]


def compare_runs(models: Sequence[RunDir], names: Sequence[str] = ()) -> RunComparison:
    """Compare `models`, called `names` (default: their paths), in order. RunError if one of them is damaged."""
    warnings: list[str] = []
    named = dict(zip(names or [str(model.path) for model in models], models, strict=True))
    summaries = [_summarize(model, name, warnings) for name, model in named.items()]
    warnings += _compare_test_sets(summaries)
    seeds = _summarize_seeds(summaries, warnings)
    scores = {each.run: each.scores for each in summaries}
    groups = []
    for pair in combinations(seeds, 2):
        first, second = ({name: named[name] for name in each.runs} for each in pair)
        groups.append(compare_groups(first, second, {name: scores[name] for name in (*first, *second)}))
    return RunComparison(summaries, _differing(summaries), seeds, groups, warnings)


def other_seeds(run: RunDir) -> list[str]:
    """Return the paths of the runs beside `run` that differ from it only in their seeds."""
    found = []
    for path in sorted(run.path.absolute().parent.glob("[!.]*")):
        with suppress(NmtError):  # not a run, or a damaged one
            other = RunDir(path).config()
            is_same = _without_seed(_settings(other)) == _without_seed(_settings(run.config()))
            if is_same and other.training.seed != run.config().training.seed:
                found.append(str(run.path.parent / path.name))
    return found


def _differing(summaries: Sequence[RunSummary]) -> list[str]:
    """Return the keys of settings that differ between the models; a stage that one does not have is null there."""
    keys = dict.fromkeys(key for each in summaries for key in _without_seed(each.settings))
    values = {key: {_comparable(each.settings.get(key)) for each in summaries} for key in keys}
    return [key for key in keys if len(values[key]) > 1]


def _compare_test_sets(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield warnings if test scores are not comparable, or may not be."""
    tested = [each for each in summaries if any(name.startswith("test") for name in each.scores)]
    if len({each.test_set for each in tested if each.test_set is not None}) > 1:
        yield "the runs have different test sets, so their test scores are not comparable"
    unknown = [each.run for each in tested if each.test_set is None]
    if unknown and len(tested) > 1:
        yield f"{', '.join(unknown)}: no test set, so nmt cannot tell if these test scores are comparable"


def _summarize(run: RunDir, name: str, warnings: list[str]) -> RunSummary:
    config = run.config()
    index = run.index()
    best = index.best
    test_scores, engine = _test_scores(run, name, warnings)
    of_best = index.scores_of(best, engine)
    scores = {shown: round(of_best[key], 2) for key, shown in VALID_SCORES.items() if key in of_best}
    weights = None if best is None else run.checkpoint(best)
    records = read_metrics(run.metrics) if run.metrics.exists() else []
    trained = [record for record in records if record.get("kind") == "train"]
    seconds = [record["train_seconds"] for record in trained if isinstance(record.get("train_seconds"), int | float)]
    return RunSummary(
        run=name,
        seed=config.training.seed,
        scores=scores | test_scores,
        parameters=None if weights is None or not weights.exists() else count_parameters(weights),
        minutes=round(seconds[-1] / 60, 1) if seconds else None,
        updates=trained[-1].get("update") if trained else None,
        settings=_settings(config),
        test_set=_mark_of_test_set(run),
    )


def _test_scores(run: RunDir, shown: str, warnings: list[str]) -> tuple[dict[str, float], str | None]:
    """Return the scores saved by `nmt eval` and the engine that translated; nothing if they belong to other weights."""
    best = run.index().best
    is_packed = (run.path / PACK_INFO).is_file()
    hint = "pack the run after `nmt eval`" if is_packed else f"`nmt eval --model {shown}` saves them"
    if best is None:
        warnings.append(f"{shown}: no scores; this run has no checkpoint yet")
        return {}, None
    try:
        evaluation = run.evaluation(best, saved_name(run, best))
    except RunError as error:
        warnings.append(f"{str(error).splitlines()[0]}; delete this file and run `nmt eval`")
        return {}, None
    if evaluation is None:
        warnings.append(f"{shown}: no test scores of its best checkpoint; {hint}")
        return {}, None
    scores = {name: round(score.value, 2) for name, score in evaluation.scores.items()}
    if evaluation.engine == "phrase":
        warnings.append(
            f"{shown}: its scores are those of its phrase table; `nmt eval --model {shown} --engine native` "
            "saves the network's"
        )
    if missing := [name for name in _TEST if name not in scores]:
        names = " and ".join(missing)
        warnings.append(f"{shown}: no test {names}, because the last `nmt eval` had other --metrics; {hint}")
    return {f"test {name}": score for name, score in scores.items()}, evaluation.engine


def _mark_of_test_set(run: RunDir) -> str | None:
    """Return a hash of the test sentences of a run; None if it has none."""
    try:
        texts = run.read_pairs("test")
    except NmtError:
        return None
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def _settings(config: Config) -> dict[str, Any]:
    """Return the settings of a run by keys such as training.lr, or training.stages.1.lr for the first stage."""
    settings = _flatten(config.model_dump(mode="json"))
    stages = settings["training.stages"]
    settings["training.stages"] = len(stages)
    defaults = Stage.model_fields
    for number, stage in enumerate(stages, start=1):
        chosen = {key: value for key, value in stage.items() if value != defaults[key].default}
        settings |= _flatten(chosen, f"{_OF_STAGES}{number}.")
    return settings


def _flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested sections into one, with keys such as training.lr; lists are values."""
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flatten(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {f"{prefix}{key}": inner}
    return flat


def _without_seed(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in _NOT_SETTINGS}


def _comparable(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _summarize_seeds(summaries: Sequence[RunSummary], warnings: list[str]) -> list[SeedSummary]:
    """Return mean and standard deviation of each group of several runs that differ only in their seeds.

    Of runs with the same seed, such as a run and its copy, only the first counts.
    """
    groups: dict[str, list[RunSummary]] = {}
    for each in summaries:
        groups.setdefault(_comparable([_without_seed(each.settings), each.test_set]), []).append(each)
    seeds = []
    for group in groups.values():
        firsts: dict[int, RunSummary] = {}
        copies = [(each, first) for each in group if (first := firsts.setdefault(each.seed, each)) is not each]
        if len(firsts) == 1:
            continue
        warnings += [
            f"{each.run}: left out of the mean and standard deviation; {first.run} has the same settings and seed"
            for each, first in copies
        ]
        runs = [*firsts.values()]
        names = [name for name in runs[0].scores if all(name in each.scores for each in runs)]
        values = {name: [each.scores[name] for each in runs] for name in names}
        scores = {name: (round(fmean(of_runs), 2), round(stdev(of_runs), 2)) for name, of_runs in values.items()}
        seeds.append(SeedSummary([each.run for each in runs], scores))
    return seeds
