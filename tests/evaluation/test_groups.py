"""The difference between groups of seeds, with its interval and its test."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.evaluation.groups import GroupDifference
from nmt.evaluation.runs import compare_runs, other_seeds
from tests.evaluation.test_runs import variant


def group(folder: Path, name: str, scores: list[float], **keys: object) -> list[RunDir]:
    return [variant(folder, f"{name}{seed}", bleu=value, seed=seed, **keys) for seed, value in enumerate(scores, 1)]


def of_bleu(runs: list[RunDir], name: str = "valid BLEU") -> GroupDifference:
    (comparison,) = compare_runs(runs).groups
    return next(each for each in comparison.differences if each.name == name)


def test_means_of_groups_are_compared_by_welchs_test(tmp_path):
    runs = [*group(tmp_path, "a", [20.0, 21.0, 22.0]), *group(tmp_path, "b", [10.0, 11.0, 12.0], lr=0.02)]
    found = of_bleu(runs)
    # t = 10 / sqrt(1/3 + 1/3) = 12.25 with 4 degrees of freedom; the 97.5% quantile is 2.776
    assert (found.value, found.over_sentences) == (10.0, False)
    assert (found.low, found.high) == (pytest.approx(7.73, abs=0.08), pytest.approx(12.27, abs=0.08))
    assert found.p_value == pytest.approx(0.00026, abs=0.0002)
    assert of_bleu(runs) == found  # the draws are the same


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([0.1, 1.2, 3.14], [0.2, 0.8, 2.9]),  # 1.48 ± 1.54 and 1.30 ± 1.42
        ([30.0, 31.0], [31.0, 30.0]),
        ([30.0, 30.0], [30.0, 30.0]),
        ([10.0, 40.0], [25.0, 25.1, 25.2, 25.1]),
    ],
)
def test_a_difference_within_the_spread_of_seeds_may_be_chance(tmp_path, first, second):
    found = of_bleu([*group(tmp_path, "a", first), *group(tmp_path, "b", second, lr=0.02)])
    assert found.p_value > 0.5
    assert found.low <= found.value <= found.high
    assert found.low <= 0 <= found.high


def test_the_sentences_of_the_test_set_widen_the_interval_if_their_translations_are_there(tmp_path):
    draw = random.Random(3)
    runs = [*group(tmp_path, "a", [30.0, 31.0]), *group(tmp_path, "b", [20.0, 20.5], lr=0.02)]
    references = [" ".join(draw.choices("abcdefgh", k=8)) for _ in range(30)]
    for number, run in enumerate(runs):
        run.data.mkdir(exist_ok=True)
        for side in ("src", "tgt"):
            (run.data / f"test.{side}").write_text("".join(f"{text}\n" for text in references))
        run.evaluations.mkdir()
        scores = {"BLEU": {"value": 50.0 + number}, "chrF2": {"value": 60.0}}
        run.write_json(run.evaluations / "test.json", {"checkpoints": [run.index().best], "scores": scores})
    without = of_bleu(runs, "test BLEU")
    assert not without.over_sentences
    for number, run in enumerate(runs):
        lines = [text if draw.random() < 0.5 + 0.1 * number else text[::-1] for text in references]
        (run.evaluations / "test.hyp").write_text("".join(f"{line}\n" for line in lines))
    found = of_bleu(runs, "test BLEU")
    assert found.over_sentences
    assert not of_bleu(runs).over_sentences  # of the validation set
    assert found.value == without.value == -2.0
    assert found.high - found.low > without.high - without.low
    assert found.p_value > without.p_value


def test_a_group_needs_two_seeds(tmp_path):
    assert compare_runs([*group(tmp_path, "a", [20.0, 21.0]), variant(tmp_path, "b", lr=0.02)]).groups == []
    three = [
        each for name, lr in (("c", 0.03), ("d", 0.04), ("e", 0.05)) for each in group(tmp_path, name, [1, 2], lr=lr)
    ]
    assert [(each.first[0][-2:], each.second[0][-2:]) for each in compare_runs(three).groups] == [
        ("c1", "d1"),
        ("c1", "e1"),
        ("d1", "e1"),
    ]


def test_runs_with_other_seeds_are_found_beside_a_run(tmp_path):
    (tmp_path / "notes").mkdir()
    first, second, third = group(tmp_path, "a", [1, 2, 3])
    variant(tmp_path, "copy")
    variant(tmp_path, "other", lr=0.5, seed=2)
    variant(tmp_path, "damaged", seed=9).config_file.write_text("data: [")
    assert other_seeds(first) == [str(second.path), str(third.path)]
    assert other_seeds(RunDir(tmp_path / "other")) == []
