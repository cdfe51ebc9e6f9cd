"""Near-twins: sentences that share half of their 4-grams of letters, or more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.phrases.trie import find_entries
from nmt.data.store.positions import Ints, positions

SIMILARITY = 0.5  # of two sets of 4-grams (Jaccard index); in a sentence of ten words, two may differ
_N = 4
_RARE = 0.8  # the share of a sentence's 4-grams, the rarest, that lead to it
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HASH_BITS = 40  # the others of 64 hold the number of a text
MAX_COUNTERS = 1 << 20  # counters in memory at once


class TwinFinder:
    """An index of held-out sentences, given as their letters in folded case (`Side.folded`), by their rarer 4-grams.

    Half of a sentence's 4-grams cannot all be among its 20% most common ones. So a twin has some of the others, which
    lead to the candidates (the prefix filter of Chaudhuri et al. 2006); then their similarity is computed.
    """

    def __init__(self, folded: Sequence[str]):
        rows, grams = _grams(folded)
        self._num = len(folded)
        self._sizes = np.bincount(rows, minlength=len(folded))
        self._known, ids, counts = np.unique(grams, return_inverse=True, return_counts=True)
        self._pairs = np.sort(ids * self._num + rows)  # (gram, sentence), to look up

        rarest_first = np.lexsort((grams, counts[ids], rows))  # within each sentence
        num_rare = np.ceil(_RARE * self._sizes).astype(np.int64)
        rare = rarest_first[positions(self._sizes.cumsum() - self._sizes, num_rare)]
        by_gram = rare[np.argsort(ids[rare], kind="stable")]
        starts = np.searchsorted(ids[by_gram], np.arange(len(self._known) + 1))
        self._rows: NDArray[Any] = rows[by_gram].astype(np.int32)  # smaller numbers are faster
        self._starts: NDArray[Any] = starts.astype(np.int32)

        # A twin has half of the sentence's grams, and at most the common ones are not among the rare.
        num_common = self._sizes - num_rare
        self._needed = np.maximum(1, np.ceil(SIMILARITY * self._sizes).astype(np.int64) - num_common)

    def find(self, folded: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the near-twins, as pairs of numbers: of one of these texts, and of a held-out sentence."""
        twins = [np.zeros((2, 0), dtype=np.int64)]
        step = max(1, MAX_COUNTERS // max(1, self._num)) if len(self._known) else len(folded) + 1
        for start in range(0, len(folded) if len(self._known) else 0, step):
            texts, held_out = self._find(folded[start : start + step])
            twins.append(np.stack((texts + start, held_out)))
        texts, held_out = np.concatenate(twins, axis=1)
        return texts, held_out

    def _find(self, folded: Sequence[str]) -> tuple[Ints, Ints]:
        rows, grams = _grams(folded)
        sizes = np.bincount(rows, minlength=len(folded))
        ids = find_entries(self._known, grams)
        rows, ids = rows[ids >= 0], ids[ids >= 0]
        texts, held_out = self._candidates(rows, ids, len(folded))
        shared = self._count_shared(rows, ids, texts, held_out)
        num_of_both = sizes[texts] + self._sizes[held_out] - shared
        are_twins = shared >= SIMILARITY * num_of_both
        return texts[are_twins], held_out[are_twins]

    def _candidates(self, rows: Ints, ids: Ints, num_texts: int) -> tuple[Ints, Ints]:
        """Return the texts and the held-out sentences to which enough of their grams lead; text `rows` have `ids`."""
        counts = self._starts[ids + 1] - self._starts[ids]
        first_counters = np.repeat((rows * self._num).astype(np.int32), counts)
        counters = first_counters + self._rows[positions(self._starts[ids], counts)]
        hits = np.bincount(counters, minlength=num_texts * self._num).reshape(num_texts, self._num)
        texts, held_out = np.nonzero(hits >= self._needed)
        return texts, held_out

    def _count_shared(self, rows: Ints, ids: Ints, texts: Ints, held_out: Ints) -> Ints:
        """Return how many grams each text shares with its held-out sentence."""
        firsts, ends = np.searchsorted(rows, texts), np.searchsorted(rows, texts, side="right")
        counts = ends - firsts
        pairs = ids[positions(firsts, counts)] * self._num + np.repeat(held_out, counts)
        is_shared = find_entries(self._pairs, pairs) >= 0
        candidates = np.repeat(np.arange(len(texts)), counts)
        return np.bincount(candidates[is_shared], minlength=len(texts))


def _grams(folded: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the distinct 4-grams of all texts as (number of the text, hash), ordered; blanks surround each text."""
    blanks = "\0" * (_N - 1)
    joined = "".join(blanks + text for text in folded) + blanks
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    lengths = np.fromiter(map(len, folded), dtype=np.int64, count=len(folded)) + _N - 1
    hashes = np.zeros(len(codes) - _N + 1, dtype=np.uint64)
    for offset in range(_N):
        hashes = (hashes + codes[offset : len(hashes) + offset]) * _MULTIPLIER
    rows = np.repeat(np.arange(len(folded), dtype=np.uint64), lengths)
    keys = (rows << np.uint64(_HASH_BITS) | hashes >> np.uint64(64 - _HASH_BITS))[hashes != 0]
    keys.sort()  # np.unique takes four times as long
    keys = keys[np.diff(keys, prepend=~keys[:1]) != 0]
    return (keys >> np.uint64(_HASH_BITS)).astype(np.int64), (keys & np.uint64((1 << _HASH_BITS) - 1)).astype(np.int64)
