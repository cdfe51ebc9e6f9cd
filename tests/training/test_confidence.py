"""The end of training calibrates what the model's scores say about the quality of a translation."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nmt import Translation, Translator
from nmt.apps.interop.sharing import pack
from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir
from nmt.evaluation.significance import Scorer
from nmt.training.confidence import MIN_SENTENCES, fit_confidence
from nmt.training.run import start_run
from nmt.translation.segments import SegmentTranslation
from tests.resumption import stop_and_resume
from tests.tiny import small_config

NUM_VALID = 60
SHORT = {"model": {"max_src_len": 20, "max_tgt_len": 20}, "training": {"max_updates": 6, "validate_every": 3}}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A corpus of digits with spaces between them, to copy, with enough validation sentences."""
    folder = tmp_path_factory.mktemp("words")
    draw = random.Random(3)
    for split, count in (("train", 250), ("valid", NUM_VALID), ("test", 4)):
        rows = [" ".join(draw.choices("0123456789", k=draw.randint(5, 9))) for _ in range(count)]
        (folder / f"{split}.tsv").write_text("".join(f"{row}\t{row}\n" for row in rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def words_run(words, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "words"
    start_run(small_config(words, **SHORT), path)
    return RunDir(path)


def expected_in(model, sources, **options):
    with Translator.load(model) as translator:
        return [each.expected_chrf for each in translator.translate(sources, translator.options.changed(**options))]


def fitted_anew(run):
    """The confidence that follows from what the run translates by default."""
    sources, references = run.read_pairs("valid")
    with Translator.load(run) as translator:
        translations = translator.translate(sources)
    (chrf,) = Scorer([references], "en", ["chrf"]).measure("", [each.text for each in translations]).measured
    return fit_confidence(translations, chrf.sentence_scores())


@pytest.mark.parametrize("beam_size", [1, pytest.param(3, marks=pytest.mark.slow)], ids=["greedy", "beam"])
def test_the_default_search_is_what_is_calibrated(words, words_run, tmp_path, beam_size):
    run = words_run if beam_size == 1 else RunDir(tmp_path / "run")
    if beam_size > 1:
        start_run(small_config(words, **SHORT, decoding={"beam_size": beam_size}), run.path)
    assert run.config().decoding.beam_size == beam_size
    assert run.statistics().confidence == fitted_anew(run) is not None


@pytest.mark.slow
def test_a_resumed_run_is_calibrated_like_an_uninterrupted_one(words, words_run, tmp_path):
    resumed = stop_and_resume(small_config(words, **SHORT), tmp_path / "resumed", 4)
    assert words_run.statistics().confidence is not None
    assert resumed.statistics() == words_run.statistics()


def test_too_few_sentences_calibrate_nothing(run):
    assert run.statistics().confidence is None
    assert expected_in(run, ["12"]) == [None]


@pytest.mark.parametrize("options", [{}, {"beam_size": 3}])
def test_a_packed_model_expects_bit_for_bit_what_its_run_does(words_run, tmp_path, options):
    pack(words_run, tmp_path / "m.zip")
    sources = words_run.read_pairs("test")[0]
    expected = expected_in(words_run, sources, **options)
    assert None not in expected
    assert expected_in(find_run(str(tmp_path / "m.zip")), sources, **options) == expected


def translation(probability, num_tgt=10, num_src=10):
    score = float(np.log(probability)) * (num_tgt + 1)
    segment = SegmentTranslation("", score, [*range(num_src)], [*range(num_tgt)], truncated=False, finished=True)
    return Translation("", score, [segment])


def test_the_fit_finds_what_quality_follows():
    draw = random.Random(1)
    rows = [(draw.uniform(0.2, 0.9), draw.randint(5, 10)) for _ in range(400)]
    chrf = [100 * probability - 3 * (10 - num_tgt) + draw.gauss(0, 1) for probability, num_tgt in rows]
    confidence = fit_confidence([translation(*row) for row in rows], chrf)
    expected = [confidence.expected_chrf(translation(*row).features) for row in rows]
    assert np.corrcoef(expected, np.clip(chrf, 0, 100))[0, 1] > 0.98
    assert np.mean(expected) == pytest.approx(np.mean(chrf), abs=1)
    assert confidence.short < 0 < confidence.probability


def test_outputs_without_scores_and_untranslated_texts_do_not_count():
    known = [translation(0.5 + i / 1000) for i in range(MIN_SENTENCES)]
    unknown = [Translation("!!!"), Translation("a", float("nan"), known[0].segments)]
    chrf = [50.0 + i for i in range(MIN_SENTENCES)]
    assert fit_confidence([*unknown, *known], [0, 0, *chrf]) == fit_confidence(known, chrf) is not None
    assert fit_confidence(known[1:], chrf[1:]) is None
