"""Select the pairs of a synthetic corpus: by faults, repeated outputs, length ratio and score."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from nmt.apps.recipes.candidates import FAULTS, Candidate, Candidates
from nmt.base.errors import NmtError, counted
from nmt.config.filters import THRESHOLDS
from nmt.data.check.profile import LengthModel
from nmt.data.text.words import letter_runs

_SAMPLE_PAIRS = 100_000  # pairs from which the usual length ratio is estimated
_MIN_SAMPLE_PAIRS = 30  # too few pairs to estimate a usual ratio, if there are fewer
_MIN_REPEATED = 5  # lines of other words with the same output, and this share of all: it translates none of them
_REPEATED_SHARE = 0.005


class Limits(NamedTuple):
    """The conditions for keeping a pair."""

    length_ratio: float | None = THRESHOLDS["length_ratio"]  # standard deviations; None: any
    min_score: float | None = None  # mean log-probability per token
    keep: float = 1.0  # share, by score, of the pairs that meet all other conditions
    allowed: Collection[str] = ()  # faults to ignore; a pair with an empty side is dropped all the same


def refuse_unknown(reasons: Collection[str]) -> None:
    """Raise NmtError for a reason that is none of `FAULTS`."""
    for reason in reasons:
        if reason not in FAULTS:
            raise NmtError(f"--allow {reason}: the reasons are {', '.join(FAULTS)}")


class Kept(NamedTuple):
    """A pair that is kept."""

    line: int  # line number in the given text, from 1
    rank: int  # rank of the output in its n-best list, from 0
    text: str
    candidate: Candidate


class Selection:
    """Selects the pairs to keep from candidates that can be read several times.

    Reads the candidates to find outputs that are those of many lines, and the usual length ratio, in the first 100,000
    sound pairs, and the lowest score in the best share, for which it keeps all scores in memory. `pairs` counts each
    reason in `dropped`.
    """

    def __init__(self, read: Callable[[], Iterable[Candidates]], limits: Limits):
        """Read the candidates as far as `limits` requires; each call of `read` iterates over all of them."""
        self.limits = limits
        self._read = read
        self.dropped: Counter[str] = Counter()
        self.num_lines = self.num_kept = 0
        self._keeps_all = limits.keep >= 1 or "not_best" in limits.allowed
        self._model: LengthModel | None = None
        self._repeated: Collection[str] = ()
        if "repeated" not in limits.allowed:
            self._repeated = self._find_repeated()
        if limits.length_ratio is not None:
            self._model = self._learn_lengths()
        self._lowest, self._num_lowest = (-math.inf, 0) if self._keeps_all else self._lowest_of_best()

    def pairs(self) -> Iterator[Kept]:
        """Yield the pairs to keep, in order, and count the others by reason. Call this only once."""
        room = self._num_lowest
        for line, (text, outputs) in enumerate(self._read(), 1):
            self.num_lines = line
            for rank, candidate in enumerate(outputs):
                fault = self._fault(text, candidate)
                if fault is None and not self._keeps_all:
                    is_lowest = _score(candidate) == self._lowest
                    if _score(candidate) < self._lowest or (is_lowest and not room):
                        fault = "not_best"
                    room -= fault is None and is_lowest
                if fault is not None:
                    self.dropped[fault] += 1
                    continue
                self.num_kept += 1
                yield Kept(line, rank, text, candidate)

    def describe(self) -> str:
        """Return a human-readable line with the number of pairs kept, and the number dropped for each reason."""
        total = self.num_kept + self.dropped.total()
        counts = ", ".join(f"{self.dropped[fault]:,} {fault}" for fault in FAULTS if self.dropped[fault])
        kept = f"kept {self.num_kept:,} of {counted(total, 'pair')} from {counted(self.num_lines, 'line')}"
        return kept + (f"; dropped: {counts}" if counts else "")

    def _fault(self, text: str, candidate: Candidate) -> str | None:
        """Return the first fault of a pair that is not ignored, apart from `not_best`."""
        ignored = self.limits.allowed if text.strip() and candidate.output else ()
        return next((fault for fault in self._faults(text, candidate) if fault not in ignored), None)

    def _faults(self, text: str, candidate: Candidate) -> Iterator[str]:
        """Yield the faults of a pair, in the order of `FAULTS`, apart from `not_best`."""
        yield from candidate.faults
        if candidate.output in self._repeated:
            yield "repeated"
        if self._model is not None and self.limits.length_ratio is not None:
            lengths = np.array([[len(text)], [len(candidate.output)]], dtype=np.float64)
            if abs(float(self._model.deviations(*lengths)[0])) > self.limits.length_ratio:
                yield "length_ratio"
        if self.limits.min_score is not None and (candidate.score is None or candidate.score < self.limits.min_score):
            yield "low_score"

    def _sound(self) -> Iterator[tuple[str, Candidate]]:
        """Yield the pairs without a fault; before lengths are learned, their ratio is none."""
        for text, outputs in self._read():
            yield from ((text, each) for each in outputs if self._fault(text, each) is None)

    def _find_repeated(self) -> frozenset[str]:
        """Return the outputs that many lines of different words have."""
        sample = islice(self._sound(), _SAMPLE_PAIRS)
        distinct = {(" ".join(letter_runs(text)) or text, candidate.output) for text, candidate in sample}
        counts = Counter(output for _, output in distinct)
        least = max(_MIN_REPEATED, _REPEATED_SHARE * len(distinct))
        return frozenset(output for output, count in counts.items() if count >= least)

    def _learn_lengths(self) -> LengthModel | None:
        sample = islice(self._sound(), _SAMPLE_PAIRS)
        lengths = [(len(text), len(candidate.output)) for text, candidate in sample]
        return LengthModel.from_lengths(*np.array(lengths).T) if len(lengths) >= _MIN_SAMPLE_PAIRS else None

    def _lowest_of_best(self) -> tuple[float, int]:
        """Return the lowest score in the best share, and how many pairs with that score belong to the share."""
        scores = np.fromiter((_score(candidate) for _, candidate in self._sound()), np.float64)
        count = round(self.limits.keep * len(scores))
        if count == 0:
            return math.inf, 0
        scores.partition(len(scores) - count)
        lowest = float(scores[-count])
        return lowest, count - int((scores > lowest).sum())


def _score(candidate: Candidate) -> float:
    return -math.inf if candidate.score is None else candidate.score
