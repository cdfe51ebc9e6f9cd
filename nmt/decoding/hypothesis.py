"""The result of a search. Imports no torch."""

from __future__ import annotations

import math
from typing import NamedTuple

from nmt.base.errors import RunError


class Hypothesis(NamedTuple):
    """One translation in tokens, without eos."""

    ids: list[int]
    score: float  # sum of natural-log probabilities of the tokens, eos included
    finished: bool  # ended with eos, not truncated at the maximum length
    # The summands of `score`, including that of eos if the output is finished; read-only.
    token_scores: list[float] = []  # noqa: RUF012


class NotFiniteError(RunError):
    """The outputs of a model are not numbers."""


def check_finite(score: float) -> None:
    """Raise NotFiniteError if `score`, the log-probability of an output, is not a number."""
    if math.isnan(score):
        raise NotFiniteError(
            "the model's output is not finite: its weights are damaged, or its training diverged",
            hint="use another checkpoint, or train again with a lower training.lr",
        )
