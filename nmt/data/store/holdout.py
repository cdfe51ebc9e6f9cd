"""Choose the source sentences to hold out from the training text for validation and test.

A sentence is chosen by a seeded hash of its source text. So the choice depends neither on the order of the file nor on
how often a sentence occurs, and all translations of one source sentence get into the same split. `choose_groups` also
keeps all sources of one translation together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nmt.base.errors import DataError

Hashes = NDArray[np.uint64]

HOLDOUT_SEED = 1  # of the choice, independent of the seed of the training
_MAX_HOLDOUT_DIVISOR = 10  # a held-out set is at most one tenth of the distinct source sentences
_GROUP_DIVISOR = 50  # a group is at most one fiftieth of a held-out set, or of median size: no phrase dominates a set


def choose_sentences(hashes: Hashes, counts: Mapping[str, int]) -> dict[int, str]:
    """Choose `counts[name]` distinct sentences for each name ("valid", "test"), by their hashes [pairs].

    Returns the name for the hash of each. Those with the smallest hashes are chosen; each set is capped at a tenth of
    the distinct sentences. DataError if there are fewer than ten, which would leave nothing to train on.
    """
    hashes = np.unique(hashes)
    names = _named(np.ones_like(hashes, dtype=np.int64), _limits(len(hashes), counts))
    return {int(hashes[number]): name for number, name in names.items()}


def choose_groups(hashes: Hashes, counts: Mapping[str, int]) -> dict[int, str]:
    """Choose about `counts[name]` sources for each name, in groups that share no source and no target with others.

    `hashes` are those of the source and the target of each pair, one after the other. Pairs with the same source or
    target, directly or through others, are a group; its name is the smallest hash of its sentences, so the opposite
    direction has the same groups. The groups with the smallest names are chosen, but none that would dominate its set.
    Memory grows with the pairs, by about 50 bytes each. DataError if too few remain.
    """
    (sources, src), (targets, tgt) = (np.unique(side, return_inverse=True) for side in hashes.reshape(-1, 2).T)
    limits = _limits(min(len(sources), len(targets)), counts)

    src_groups, tgt_groups = sources.copy(), targets.copy()
    while not np.array_equal(src_groups[src], tgt_groups[tgt]):  # pass the smallest hash on, until a group agrees
        smaller = np.minimum(src_groups[src], tgt_groups[tgt])
        np.minimum.at(src_groups, src, smaller)
        np.minimum.at(tgt_groups, tgt, smaller)
    groups, group_of_source = np.unique(src_groups, return_inverse=True)
    num_targets = np.bincount(np.searchsorted(groups, tgt_groups))
    sizes = np.maximum(np.bincount(group_of_source), num_targets)

    names = _named(sizes, limits)
    of_sources = zip(sources.tolist(), group_of_source.tolist(), strict=True)
    return {source: names[group] for source, group in of_sources if group in names}


def _limits(num_distinct: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many sentences each set gets, in alphabetical order, so that test does not depend on valid."""
    if num_distinct < _MAX_HOLDOUT_DIVISOR:
        raise DataError(
            f"{num_distinct} distinct source sentences are too few to hold out {' and '.join(counts)}",
            hint=f"give at least {_MAX_HOLDOUT_DIVISOR}, or set data.valid and data.test",
        )
    most = num_distinct // _MAX_HOLDOUT_DIVISOR
    return {name: min(count, most) for name, count in sorted(counts.items())}


def _named(sizes: NDArray[np.int64], limits: Mapping[str, int]) -> dict[int, str]:
    """Return the set of each chosen group: the first that fit, whose `sizes` reach the limit of the set."""
    usual_size = max(min(limits.values()) // _GROUP_DIVISOR, np.median(sizes))
    (fits,) = np.nonzero(sizes <= min(max(limits.values()), usual_size))
    ends = sizes[fits].cumsum()
    names: dict[int, str] = {}
    start = 0
    for name, limit in limits.items():
        if start >= len(fits):
            raise DataError(
                f"the sentences repeat too often to hold out {' and '.join(sorted(limits, reverse=True))} in groups",
                hint="set data.holdout_groups to false, or data.valid and data.test",
            )
        num_before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, num_before + limit)) + 1
        names.update(dict.fromkeys(fits[start:end].tolist(), name))
        start = end
    return names


def hash_of(sentence: str) -> int:
    """Return the seeded hash of a sentence, of 64 bits."""
    text = sentence.encode("utf-8", errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, salt=HOLDOUT_SEED.to_bytes(8, "big")).digest(), "big")
