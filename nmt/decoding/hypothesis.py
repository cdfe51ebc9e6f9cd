"""What a search finds."""

from __future__ import annotations

from typing import NamedTuple


class Hypothesis(NamedTuple):
    """One translation in tokens, eos left out."""

    ids: list[int]
    score: float  # sum of natural-log probabilities of the tokens, eos included
    finished: bool  # ended by eos, not cut at the longest length
    # The summands of `score`, that of eos last where it is finished; nobody writes into it.
    token_scores: list[float] = []  # noqa: RUF012
