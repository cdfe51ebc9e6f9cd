"""The order in which training visits the pairs of a store, with one or several corpora, each by its share.

It is computed index by index, so memory does not grow with the corpus, and any position can be computed directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from nmt.base.errors import ConfigError
from nmt.config.data import DataConfig

_Indices = NDArray[np.int64]
_Keys = NDArray[np.uint64]  # [4] the keys of the rounds, or [4, n] for each number

_OF_A_CORPUS = 1  # distinguishes the keys of a corpus from those of an epoch
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class ShuffledOrder:
    """Every pair once per epoch, each epoch in a different permutation."""

    def __init__(self, num_pairs: int, seed: int):
        self.num_pairs = num_pairs
        self.seed = seed

    def indices(self, ranks: _Indices, epoch: int) -> _Indices:
        """Return the store indices of the pairs at `ranks` (from 0) of `epoch`."""
        return permute(ranks, self.num_pairs, key=(self.seed, epoch))


class MixedOrder:
    """A fixed number of pairs of each corpus per epoch, its quota.

    An epoch has as many pairs as the store. Draw number k of a corpus of n pairs, counted over all epochs, belongs to
    pass k // n; each pass is a permutation of the corpus. So after any number of epochs, all pairs of a corpus have
    been drawn equally often, give or take one, whatever the quota.
    """

    def __init__(self, sizes: Sequence[int], quotas: Sequence[int], seed: int):
        """Take the number of pairs of each corpus, in the order of the store, and its quota per epoch."""
        self.sizes = list(sizes)
        self.quotas = list(quotas)
        self.seed = seed
        self._starts = [0, *np.cumsum(sizes).tolist()]
        self._quota_ends = np.cumsum(quotas)

    def indices(self, ranks: _Indices, epoch: int) -> _Indices:
        """Return the store indices of the pairs at `ranks` (from 0) of `epoch`."""
        slots = permute(ranks, int(self._quota_ends[-1]), key=(self.seed, epoch))
        corpus_of_slot = np.searchsorted(self._quota_ends, slots, side="right")
        indices = np.empty_like(slots)
        for corpus in np.unique(corpus_of_slot).tolist():
            mine = corpus_of_slot == corpus
            quota = self.quotas[corpus]
            draws = slots[mine] - (int(self._quota_ends[corpus]) - quota) + epoch * quota
            indices[mine] = self._starts[corpus] + self._drawn(draws, corpus)
        return indices

    def _drawn(self, draws: _Indices, corpus: int) -> _Indices:
        """Return the positions in `corpus` of its draws with these numbers."""
        size = self.sizes[corpus]
        passes, ranks = np.divmod(draws, size)
        bases = np.random.default_rng((self.seed, corpus, _OF_A_CORPUS)).integers(1 << 62, size=(4, 1), dtype=np.uint64)
        return _permute(ranks, size, _mixed(bases + passes.astype(np.uint64) * _GOLDEN))


Order = ShuffledOrder | MixedOrder  # the order of the pairs in each epoch, determined by its seed


def order_of(sizes: Sequence[int], weights: Sequence[float] | None, seed: int) -> Order:
    """Return the order of the pairs of corpora of `sizes`; without `weights`, each pair once per epoch."""
    if weights is None:
        return ShuffledOrder(sum(sizes), seed)
    return MixedOrder(sizes, quotas(sizes, weights), seed)


def quotas(sizes: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Return the number of pairs per epoch of each corpus: the total size, divided in proportion to `weights`.

    Exact, by the largest-remainder method; ties go to the first corpus. ConfigError if a corpus with a weight has no
    pairs, or its weight is too small for a single pair.
    """
    num_pairs = sum(sizes)
    total = sum(map(Fraction, weights))
    exact = [Fraction(weight) * num_pairs / total for weight in weights]
    shares = [int(share) for share in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda corpus: (shares[corpus] - exact[corpus], corpus))
    for corpus in by_remainder[: num_pairs - sum(shares)]:
        shares[corpus] += 1
    for corpus, (size, weight, share) in enumerate(zip(sizes, weights, shares, strict=True)):
        if weight and not (size and share):
            raise ConfigError(
                f"corpus {corpus + 1} of data.train gets none of the {num_pairs:,} pairs of an epoch",
                hint="raise its weight, omit it, or check what its filters drop",
            )
    return shares


def corpus_weights(data: DataConfig, sizes: Sequence[int]) -> list[float] | None:
    """Return the weights of the training corpora with `sizes` pairs; None if all pairs count the same."""
    given = [files.weight for files in data.corpora("train")]
    weights = [weight for weight in given if weight is not None]
    if len(given) == 1:
        return None
    if len(weights) == len(given):
        return weights
    if data.temperature == 1.0:
        return None
    # Arivazhagan et al. 2019, section 4.2; 1 gives shares in proportion to size, larger values more equal ones.
    return [size ** (1 / data.temperature) if size else 0.0 for size in sizes]


def halved(indices: _Indices, seed: int) -> NDArray[np.bool_]:
    """Return a pseudo-random bit for each index, always the same for a `seed`."""
    return _mixed(indices.astype(np.uint64) + _mixed(np.array([seed], dtype=np.uint64))) >> np.uint64(63) == 1


def permute(ranks: _Indices, size: int, key: tuple[int, ...]) -> _Indices:
    """Map each of `ranks` by a pseudo-random permutation of 0..size-1, without building the permutation.

    Uses a four-round Feistel network on the next power of four, repeated until the result is below `size` (Black and
    Rogaway 2002, Ciphers with Arbitrary Finite Domains, section 3).
    """
    return _permute(ranks, size, np.random.default_rng(key).integers(1 << 62, size=4, dtype=np.uint64))


def _permute(ranks: _Indices, size: int, round_keys: _Keys) -> _Indices:
    """Map each of `ranks` by the permutation of 0..size-1 with these `round_keys`, one per rank if they are [4, n]."""
    half_bits = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    low = np.uint64((1 << half_bits) - 1)

    def shuffle_once(values: NDArray[np.uint64], keys: _Keys) -> NDArray[np.uint64]:
        left = values >> np.uint64(half_bits)
        right = values & low
        for round_key in keys:
            left, right = right, left ^ ((_mixed(right + round_key) >> np.uint64(32)) & low)
        return (left << np.uint64(half_bits)) | right

    values = shuffle_once(ranks.astype(np.uint64), round_keys)
    while len(outside := np.flatnonzero(values >= size)):
        keys = round_keys if round_keys.ndim == 1 else round_keys[:, outside]
        values[outside] = shuffle_once(values[outside], keys)
    return values.astype(np.int64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit of `values` over the higher bits."""
    values = values * _GOLDEN
    return (values ^ (values >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
