"""The profile of a corpus, learned from a sample: the usual ratio of lengths, and the words of each side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from nmt.data.check.features import Side
from nmt.data.check.lengths import LengthModel
from nmt.data.check.side_words import SideWords
from nmt.data.read.corpus import SentencePair

SAMPLE_PAIRS = 50_000
_TYPICAL_PAIRS = 200


@dataclass(frozen=True)
class Profile:
    """The profile of a corpus of `num_rows` rows."""

    num_rows: int = 0
    lengths: LengthModel = field(default_factory=LengthModel)
    side_words: SideWords = field(default_factory=SideWords)
    typical: tuple[tuple[str, str], ...] = ()  # some pairs, to identify the language of each side

    @classmethod
    def from_pairs(cls, pairs: Iterable[SentencePair]) -> Self:
        """Read all pairs once and learn from an evenly spread sample; only the sample is kept in memory."""
        num_rows, sample = sample_evenly(pairs, SAMPLE_PAIRS)
        src_words = [Side(pair.src).words for pair in sample]
        tgt_words = [Side(pair.tgt).words for pair in sample]
        lengths = LengthModel.from_lengths([len(p.src) for p in sample], [len(p.tgt) for p in sample])
        typical = tuple((p.src, p.tgt) for p in sample[:: max(1, len(sample) // _TYPICAL_PAIRS)])
        return cls(num_rows, lengths, SideWords.from_words(src_words, tgt_words), typical)


def sample_evenly(pairs: Iterable[SentencePair], size: int) -> tuple[int, list[SentencePair]]:
    """Return the number of pairs, and every n-th pair: at most `size`, and over half of `size` if there are enough.

    n is a power of 2 that depends only on the number of pairs.
    """
    sample: list[SentencePair] = []
    step, num_rows = 1, 0
    for num_rows, pair in enumerate(pairs, start=1):
        if (num_rows - 1) % step == 0:
            if len(sample) == size:
                del sample[1::2]
                step *= 2
                if (num_rows - 1) % step:
                    continue
            sample.append(pair)
    return num_rows, sample
