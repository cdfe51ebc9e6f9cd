"""Which rows of a corpus the filters drop: found in one pass, kept as a byte per row, applied in every later pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from nmt.data.check.checker import Expectations
from nmt.data.check.rules import RULES, bits_switched_on
from nmt.data.check.stream import check_pairs
from nmt.data.corpus import SentencePair
from nmt.errors import DataError


@dataclass(frozen=True)
class DroppedRows:
    """The rows that filters drop, by their place in the stream of pairs, and how many break each rule."""

    is_dropped: bytearray
    counts: dict[str, int]
    num_kept: int  # with text on both sides

    @classmethod
    def find(cls, pairs: Iterable[SentencePair], expected: Sequence[Expectations]) -> Self:
        """Check `pairs` with the filters of `expected`, one for each corpus. Reports count pairs with an empty side."""
        bits_on = bits_switched_on(expected[0].filters)
        rules = [rule for rule in RULES if rule.key and rule.bit & bits_on]
        bits = sum(rule.bit for rule in rules)
        is_dropped, counts, num_kept = bytearray(), dict.fromkeys((rule.name for rule in rules), 0), 0
        for chunk in check_pairs(pairs, expected, bits=bits):
            is_dropped += ((chunk.flags & bits) != 0).astype(np.uint8).tobytes()
            num_kept += int(np.count_nonzero((chunk.flags & bits_on) == 0))
            for rule in rules:
                counts[rule.name] += int(np.count_nonzero(chunk.flags & rule.bit))
        return cls(is_dropped, {name: count for name, count in counts.items() if count}, num_kept)

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
