"""Near-twins: sentences that share half of their 4-grams of letters, or more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

SIMILARITY = 0.5  # of two sets of 4-grams (Jaccard index); in a sentence of ten words, two may differ
_N = 4


class TwinFinder:
    """An index of held-out sentences, given as their letters in folded case (`Side.folded`), by their 4-grams."""

    def __init__(self, folded: Sequence[str]):
        all_grams = list(map(_grams, folded))
        sentences_with: defaultdict[str, list[int]] = defaultdict(list)
        for number, grams in enumerate(all_grams):
            for gram in grams:
                sentences_with[gram].append(number)
        self._sentences_with = {gram: np.array(numbers) for gram, numbers in sentences_with.items()}
        self._sizes = np.fromiter(map(len, all_grams), dtype=np.int64)

    def find(self, folded: Iterable[str]) -> Iterator[tuple[int, int]]:
        """Yield the near-twins, as pairs of numbers: of one of these texts, and of a held-out sentence."""
        for text, grams in enumerate(map(_grams, folded)):
            known = [self._sentences_with[gram] for gram in grams & self._sentences_with.keys()]
            if known:
                num_shared = np.bincount(np.concatenate(known), minlength=len(self._sizes))
                num_of_both = len(grams) + self._sizes - num_shared
                yield from (
                    (text, number) for number in np.flatnonzero(num_shared >= SIMILARITY * num_of_both).tolist()
                )


def _grams(folded: str) -> set[str]:
    """Return the 4-grams of a text, which blanks surround; none of an empty one."""
    blanks = " " * (_N - 1)
    padded = f"{blanks}{folded}{blanks}"
    return {padded[start : start + _N] for start in range(len(folded) + _N - 1)} if folded else set()
