"""Select the pairs of a synthetic corpus: by faults, repeated outputs, length ratio and score."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.apps.recipes.candidates import FAULTS, Candidate, Candidates
from nmt.base.errors import UsageError, counted
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
    keep: float = 1.0  # share, by score, of the pairs that meet all other conditions
    allowed: Collection[str] = ()  # faults to ignore; a pair with an empty side is dropped all the same


def refuse_unknown(reasons: Collection[str]) -> None:
    """Raise NmtError for a reason that is none of `FAULTS`."""
    for reason in reasons:
        if reason not in FAULTS:
            raise UsageError(f"--allow {reason}: the reasons are {', '.join(FAULTS)}")


class Kept(NamedTuple):
    """A pair that is kept."""

    line: int  # line number in the given text, from 1
    text: str
    candidate: Candidate


class Selection:
    """Selects the pairs to keep from candidates that can be read several times.

    Reads the first 100,000 sound pairs to find outputs that are those of many lines, and the usual length ratio; for
    the best share, it sorts the scores of all in memory. `pairs` counts each reason in `dropped`.
    """

    def __init__(self, read: Callable[[], Iterable[Candidates]], limits: Limits):
        """Read the candidates as far as `limits` requires; each call of `read` iterates over all of them."""
        self.limits = limits
        self._read = read
        self.dropped: Counter[str] = Counter()
        self.num_lines = self.num_kept = 0
        self._model: LengthModel | None = None
        self._repeated: Collection[str] = ()
        sample = list(islice(self._sound(), _SAMPLE_PAIRS))
        if "repeated" not in limits.allowed:
            self._repeated = _repeated_in(sample)
        usual = [(len(text), len(each.output)) for text, each in sample if each.output not in self._repeated]
        if limits.length_ratio is not None and len(usual) >= _MIN_SAMPLE_PAIRS:
            self._model = LengthModel.from_lengths(*np.array(usual).T)
        keeps_all = limits.keep >= 1 or "not_best" in limits.allowed
        self._is_best: Iterator[bool] = repeat(True) if keeps_all else iter(self._in_best_share())

    def pairs(self) -> Iterator[Kept]:
        """Yield the pairs to keep, in order, and count the others by reason. Call this only once."""
        for line, (text, outputs) in enumerate(self._read(), 1):
            self.num_lines = line
            for candidate in outputs:
                fault = self._fault(text, candidate)
                if fault is None and not next(self._is_best):
                    fault = "not_best"
                if fault is None:
                    self.num_kept += 1
                    yield Kept(line, text, candidate)
                else:
                    self.dropped[fault] += 1

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

    def _sound(self) -> Iterator[tuple[str, Candidate]]:
        """Yield the pairs without a fault; before lengths are learned, their ratio is none."""
        for text, outputs in self._read():
            yield from ((text, each) for each in outputs if self._fault(text, each) is None)

    def _in_best_share(self) -> NDArray[np.bool_]:
        """Return whether each sound pair is in the best share; of equal scores, the first are."""
        found = (-math.inf if candidate.score is None else candidate.score for _, candidate in self._sound())
        scores = np.fromiter(found, np.float64)
        best = np.argsort(-scores, kind="stable")[: round(self.limits.keep * len(scores))]
        is_best = np.zeros(len(scores), np.bool_)
        is_best[best] = True
        return is_best


def _repeated_in(sample: Iterable[tuple[str, Candidate]]) -> frozenset[str]:
    """Return the outputs that many lines of different words have."""
    distinct = {(" ".join(letter_runs(text)) or text, candidate.output) for text, candidate in sample}
    counts = Counter(output for _, output in distinct)
    least = max(_MIN_REPEATED, _REPEATED_SHARE * len(distinct))
    return frozenset(output for output, count in counts.items() if count >= least)
