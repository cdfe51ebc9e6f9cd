"""Choose the source sentences to hold out from the training text for validation and test.

A sentence is chosen by a seeded hash of its source text. So the choice depends neither on the order of the file nor on
how often a sentence occurs, and all translations of one source sentence get into the same split.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nmt.base.errors import DataError

_MAX_HOLDOUT_DIVISOR = 10  # a held-out set is at most one tenth of the distinct source sentences


@dataclass(frozen=True)
class Holdout:
    """The held-out source sentences, as hashes mapped to the name of their set. Made by `choose_holdout`."""

    seed: int
    chosen: Mapping[int, str]

    def split_of(self, src: str) -> str:
        """Return the set that a pair with this source sentence belongs to: "train", or one of the held-out names."""
        return self.chosen.get(_hash(src, self.seed), "train")


def choose_holdout(sources: Iterable[str], counts: Mapping[str, int], seed: int) -> Holdout:
    """Choose `counts[name]` distinct source sentences for each name ("valid", "test"), in one pass over `sources`.

    The sentences with the smallest hashes are chosen; each set is capped at a tenth of the distinct sentences. Empty
    sentences are never chosen. Memory grows with the counts, not with the corpus. Raises DataError if there are fewer
    than ten distinct sentences, which would leave nothing to train on.
    """
    if not counts:
        return Holdout(seed, {})
    # Ten times the largest set: either these are all distinct sentences, or no set needs the cap.
    smallest = _smallest_hashes(sources, _MAX_HOLDOUT_DIVISOR * max(counts.values()), seed)
    if len(smallest) < _MAX_HOLDOUT_DIVISOR:
        raise DataError(
            f"{len(smallest)} distinct source sentences are too few to hold out {' and '.join(counts)}",
            hint=f"give at least {_MAX_HOLDOUT_DIVISOR}, or set data.valid and data.test",
        )
    chosen: dict[int, str] = {}
    start = 0
    # In alphabetical order, so that the test set does not depend on whether valid is held out too.
    for name in sorted(counts):
        end = start + min(counts[name], len(smallest) // _MAX_HOLDOUT_DIVISOR)
        chosen.update(dict.fromkeys(smallest[start:end], name))
        start = end
    return Holdout(seed, chosen)


def _smallest_hashes(sources: Iterable[str], limit: int, seed: int) -> list[int]:
    """Return the `limit` smallest distinct hashes in ascending order; all of them if there are fewer."""
    kept: set[int] = set()
    heap: list[int] = []  # negated: the largest hash kept is on top
    for src in sources:
        value = _hash(src, seed)
        if not src or value in kept:
            continue
        if len(heap) < limit:
            heapq.heappush(heap, -value)
            kept.add(value)
        elif value < -heap[0]:
            kept.remove(-heapq.heapreplace(heap, -value))
            kept.add(value)
    return sorted(kept)


def _hash(src: str, seed: int) -> int:
    text = src.encode("utf-8", errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, salt=seed.to_bytes(8, "big")).digest(), "big")
