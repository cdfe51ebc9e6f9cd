"""Positions in arrays of rows that lie one behind the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def positions(starts: Ints, lengths: Ints) -> Ints:
    """Return the concatenated ranges starts[i], …, starts[i] + lengths[i] - 1, in the type of `starts`."""
    ends = lengths.cumsum(dtype=starts.dtype)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0, dtype=starts.dtype)
