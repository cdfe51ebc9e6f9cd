"""A calibrated model tells the quality that it expects of a translation; others tell nothing."""

from __future__ import annotations

import shutil

import pytest

from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.data.text.text_statistics import Confidence

CONFIDENCE = Confidence(
    usual_ratio=0.1, intercept=5.0, probability=70.0, short=-20.0, long=-10.0, repetition=-15.0, copied=-8.0
)


def calibrate(run, path, confidence=CONFIDENCE):
    """Return a copy of `run` at `path` with this confidence."""
    shutil.copytree(run, path)
    copy = RunDir(path)
    copy.write_json(copy.statistics_file, copy.statistics().model_copy(update={"confidence": confidence}))
    return copy


@pytest.fixture
def calibrated(words_run, tmp_path):
    return calibrate(words_run, tmp_path / "calibrated")


@pytest.mark.parametrize("options", [{}, {"beam_size": 4, "num_hypotheses": 2}], ids=["greedy", "beam"])
def test_a_sentence_alone_is_expected_to_be_as_good_as_among_others(calibrated, options):
    sources = calibrated.read_pairs("test")[0][:64]
    with Translator.load(calibrated) as translator:
        search = translator.options.changed(**options)
        together = translator.translate(sources, search)
        alone = [translator.translate([source], search)[0] for source in sources]
    assert [each.expected_chrf for each in together] == [each.expected_chrf for each in alone]
    assert all(0 < each.expected_chrf < 100 for each in together)
    for each in together:
        assert all(other.expected_chrf is not None for other in each.alternatives)


def test_nothing_is_expected_of_texts_that_are_not_translated_or_have_no_score(calibrated):
    with Translator.load(calibrated) as translator:
        assert [each.expected_chrf for each in translator.translate(["", " ", "!!!"])] == [None] * 3
    with Translator.load(calibrated, scores=False) as translator:
        (found,) = translator.translate(["tipu rube."])
        assert translator.engine.precision != "int8" or (found.expected_chrf is None and not found.doubtful)


def test_nothing_is_expected_by_a_model_without_calibration_or_by_an_ensemble(words_run, calibrated):
    for model in (words_run, [calibrated, calibrated]):
        with Translator.load(model) as translator:
            assert translator.translate(["tipu rube."])[0].expected_chrf is None


@pytest.mark.parametrize(("intercept", "doubtful"), [(29.9, True), (30.0, False)])
def test_an_expected_chrf_under_30_is_a_flag(words_run, tmp_path, intercept, doubtful):
    constant = Confidence(usual_ratio=0, intercept=intercept, probability=0, short=0, long=0, repetition=0, copied=0)
    with Translator.load(calibrate(words_run, tmp_path / "run", constant)) as translator:
        (found,) = translator.translate(["tipu rube."])
    assert (found.expected_chrf, found.doubtful) == (intercept, doubtful)
