"""Runs side by side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.base.checksum import count_parameters
from nmt.base.errors import RunError
from nmt.evaluation.runs import compare_runs

FROZEN = Path(__file__).parents[1] / "frozen" / "format-1"


def variant(folder: Path, name: str, bleu: float | None = None, test: float | None = None, **keys: object) -> RunDir:
    """A copy of a run with other values of some keys, and other scores."""
    run = RunDir(Path(shutil.copytree(FROZEN, folder / name)))
    text = run.config_file.read_text(encoding="utf-8")
    for key, value in keys.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"  {key}: ")]
        text = text.replace(line, f"  {key}: {value}")
    run.config_file.write_text(text, encoding="utf-8")
    index = run.index()
    assert index.best is not None
    if bleu is not None:
        index.checkpoints[index.best]["bleu"] = bleu
        run.write_json(run.index_file, index)
    if test is not None:
        scores = {name: {"value": test} for name in ("BLEU", "chrF2")}
        record = {"checkpoints": [index.best], "scores": scores}
        run.evaluations.mkdir()
        run.write_json(run.evaluations / "test.json", record)
    return run


def test_a_run_is_summarized_by_scores_size_and_minutes(tmp_path):
    run = variant(tmp_path, "a", bleu=31.239, test=30.5)
    (summary,) = compare_runs([run]).runs
    best = run.index().checkpoints[run.index().best]
    valid = {"valid BLEU": 31.24, "valid chrF2": round(best["chrf"], 2)}
    assert summary.scores == valid | {"test BLEU": 30.5, "test chrF2": 30.5}
    records = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    last = [record for record in records if record["kind"] == "train"][-1]
    assert (summary.minutes, summary.updates) == (round(last["train_seconds"] / 60, 1), last["update"])
    assert (summary.seed, summary.settings["model.d_ff"]) == (1, 32)


def test_parameters_are_those_that_the_model_has(tmp_path):
    from nmt.artifacts.checkpoint import load_model
    from nmt.base.device import choose_device
    from nmt.data.tokens.tokenizer import TokenizerPair

    run = RunDir(FROZEN)
    model = load_model(run, TokenizerPair.load(run.tokenizer), choose_device("cpu"))
    assert count_parameters(run.best_checkpoint()) == model.num_parameters()
    (tmp_path / "broken").write_bytes(b"no weights")
    with pytest.raises(RunError, match="cannot read these weights"):
        count_parameters(tmp_path / "broken")


def test_settings_that_differ_are_named_and_seeds_are_none(tmp_path):
    runs = [variant(tmp_path, "a"), variant(tmp_path, "b", lr=0.02, seed=7), variant(tmp_path, "c", seed=8)]
    comparison = compare_runs(runs)
    assert comparison.differing == ["training.lr"]
    assert [each.settings["training.lr"] for each in comparison.runs] == [0.01, 0.02, 0.01]


def test_of_stages_only_the_settings_that_differ_are_named(tmp_path):
    stages = "400\n  stages: [{max_updates: 200, dropout: %s}, {max_updates: 200}]"
    runs = [variant(tmp_path, each, max_updates=stages % each) for each in ("0.15", "0.25")]
    comparison = compare_runs(runs)
    assert comparison.differing == ["training.stages.1.dropout"]
    assert [run.settings["training.stages.1.dropout"] for run in comparison.runs] == [0.15, 0.25]
    without = compare_runs([runs[0], variant(tmp_path, "none", max_updates=400)]).differing
    updates = {"training.stages.1.max_updates", "training.stages.2.max_updates"}
    assert {*without} == {"training.stages", "training.stages.1.dropout", *updates}


def test_runs_that_differ_in_their_seeds_alone_have_a_mean_and_a_deviation(tmp_path):
    runs = [variant(tmp_path, str(seed), bleu=bleu, seed=seed) for seed, bleu in ((1, 30.0), (2, 31.0), (3, 35.0))]
    other = variant(tmp_path, "other", bleu=50.0, lr=0.02)
    (seeds,) = compare_runs([*runs, other]).seeds
    assert seeds.runs == [str(run.path) for run in runs]
    assert seeds.scores["valid BLEU"] == (32.0, 2.65)
    assert compare_runs([runs[0], other]).seeds == []


def test_a_copy_of_a_run_does_not_count_as_another_seed(tmp_path):
    run, copy = (variant(tmp_path, name, bleu=30.0) for name in ("run", "copy"))
    other = variant(tmp_path, "other", bleu=32.0, seed=2)
    comparison = compare_runs([run, copy, other])
    (seeds,) = comparison.seeds
    assert seeds.runs == [str(run.path), str(other.path)]
    assert seeds.scores["valid BLEU"] == (31.0, 1.41)
    warning = f"{copy.path}: left out of the mean and standard deviation; {run.path} has the same settings and seed"
    assert warning in comparison.warnings
    alone = compare_runs([run, copy])
    assert alone.seeds == []
    assert not any("left out" in line for line in alone.warnings)


def test_default_metrics_that_the_last_evaluation_left_out_are_named_in_a_warning(tmp_path):
    run, other = variant(tmp_path, "run", test=30.0), variant(tmp_path, "other", test=30.0)
    record = run.read_json(run.evaluations / "test.json")
    run.write_json(run.evaluations / "test.json", record | {"scores": {"TER": {"value": 50.0}}})
    comparison = compare_runs([run, other])
    assert comparison.runs[0].scores["test TER"] == 50.0
    assert comparison.warnings == [
        f"{run.path}: no test BLEU and chrF2, because the last `nmt eval` had other --metrics; "
        f"`nmt eval --model {run.path}` saves them"
    ]


def test_scores_of_other_weights_or_of_another_test_set_are_not_compared_silently(tmp_path):
    stale, other = variant(tmp_path, "stale", test=30.0), variant(tmp_path, "other", test=30.0)
    record = stale.read_json(stale.evaluations / "test.json")
    stale.write_json(stale.evaluations / "test.json", record | {"checkpoints": ["step-00000001"]})
    comparison = compare_runs([stale, other])
    assert "test BLEU" not in comparison.runs[0].scores
    assert comparison.warnings == [
        f"{stale.path}: no test scores of its best checkpoint; `nmt eval --model {stale.path}` saves them"
    ]
    third = variant(tmp_path, "third", test=30.0)
    (third.data / "test.src").write_text("1\n" * len(third.read_pairs("test")[0]))
    (warning,) = compare_runs([other, third]).warnings
    assert warning == "the runs have different test sets, so their test scores are not comparable"


def test_scores_of_a_phrase_table_give_way_to_those_of_the_network_on_both_sets(tmp_path):
    run = variant(tmp_path, "a", bleu=3.0, test=26.0)
    of_table = {"bleu": 27.0, "chrf": 50.0}
    phrases = {"checkpoint": run.index().best, "table": of_table, "network": {"bleu": 3.0, "chrf": 9.0}}
    run.write_json(run.index_file, run.read_json(run.index_file) | {"phrases": phrases})
    assert compare_runs([run]).runs[0].scores["valid BLEU"] == 27  # of what translates
    record = json.loads(run.evaluation_file.read_text())
    run.write_json(run.evaluation_file, {**record, "engine": "phrase"})
    first = compare_runs([run])
    assert (first.runs[0].scores["valid BLEU"], first.runs[0].scores["test BLEU"]) == (27, 26)
    (warning,) = first.warnings
    assert "its scores are those of its phrase table" in warning
    assert f"`nmt eval --model {run.path} --engine native`" in warning
    of_network = {**record, "engine": "native", "scores": {name: {"value": 2.5} for name in ("BLEU", "chrF2")}}
    run.write_json(run.evaluations / "test-native.json", of_network)
    second = compare_runs([run])
    assert (second.runs[0].scores["valid BLEU"], second.runs[0].scores["test BLEU"]) == (3, 2.5)
    assert second.warnings == []
    run.write_json(run.evaluations / "test-native.json", {**of_network, "checkpoints": ["other"]})
    assert compare_runs([run]).runs[0].scores["test BLEU"] == 26


def test_a_run_without_a_checkpoint_has_its_settings_alone(tmp_path):
    run = variant(tmp_path, "a")
    run.index_file.unlink()
    run.metrics.unlink()
    comparison = compare_runs([run])
    (summary,) = comparison.runs
    assert (summary.scores, summary.parameters, summary.minutes, summary.updates) == ({}, None, None, None)
    assert comparison.warnings == [f"{run.path}: no scores; this run has no checkpoint yet"]


@pytest.mark.parametrize("damage", [lambda record: "", lambda record: json.dumps(record | {"scores": {"BLEU": 3}})])
def test_damaged_scores_are_named_and_left_out(tmp_path, damage):
    run = variant(tmp_path, "a", test=30.0)
    file = run.evaluations / "test.json"
    file.write_text(damage(run.read_json(file)))
    found = compare_runs([run, variant(tmp_path, "b", test=31.0)])
    (warning,) = found.warnings
    assert warning.startswith(f"{file}: ")
    assert warning.endswith("run `nmt eval`")
    assert [summary.scores.get("test BLEU") for summary in found.runs] == [None, 31.0]
