"""The rows of a corpus that the filters drop: found in one pass, stored as a byte per row, used in later passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from nmt.base.errors import DataError
from nmt.data.check.checker import Expectations
from nmt.data.check.rules import EMPTY, RULES, rules_in
from nmt.data.check.stream import check_pairs
from nmt.data.read.corpus import SentencePair


@dataclass(frozen=True)
class DroppedRows:
    """The rows that filters drop, by position in the stream of pairs, with counts per rule and per corpus."""

    is_dropped: bytearray
    counts: dict[str, int]
    by_corpus: list[int]
    num_kept: int  # with text on both sides

    @classmethod
    def find(cls, pairs: Iterable[SentencePair], expected: Sequence[Expectations], *, workers: int = 1) -> Self:
        """Check `pairs` with the filters of `expected` (one entry per corpus), using several processes if worthwhile.

        Reports count pairs with an empty side.
        """
        is_dropped, counts, num_kept = bytearray(), dict.fromkeys(RULES, 0), 0
        by_corpus = np.zeros(len(expected), dtype=np.int64)
        for chunk in check_pairs(pairs, expected, workers=workers, only_active=True):
            broken = chunk.flags & chunk.bits_on
            dropped = (broken & ~EMPTY) != 0
            is_dropped += dropped.astype(np.uint8).tobytes()
            num_kept += int(np.count_nonzero(broken == 0))
            rows = np.flatnonzero(dropped)
            corpora = np.fromiter((chunk.pairs[row].corpus for row in rows.tolist()), dtype=np.int64, count=len(rows))
            by_corpus += np.bincount(corpora, minlength=len(expected))
            for rule in rules_in(chunk.bits_on & ~EMPTY):
                counts[rule] += int(np.count_nonzero(broken[rows] & rule.bit))
        found = {rule.name: count for rule, count in counts.items() if count}
        return cls(is_dropped, found, by_corpus.tolist(), num_kept)

    def __len__(self) -> int:
        return self.is_dropped.count(1)

    def kept(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield the pairs of the same stream that are not dropped. DataError if its length has changed."""
        stream = iter(pairs)
        for dropped in self.is_dropped:
            pair = next(stream, None)
            if pair is None:
                raise _changed()
            if not dropped:
                yield pair
        if next(stream, None) is not None:
            raise _changed()


def _changed() -> DataError:
    hint = "start again, and do not change the files meanwhile"
    return DataError("the corpus changed while it was read", hint=hint)
