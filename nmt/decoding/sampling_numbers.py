"""The random numbers of sampling, the same for every engine. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def sampling_numbers(seed: int, sample: int, source: Sequence[int], count: int, draw: int = 0) -> NDArray[np.float64]:
    """Return the numbers in [0, 1) that decide the first `count` tokens of a sample of `source`.

    They follow from the seed, the source and the number of the sample, so that the rest of the batch and its order
    change nothing. Equal sources get other numbers if they are given different values of `draw`, such as line numbers.
    """
    key = (seed, sample, *source, draw) if draw else (seed, sample, *source)
    return np.random.default_rng(key).random(count)
