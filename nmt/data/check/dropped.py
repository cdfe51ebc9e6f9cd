"""Rows of a corpus that the filters drop: found in one pass, kept as a byte per row, applied in every later pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from nmt.data.check.checker import Expectations
from nmt.data.check.rules import EMPTY, RULES, rules_in
from nmt.data.check.stream import check_pairs
from nmt.data.corpus import SentencePair
from nmt.errors import DataError


@dataclass(frozen=True)
class DroppedRows:
    """The rows that filters drop, by their place in the stream of pairs; how many break each rule, and by corpus."""

    is_dropped: bytearray
    counts: dict[str, int]
    by_corpus: list[int]
    num_kept: int  # with text on both sides

    @classmethod
    def find(cls, pairs: Iterable[SentencePair], expected: Sequence[Expectations], *, workers: int = 1) -> Self:
        """Check `pairs` with the filters of `expected`, one for each corpus, in several processes if it is worth it.

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
        """Yield the pairs that are not dropped, of the same stream. DataError if it has another length by now."""
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
    hint = "start again, and leave the files as they are meanwhile"
    return DataError("the corpus changed while it was read", hint=hint)
