"""The expected length of a translation, learned from the corpus, so that it works for any pair of languages."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

_SHORT = 5.0  # characters added to the length in the variance, because short sentences vary more for their length
_MIN_SCALE = 0.75  # if all pairs are similar (digits, codes), a few extra characters are not an error
# Both are in characters of the side that has more of them: a Chinese character counts as about three letters.
_MAD_TO_SCALE = 1.4826  # median absolute deviation to standard deviation, of a normal distribution


@dataclass(frozen=True)
class LengthModel:
    """The expected ratio of target to source characters, and how far pairs scatter around it.

    Follows Gale and Church 1993, section 3.1: the length difference is normally distributed, with a variance in
    proportion to the length. Here both parameters are medians, so a few percent of bad pairs do not affect them.
    Differences are in target characters.
    """

    ratio: float = 1.0
    scale: float = 1.0

    @classmethod
    def from_lengths(cls, src_len: ArrayLike, tgt_len: ArrayLike) -> Self:
        """Estimate the model from the lengths of pairs, in characters. Pairs with an empty side are ignored."""
        src, tgt = np.asarray(src_len, dtype=np.float64), np.asarray(tgt_len, dtype=np.float64)
        whole = (src > 0) & (tgt > 0)
        if not whole.any():
            return cls()
        src, tgt = src[whole], tgt[whole]
        ratio = float(np.median(tgt / src))
        scale = _MAD_TO_SCALE * float(np.median(np.abs(cls(ratio).deviations(src, tgt))))
        return cls(ratio, max(_MIN_SCALE * sqrt(min(1.0, ratio)), scale))

    def deviations(self, src_len: NDArray[np.float64], tgt_len: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many standard deviations each target is longer (negative: shorter) than expected."""
        expected = self.ratio * src_len
        return (tgt_len - expected) / (self.scale * np.sqrt((expected + tgt_len) / 2 + self._short))

    @property
    def _short(self) -> float:
        return _SHORT * min(1.0, self.ratio)
