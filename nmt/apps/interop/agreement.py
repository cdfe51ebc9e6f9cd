"""Check that an export translates like its run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.base.errors import RunError
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.decoding.hypothesis import Hypothesis
from nmt.translation import Engine

NUM_SENTENCES = 100
TOLERANCE = 1e-3
"""The maximum difference, in nats, of forced scores, and of two tokens in a near-tie. fp32 differs by about 1e-5."""


@dataclass(frozen=True)
class Agreement:
    """A comparison of two engines: their greedy translations, and their scores of the run's translations."""

    sentences: int
    equal: int
    near_ties: int  # the first tokens that differ are equally probable for the run, within `TOLERANCE`
    different: int  # all others
    largest_score_difference: float  # between log-probabilities of whole translations, in nats


def compare(run: Engine, export: Engine, sources: Sequence[Sequence[int]]) -> Agreement:
    """Translate source tokens (without specials) greedily with both engines, and score the run's outputs with both."""
    greedy = SearchOptions()
    ours = [found[0] for found in run.search(sources, greedy)]
    theirs = [found[0] for found in export.search(sources, greedy)]
    targets = [hypothesis.ids for hypothesis in ours]
    scores = zip(run.score(sources, targets), export.score(sources, targets), strict=True)
    apart = [abs(sum(a) - sum(b)) for a, b in scores]
    differing = [each for each in zip(sources, ours, theirs, strict=True) if each[1].ids != each[2].ids]
    ties = sum(is_near_tie(run, *each) for each in differing)
    largest = max(apart, default=0.0, key=lambda value: (math.isnan(value), value))  # NaN must not get lost
    return Agreement(len(ours), len(ours) - len(differing), ties, len(differing) - ties, largest)


def is_near_tie(engine: Engine, source: Sequence[int], one: Hypothesis, other: Hypothesis) -> bool:
    """Return whether two outputs first differ in tokens that `engine` finds equally probable, within `TOLERANCE`.

    After such a tie, greedy search may continue differently, so the following tokens are not compared.
    """
    first, second = ([*found.ids, EOS_ID] if found.finished else [*found.ids] for found in (one, other))
    common = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    if common is None:
        return False  # one was truncated where the other continues: not a tie, but a different limit
    # `score` adds an eos after a target, so for a target that ends here, the score of its eos is at the same index.
    scores = engine.score([source, source], [found.ids[: common + 1] for found in (one, other)])
    return abs(scores[0][common] - scores[1][common]) <= TOLERANCE


def require_agreement(found: Agreement, *, reduced: bool) -> None:
    """Raise RunError unless scores are within `TOLERANCE` and all translations are equal, except for near-ties.

    In a `reduced` precision, only scores that are not numbers are an error.
    """
    if reduced and math.isfinite(found.largest_score_difference):
        return
    if not found.largest_score_difference <= TOLERANCE:
        fault = f"the score of a translation differs by {found.largest_score_difference:.2g}, more than {TOLERANCE}"
    elif found.different:
        fault = f"{found.different} of {found.sentences} translations differ, and not in a near-tie"
    else:
        return
    raise RunError(
        f"the export does not agree with the run: {fault}",
        hint="nothing was written; if no formula of nmt/model was edited, please report it with the run's config.yaml",
    )


def describe(found: Agreement) -> str:
    """Describe the agreement in one line."""
    different = f", {found.different} different" if found.different else ""
    return (
        f"{found.equal} of {found.sentences} translations equal, {found.near_ties} near-ties{different}; "
        f"scores differ by at most {found.largest_score_difference:.2g}"
    )
