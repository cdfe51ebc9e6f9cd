"""The models of a search, in step: one model, or an ensemble."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of the models' probabilities: the linear opinion pool (Stone 1961), equal weights."""
    if len(log_probs) == 1:
        return log_probs[0]
    # At most 0, whatever rounding says: a hypothesis never gains by growing.
    return (torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))).clamp_max(0.0)
