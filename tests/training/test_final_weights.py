"""Weights that are made when training ends: ends of sentences, moved to where the validation set has them."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from nmt import Translator
from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.rundir import CALIBRATED, RunDir
from nmt.base.special_tokens import EOS_ID
from nmt.data.store.store import Side
from nmt.evaluation import score
from nmt.training.final_weights import BIAS, end_rates, find_peak
from nmt.training.run import resume_run, start_run
from tests.tiny import tiny_config


@pytest.mark.parametrize(
    ("best", "looked_at"),
    [
        (0.0, [-0.5, -1.0, 0.5, 1.0]),
        (-1.0, [-0.5, -1.0, -1.5, -2.0]),
        (0.5, [-0.5, -1.0, 0.5, 1.0, 1.5]),
        (-9.0, [-0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -3.5, -4.0]),
    ],
)
def test_the_walk_finds_the_peak_and_looks_at_little_more(best, looked_at):
    seen = []

    def quality(shift):
        seen.append(shift)
        return -abs(shift - best)

    assert find_peak(quality, -abs(best)) == max(best, -4.0)
    assert seen == looked_at


def test_a_walk_goes_on_over_one_step_that_brings_nothing():
    values = {-0.5: 0.9, -1.0: 1.1, -1.5: 1.0, -2.0: 1.0}
    assert find_peak(values.__getitem__, 1.0) == -1.0


def test_of_equal_scores_the_smallest_shift_is_taken():
    assert find_peak(lambda shift: 1.0, 1.0) == 0


def test_rates_count_how_often_a_token_is_the_last(tmp_path):
    tokens = np.array([5, 6, 7, 6, 7, 7, 6, 8], dtype=np.uint16)
    offsets = np.array([0, 3, 3, 5, 8])  # 5 6 7, nothing, 6 7, 7 6 8
    rates = end_rates(Side(tokens, offsets, 10, tmp_path))
    assert rates[EOS_ID] == 1
    assert rates.dtype == np.float32
    assert rates[[5, 6, 7, 8, 9]] == pytest.approx([0, 0, 2 / 3, 1, 0])


def test_rates_count_sentences_of_every_corpus(tmp_path):
    """Half a million sentences end in 8, then as many in 9."""
    num_sentences = 1_000_000
    tokens = np.full(2 * num_sentences, 5, dtype=np.uint16)
    tokens[1::2] = np.repeat([8, 9], num_sentences // 2)
    rates = end_rates(Side(tokens, np.arange(num_sentences + 1) * 2, 10, tmp_path))
    assert rates[[5, 8, 9]] == pytest.approx([0, 1, 1])


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A corpus to copy, whose validation set is made of longer sentences than the training set."""
    folder = tmp_path_factory.mktemp("words")
    draw = random.Random(3)
    for split, count, longest in (("train", 2000, 9), ("valid", 40, 12), ("test", 4, 12)):
        rows = [" ".join(draw.choices("0123456789", k=draw.randint(longest - 4, longest))) for _ in range(count)]
        (folder / f"{split}.tsv").write_text("".join(f"{row} .\t{row} .\n" for row in rows), encoding="utf-8")
    return folder


def config_of(words, **training):
    few = {"max_updates": 60, "warmup_updates": 20, "validate_every": 20, "average_checkpoints": 2, "log_every": 20}
    chosen = {"calibrate_length": True, "early_stopping_metric": "chrf", "schedule": "inverse_sqrt"}
    return tiny_config(words, model={"output_bias": True}, training=few | chosen | training)


@pytest.fixture(scope="module")
def calibrated(words, tmp_path_factory):
    """A run that ends its outputs too early, and was calibrated."""
    path = tmp_path_factory.mktemp("run") / "words"
    start_run(config_of(words), path)
    return RunDir(path)


def test_the_bias_alone_is_moved_in_proportion_to_the_rates(calibrated):
    index = calibrated.index()
    assert index.best == CALIBRATED
    others = {name: scores["chrf"] for name, scores in index.checkpoints.items() if name != CALIBRATED}
    before = read_weights(calibrated.checkpoint(max(others, key=others.get)))
    after = read_weights(calibrated.checkpoint(CALIBRATED))
    assert [name for name in before if not torch.equal(before[name], after[name])] == [BIAS]
    moved = after[BIAS] - before[BIAS]
    assert moved[EOS_ID] < 0
    assert float(moved[EOS_ID]) / 0.5 == pytest.approx(round(float(moved[EOS_ID]) / 0.5), abs=1e-5)


def test_the_recorded_score_is_that_of_the_calibrated_outputs(calibrated):
    index = calibrated.index()
    scores = {name: values["chrf"] for name, values in index.checkpoints.items()}
    assert scores[CALIBRATED] == max(scores.values())
    sources, references = calibrated.read_pairs("valid")
    with Translator.load(calibrated, engine="torch", device="cpu") as translator:
        texts = [t.text for t in translator.translate(sources, calibrated.config().decoding.greedy())]
    assert score(texts, references, "en", ("chrf",))[0].value == pytest.approx(scores[CALIBRATED])


def test_a_run_with_more_updates_is_calibrated_anew_as_if_it_had_never_ended(words, calibrated, tmp_path):
    start_run(config_of(words, max_updates=40), tmp_path / "resumed")
    resume_run(config_of(words), tmp_path / "resumed")
    resumed = RunDir(tmp_path / "resumed")
    assert resumed.index().checkpoints == calibrated.index().checkpoints
    assert resumed.checkpoint(CALIBRATED).read_bytes() == calibrated.checkpoint(CALIBRATED).read_bytes()
