"""Find runs of lines whose translations are one to three lines above or below, because a file lacks or repeats a line.

For each offset k, the score of a row measures how well target i + k fits source i: lengths (Gale and Church 1993),
numbers, question marks. A run is a stretch of rows whose scores at one offset exceed those at offset 0 by more in total
than chance explains: the cumulative sum of the differences rises from a low (Page 1954).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.check.profile import LengthModel

MAX_OFFSET = 3
_MIN_RISE = 25.0  # nats; a misaligned row gains about 1 just by its length
_MIN_ROWS = 8
_MAX_LOSS = 4.0  # of a row, by its length, so that one odd pair cannot outweigh its neighbors
_NUMBERS_DIFFER = 2.0
_QUESTION_DIFFERS = 1.0
_END = float("inf")  # the loss after the last row, with which every run ends


class Shift(NamedTuple):
    """Rows [start, end) of a chunk whose source is translated `offset` rows below (above, if negative)."""

    start: int
    end: int
    offset: int


def find_shifts(src: NDArray[np.int64], tgt: NDArray[np.int64], lengths: LengthModel) -> list[Shift]:
    """Return the runs of shifted rows in order; where runs overlap, keep the most certain one.

    `src`, `tgt` [3, N]: the length of each text, a hash of the numbers in it, and 1 if it is a question.
    """
    aligned = _scores(src, tgt, lengths, 0)
    offsets = (offset for offset in range(-MAX_OFFSET, MAX_OFFSET + 1) if offset)
    found = chain.from_iterable(_runs(_scores(src, tgt, lengths, offset) - aligned, offset) for offset in offsets)
    chosen: list[Shift] = []
    for _, shift in sorted(found, reverse=True):
        if all(shift.end <= other.start or other.end <= shift.start for other in chosen):
            chosen.append(shift)
    return sorted(chosen)


def _scores(src: NDArray[np.int64], tgt: NDArray[np.int64], lengths: LengthModel, offset: int) -> NDArray[np.float64]:
    """Return for each source row how well the target row `offset` below fits; at the edges, use offset 0."""
    rows = np.arange(src.shape[1])
    place = rows + offset
    tgt = tgt[:, np.where((place < 0) | (place >= len(rows)), rows, place)]
    score = -np.minimum(lengths.deviations(src[0], tgt[0]) ** 2 / 2, _MAX_LOSS)
    score -= _NUMBERS_DIFFER * (src[1] != tgt[1])
    score -= _QUESTION_DIFFERS * (src[2] != tgt[2])
    return score


def _runs(gain: NDArray[np.float64], offset: int) -> Iterator[tuple[float, Shift]]:
    """Yield (rise, run) of each stretch over which the cumulative sum of `gain` rises enough without falling back."""
    begin = end = 0
    total = rise = 0.0  # up to this row, and at the most
    for row, value in enumerate([*gain.tolist(), -_END]):
        total += value
        if total > rise:
            rise = total
            end = row + 1
        has_ended = total <= rise - _MIN_RISE / 2 if rise >= _MIN_RISE else total <= 0
        if has_ended:
            if rise >= _MIN_RISE and end - begin >= _MIN_ROWS:
                yield rise, Shift(begin, end, offset)
            begin = row + 1
            total = 0.0
            rise = 0.0
