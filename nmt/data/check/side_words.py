"""Tell by its words which side of the corpus a sentence belongs to; learned from the corpus, for any languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from math import log
from typing import Self

_MIN_COUNT = 3  # occurrences in the sample; rarer words are weak evidence
_MIN_ODDS = 0.7  # of a word that is worth keeping, in nats
_MAX_ODDS = 3.0  # of one word: in a corpus with some swapped rows, none is more certain
_MAX_WORDS = 5000  # the most frequent words decide, and a small table stays in the processor's cache
_MIN_TOTAL = 6.0  # of a text, in nats
_MIN_MEAN = 0.5  # per word, so that a few words of the other language are not enough

_COMMON = 0.001  # share of the words of a side; a stray language in a corpus hardly has such a frequent word
_MIN_COMMON = 3  # words of a sentence
_MIN_COMMON_SHARE = 0.3
_NO_ODDS = repeat(0.0)


@dataclass(frozen=True)
class SideWords:
    """The log-odds, in nats, of a word being on the source side rather than on the target side.

    `common`: the words that make up at least 0.1% of a side, and hardly occur on the other side.
    """

    odds: dict[str, float] = field(default_factory=dict)
    common: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

    @classmethod
    def from_words(cls, src: Iterable[Sequence[str]], tgt: Iterable[Sequence[str]]) -> Self:
        """Count the words of source and target sentences, given in lower case."""
        src_counts, tgt_counts = (Counter(word for words in side for word in words) for side in (src, tgt))
        num_src, num_tgt = src_counts.total() + 1, tgt_counts.total() + 1
        odds = {}
        for word, count in (src_counts + tgt_counts).most_common(_MAX_WORDS):
            if count < _MIN_COUNT:
                break
            value = log((src_counts[word] + 0.1) / num_src) - log((tgt_counts[word] + 0.1) / num_tgt)
            if abs(value) >= _MIN_ODDS:
                odds[word] = max(-_MAX_ODDS, min(_MAX_ODDS, value))
        common = (
            frozenset(word for word, value in odds.items() if value > 0 and src_counts[word] >= _COMMON * num_src),
            frozenset(word for word, value in odds.items() if value < 0 and tgt_counts[word] >= _COMMON * num_tgt),
        )
        return cls(odds, common)

    def evidence(self, words: Sequence[str]) -> float:
        """Return the evidence, in nats, that a text belongs to a side: above 0 source, below 0 target, 0 unclear.

        Texts with few known words, or with words of both sides, are unclear.
        """
        total = sum(map(self.odds.get, words, _NO_ODDS))
        return total if abs(total) >= max(_MIN_TOTAL, _MIN_MEAN * len(words)) else 0.0

    def is_typical(self, words: Sequence[str], side: int) -> bool:
        """Return whether a text has many common words of its side (0: source, 1: target)."""
        num_common = sum(map(self.common[side].__contains__, words))
        return num_common >= max(_MIN_COMMON, _MIN_COMMON_SHARE * len(words))
