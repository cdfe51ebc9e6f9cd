"""Align the tokens of a small corpus: model 1, then an HMM of the jumps between links (Vogel et al. 1996).

Both directions are learned alone, with a sparse prior (Mermer and Saraçlar 2011). A link is kept if they agree on it
(posterior decoding; Liang et al. 2006, "Alignment by Agreement", section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.lexicon.aligner import TENSION
from nmt.data.phrases.trie import Ints, padded, pair_keys

Floats = NDArray[np.float64]
Links = list[tuple[int, int]]  # source token, target token

MODEL1_ITERATIONS, HMM_ITERATIONS = 3, 4
LEAST_SHARED = 0.25  # geometric mean of the probabilities of a link in both directions
_BATCH_PAIRS = 32
_NULL = 0.1  # prior probability that a token has no link
_PRIOR = 0.01  # pseudo-count of each entry of the lexicon; below 1, it prefers few translations
_MAX_JUMP = 7  # jumps of at least that length share a probability
_LEAST = 1e-12


class _Batch(NamedTuple):
    """Pairs of similar lengths, padded by -1."""

    pairs: Ints  # [B]
    entries: Ints  # [B, S, T]: of each pair of tokens in the lexicon
    src: Ints  # [B, S]
    tgt: Ints  # [B, T]


class _Direction:
    """The model of one direction: each explained token links to one of the given tokens, or to none."""

    def __init__(self, given: Ints, num_given: int, num_explained: int):
        self.given, self.num_given = given, num_given  # `given` [entries]: what each probability depends on
        self.sizes = np.bincount(given, minlength=num_given)
        self.probabilities = np.ones(len(given))
        self.null = np.ones(num_explained)
        self.jumps = np.ones(2 * _MAX_JUMP + 1)  # relative to chance, by length
        self.forget()

    def forget(self) -> None:
        """Set all expected counts to 0."""
        self.counts, self.null_counts = np.zeros(len(self.given)), np.zeros(len(self.null))
        self.jump_counts, self.chance_counts = np.zeros(len(self.jumps)), np.zeros(len(self.jumps))

    def expect(self, entries: Ints, explained: Ints, *, jumps: bool) -> None:
        """Add the expected links of a batch: entries [B, given, explained]."""
        links, nulls = self.posteriors(entries, explained, jumps=jumps)
        is_pair, is_token = entries >= 0, explained >= 0
        self.counts += np.bincount(entries[is_pair], links[is_pair], minlength=len(self.counts))
        self.null_counts += np.bincount(explained[is_token], nulls[is_token], minlength=len(self.null))

    def maximize(self) -> None:
        """Set the model from the expected counts; the lexicon by variational Bayes."""
        totals = np.bincount(self.given, self.counts, minlength=self.num_given) + _PRIOR * self.sizes
        shares = _exp_digamma(self.counts + _PRIOR) / np.maximum(_exp_digamma(totals), _LEAST)[self.given]
        self.probabilities = np.maximum(shares, _LEAST)
        self.null = np.maximum(self.null_counts / max(float(self.null_counts.sum()), _LEAST), 1e-7)
        self.jumps = (self.jump_counts + 1) / (self.chance_counts + 1)
        self.forget()

    def posteriors(self, entries: Ints, explained: Ints, *, jumps: bool) -> tuple[Floats, Floats]:
        """Return the probability of each link [B, given, explained], and that of none [B, explained].

        With `jumps`, by the HMM, else by model 1 with a preference for similar places.
        """
        emitted = np.where(entries >= 0, self.probabilities[entries], 0.0)
        null = np.where(explained >= 0, self.null[explained], 1.0) * _NULL
        if jumps:
            return self._forward_backward(emitted, null, explained >= 0)
        emitted *= np.exp(-TENSION * _distances(entries))
        totals = emitted.sum(1) + null
        return emitted / totals[:, None, :], null / totals

    def _forward_backward(self, emitted: Floats, null: Floats, is_token: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        num_given, length = emitted.shape[1:]
        places = np.arange(num_given)
        offsets = np.clip(places[None, :] - places[:, None], -_MAX_JUMP, _MAX_JUMP) + _MAX_JUMP
        moves = self.jumps[offsets] * (1 - _NULL) / num_given
        emitted, null = np.ascontiguousarray(emitted.transpose(2, 0, 1)), null.T[:, :, None]
        linked, unlinked = np.empty_like(emitted), np.empty_like(emitted)
        scales, state = np.empty((length, emitted.shape[1], 1)), np.full(emitted.shape[1:], 1.0 / num_given)
        for step in range(length):
            link, none = (state @ moves if step else state * (1 - _NULL)) * emitted[step], state * null[step]
            scales[step] = np.maximum(link.sum(1) + none.sum(1), 1e-300)[:, None]
            linked[step], unlinked[step] = link / scales[step], none / scales[step]
            state = linked[step] + unlinked[step]
        jumped, chances = np.zeros_like(moves), np.zeros(num_given)
        behind = np.ones_like(state)
        for step in range(length - 1, -1, -1):
            weighed, weighed_null = emitted[step] * behind / scales[step], null[step] * behind / scales[step]
            if step:
                before = (linked[step - 1] + unlinked[step - 1]) * is_token[:, step, None]
                jumped += before.T @ weighed
                chances += before.sum(0)
            linked[step] *= behind
            unlinked[step] *= behind
            behind = weighed @ moves.T + weighed_null
        by_length = offsets.ravel()
        possible = np.repeat(chances / num_given, num_given)
        self.jump_counts += np.bincount(by_length, (jumped * moves).ravel(), minlength=len(self.jumps))
        self.chance_counts += np.bincount(by_length, possible, minlength=len(self.jumps))
        return linked.transpose(1, 2, 0), unlinked.sum(2).T


def align(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], sizes: tuple[int, int]) -> list[Links]:
    """Return the links of each pair of token sequences, sorted; `sizes` are those of the vocabularies."""
    batches, keys = _batches(src, tgt, sizes[1])
    forward = _Direction(keys // sizes[1], sizes[0], sizes[1])
    backward = _Direction(keys % sizes[1], sizes[1], sizes[0])
    for iteration in range(MODEL1_ITERATIONS + HMM_ITERATIONS):
        jumps = iteration >= MODEL1_ITERATIONS
        for batch in batches:
            forward.expect(batch.entries, batch.tgt, jumps=jumps)
            backward.expect(batch.entries.transpose(0, 2, 1), batch.src, jumps=jumps)
        forward.maximize()
        backward.maximize()
    links = [Links() for _ in src]
    for batch in batches:
        to_src, _ = forward.posteriors(batch.entries, batch.tgt, jumps=True)
        to_tgt, _ = backward.posteriors(batch.entries.transpose(0, 2, 1), batch.src, jumps=True)
        shared = np.where(batch.entries >= 0, np.sqrt(to_src * to_tgt.transpose(0, 2, 1)), 0.0)
        for row, i, j in np.argwhere(shared > LEAST_SHARED).tolist():
            links[batch.pairs[row]].append((i, j))
    return links


def _batches(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], width: int) -> tuple[list[_Batch], Ints]:
    """Return batches of all pairs with tokens on both sides, and the keys of the entries of the lexicon."""
    lengths = np.array([(len(s), len(t)) for s, t in zip(src, tgt, strict=True)]).reshape(-1, 2)
    order = np.lexsort((lengths[:, 1], lengths[:, 0]))
    order = order[(lengths[order] > 0).all(1)]
    batches = []
    for start in range(0, len(order), _BATCH_PAIRS):
        pairs = order[start : start + _BATCH_PAIRS]
        src_ids, tgt_ids = (
            padded([rows[pair] for pair in pairs], lengths[pairs, side].max()) for side, rows in enumerate((src, tgt))
        )
        batches.append(_Batch(pairs, pair_keys(src_ids, tgt_ids, width), src_ids, tgt_ids))
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(np.unique(batch.entries) for batch in batches)]))
    keys = keys[keys >= 0]
    for batch in batches:
        is_pair = batch.entries >= 0
        batch.entries[is_pair] = np.searchsorted(keys, batch.entries[is_pair])
    return batches, keys


def _distances(entries: Ints) -> Floats:
    """Return how far the places of each pair of tokens are apart, as a share of their sentences."""
    is_pair = entries >= 0
    shares = []
    for axis in (1, 2):
        size = entries.shape[axis]
        lengths = is_pair.any(3 - axis).sum(1)[:, None]
        shares.append((np.arange(size) + 0.5) / np.maximum(lengths, 1))
    return np.abs(shares[0][:, :, None] - shares[1][:, None, :])


def _exp_digamma(values: Floats) -> Floats:
    """Return exp(digamma(x)) of positive `values`, by the recurrence and the asymptotic series."""
    values = np.maximum(values, 1e-6)
    shift = np.zeros_like(values)
    for _ in range(6):
        shift = shift + 1 / values
        values = values + 1
    square = 1 / (values * values)
    digamma = np.log(values) - 0.5 / values - square * (1 / 12 - square * (1 / 120 - square / 252)) - shift
    return np.exp(digamma)
