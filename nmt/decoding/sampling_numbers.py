"""The random numbers for sampling, which are the same for every engine. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def sampling_numbers(seed: int, sample: int, source: Sequence[int], count: int, draw: int = 0) -> NDArray[np.float64]:
    """Return the numbers in [0, 1) that decide the first `count` tokens of a sample of `source`.

    They depend only on the seed, the source, the index of the sample and `draw`, not on the rest of the batch. To give
    equal sources different samples, pass different values of `draw`, such as line numbers.
    """
    key = (seed, sample, *source, draw) if draw else (seed, sample, *source)
    return np.random.default_rng(key).random(count)
