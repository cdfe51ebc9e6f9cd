"""Check that an export translates like its run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.base.errors import RunError
from nmt.config import SearchOptions
from nmt.translation import Engine

NUM_SENTENCES = 100
TOLERANCE = 1e-3
"""The maximum difference, in nats, of forced scores. fp32 differs by about 1e-5."""
MIN_EQUAL = 0.9
"""The minimum share of equal translations: where two tokens are equally probable but for rounding, either may win."""


@dataclass(frozen=True)
class Agreement:
    """A comparison of two engines: their greedy translations, and their scores of the run's translations."""

    sentences: int
    equal: int
    largest_score_difference: float  # between log-probabilities of whole translations, in nats


def compare(run: Engine, export: Engine, sources: Sequence[Sequence[int]]) -> Agreement:
    """Translate source tokens (without specials) greedily with both engines, and score the run's outputs with both."""
    greedy = SearchOptions()
    ours = [found[0] for found in run.search(sources, greedy)]
    theirs = [found[0] for found in export.search(sources, greedy)]
    targets = [hypothesis.ids for hypothesis in ours]
    scores = zip(run.score(sources, targets), export.score(sources, targets), strict=True)
    apart = [abs(sum(a) - sum(b)) for a, b in scores]
    equal = sum(one.ids == other.ids for one, other in zip(ours, theirs, strict=True))
    largest = max(apart, default=0.0, key=lambda value: (math.isnan(value), value))  # NaN must not get lost
    return Agreement(len(ours), equal, largest)


def require_agreement(found: Agreement, *, reduced: bool) -> None:
    """Raise RunError unless scores are within `TOLERANCE`, and `MIN_EQUAL` of the translations are equal.

    In a `reduced` precision, only scores that are not numbers are an error.
    """
    if reduced and math.isfinite(found.largest_score_difference):
        return
    if not found.largest_score_difference <= TOLERANCE:
        fault = f"the score of a translation differs by {found.largest_score_difference:.2g}, more than {TOLERANCE}"
    elif found.equal < MIN_EQUAL * found.sentences:
        fault = f"only {found.equal} of {found.sentences} translations are equal"
    else:
        return
    hint = "nothing was written; this is a bug in nmt or CTranslate2: please report it with the run's config.yaml"
    raise RunError(f"the export does not agree with the run: {fault}", hint=hint)


def describe(found: Agreement) -> str:
    """Describe the agreement in one line."""
    equal = f"{found.equal} of {found.sentences} translations equal"
    return f"{equal}; scores differ by at most {found.largest_score_difference:.2g}"
