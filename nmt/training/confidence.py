"""Fit the regression that predicts the chrF of a translation from the model's own scores, when training ends."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np

from nmt.artifacts.rundir import RunDir
from nmt.data.text.text_statistics import Confidence, bent_features
from nmt.evaluation.significance import correlation
from nmt.training.parts import Training
from nmt.translation import Translation

log = logging.getLogger(__name__)

MIN_SENTENCES = 50  # fewer do not determine six weights; chosen by hand
# The strength of ridge regression: a weight counts as if ten more sentences, one standard deviation
# from the mean in its feature, had the mean quality. Chosen by hand.
_RIDGE = 10.0
_RARE = 1e-6  # a feature with a smaller standard deviation does not vary, and gets no weight


def record_confidence(training: Training, translated: Sequence[Sequence[Translation]]) -> None:
    """Fit the confidence of the best checkpoint on the validation set, and save it in the run's statistics.

    `translated` are translations of the set as `nmt translate` makes them by default. Sets of fewer than 50 sentences
    tell too little.
    """
    run = RunDir(training.run.path)
    statistics = run.statistics()
    if statistics is None or sum(len(pairs.sources) for pairs in training.validator.sets) < MIN_SENTENCES:
        return
    translations: list[Translation] = []
    chrf: list[float] = []  # of each
    for number, of_set in enumerate(translated):
        translations += of_set
        chrf += training.validator.measure(number, [each.text for each in of_set]).sentence_chrf()
    confidence = fit_confidence(translations, chrf)
    run.write_json(run.statistics_file, statistics.model_copy(update={"confidence": confidence}))
    if confidence is not None:
        expected = [confidence.expected_chrf(each.features) for each in translations]
        by = correlation(expected, chrf)
        log.info("confidence: the expected chrF of a sentence correlates with its chrF by %.2f", by)


def fit_confidence(translations: Sequence[Translation], chrf: Sequence[float]) -> Confidence | None:
    """Fit ridge regression (Hoerl and Kennard 1970) of `chrf`, 0 to 100, on the features of `translations`.

    Blank texts, and those that were not searched for, do not count. None if fewer than 50 sentences remain.
    """
    pairs = zip(translations, chrf, strict=True)
    rows = [(*each.features, value) for each, value in pairs if each.src_ids and math.isfinite(each.score)]
    if len(rows) < MIN_SENTENCES:
        return None
    usual_ratio = round(float(np.mean([row[1] for row in rows])), 6)
    values = np.array([bent_features(row[:-1], usual_ratio) for row in rows])
    target = np.array([row[-1] for row in rows])
    mean, deviation = values.mean(0), values.std(0)
    scaled = np.where(deviation > _RARE, (values - mean) / np.maximum(deviation, _RARE), 0.0)
    gram = scaled.T @ scaled + _RIDGE * np.eye(scaled.shape[1])
    weights = np.linalg.solve(gram, scaled.T @ (target - target.mean())) / np.maximum(deviation, _RARE)
    intercept = target.mean() - weights @ mean
    names = ("intercept", "probability", "short", "long", "repetition", "copied")
    rounded = [round(float(value), 6) for value in (intercept, *weights)]
    return Confidence(usual_ratio=usual_ratio, **dict(zip(names, rounded, strict=True)))
