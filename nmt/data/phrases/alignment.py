"""Align the tokens of a small corpus: model 1, then an HMM of the jumps between links (Vogel et al. 1996).

Both directions are learned alone, with a sparse prior (Mermer and Saraçlar 2011). Links are kept if they agree on them
(posterior decoding; Liang et al. 2006, "Alignment by Agreement", section 3), or if one of them is sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.lexicon.aligner import TENSION
from nmt.data.phrases.trie import Ints, padded

Floats = NDArray[np.floating[Any]]
Links = list[tuple[int, int]]  # source token, target token

MODEL1_ITERATIONS, HMM_ITERATIONS = 3, 4
LEAST_SHARED = 0.25  # geometric mean of the probabilities of a link in both directions
LEAST_MEAN = 0.3  # arithmetic mean
_BATCH_PAIRS = 32
_NULL = 0.1  # prior probability that a token has no link
_PRIOR = 0.01  # pseudo-count of each entry of the lexicon; below 1, it prefers few translations
_MAX_JUMP = 7  # jumps of at least that length share a probability
_LEAST = 1e-12
ONE_THREAD = 1 << 18  # multiplications of a matrix product that OpenBLAS gives to one thread


class _Side(NamedTuple):
    """The tokens of one side of a batch, explained by those of the other side. Padding is one more token."""

    tokens: Ints  # [T, B]
    entries: NDArray[np.int32]  # [T, B, S]: of each pair of tokens in the lexicon
    nearness: Floats  # [T, B, S]: the preference of model 1 for links of similar places


class _Batch(NamedTuple):
    """Pairs of similar lengths."""

    pairs: Ints  # [B]
    forward: _Side  # the target, explained by the source
    backward: _Side


class _Direction:
    """The model of one direction: each explained token links to one of the given tokens, or to none."""

    def __init__(self, given: Ints, explained: Ints, sizes: tuple[int, int]):
        self.given = given  # [entries]: what each probability depends on
        self.is_pair = (given < sizes[0]) & (explained < sizes[1])
        self.sizes = np.bincount(given, self.is_pair)
        self.probabilities = self.is_pair.astype(np.float32)
        self.null = np.ones(sizes[1] + 1, np.float32)
        self.jumps = np.ones(2 * _MAX_JUMP + 1, np.float32)  # relative to chance, by length
        self.forget()

    def forget(self) -> None:
        """Set all expected counts to 0."""
        self.counts, self.null_counts = np.zeros(len(self.probabilities)), np.zeros(len(self.null))
        self.jump_counts, self.chance_counts = np.zeros(len(self.jumps)), np.zeros(len(self.jumps))

    def expect(self, side: _Side, *, jumps: bool) -> None:
        """Add the expected links of a batch."""
        links, nulls = self.posteriors(side, jumps=jumps)
        np.add.at(self.counts, side.entries.ravel().astype(np.int64), links.ravel().astype(np.float64))
        np.add.at(self.null_counts, side.tokens.ravel(), nulls.ravel().astype(np.float64))

    def maximize(self) -> None:
        """Set the model from the expected counts; the lexicon by variational Bayes."""
        totals = np.bincount(self.given, self.counts) + _PRIOR * self.sizes
        shares = _exp_digamma(self.counts + _PRIOR) / np.maximum(_exp_digamma(totals), _LEAST)[self.given]
        self.probabilities = (np.maximum(shares, _LEAST) * self.is_pair).astype(np.float32)
        nulls = self.null_counts[:-1]
        self.null[:-1] = np.maximum(nulls / max(float(nulls.sum()), _LEAST), 1e-7)
        self.jumps = ((self.jump_counts + 1) / (self.chance_counts + 1)).astype(np.float32)
        self.forget()

    def posteriors(self, side: _Side, *, jumps: bool) -> tuple[Floats, Floats]:
        """Return the probability of each link [T, B, S], and that of none [T, B].

        With `jumps`, by the HMM, else by model 1 with a preference for similar places.
        """
        emitted = self.probabilities[side.entries]
        null = self.null[side.tokens] * _NULL
        if jumps:
            return self._forward_backward(emitted, null, side.tokens < len(self.null) - 1)
        emitted *= side.nearness
        totals = emitted.sum(2) + null
        return emitted / totals[:, :, None], null / totals

    def _forward_backward(self, emitted: Floats, null: Floats, is_token: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return the links of each token by the HMM, and its share of null; count the jumps that are expected.

        A state is the place of the last linked token; a token without a link leaves it. Each step is scaled to a sum
        of one, so that nothing underflows (Rabiner 1989, section V.A).
        """
        num_given = emitted.shape[2]
        null = null[:, :, None]
        places = np.arange(num_given)
        offsets = np.clip(places - places[:, None], -_MAX_JUMP, _MAX_JUMP) + _MAX_JUMP
        moves = self.jumps[offsets] * (1 - _NULL) / num_given
        states = np.empty_like(emitted)
        reached = np.empty_like(emitted)
        state = np.full(emitted.shape[1:], 1 / num_given, np.float32)
        scales = np.empty_like(null)
        for step, (token, none) in enumerate(zip(emitted, null, strict=True)):
            states[step] = state  # before the token
            reached[step] = _product(state, moves) if step else state * (1 - _NULL)
            state = reached[step] * token + state * none
            scales[step] = state.sum(1, keepdims=True)
            state /= scales[step]
        # Backwards, `emitted` becomes what a link explains of its token and of all that follow.
        emitted /= scales
        null = null / scales
        behind = np.ones_like(state)
        for token, none in zip(emitted[::-1], null[::-1], strict=True):
            token *= behind
            behind = _product(token, moves.T) + behind * none
        jumped = _product(states[1:].reshape(-1, num_given).T, emitted[1:].reshape(-1, num_given))
        possible = (states[1:] * is_token[1:, :, None]).sum((0, 1)) / num_given
        self.jump_counts += np.bincount(offsets.ravel(), (jumped * moves).ravel(), minlength=len(self.jumps))
        self.chance_counts += np.bincount(offsets.ravel(), np.repeat(possible, num_given), minlength=len(self.jumps))
        links = reached * emitted
        return links, 1 - links.sum(2)


def align(
    src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], sizes: tuple[int, int]
) -> tuple[list[Links], list[Links]]:
    """Return the links of each pair of token sequences, sorted; `sizes` are those of the vocabularies.

    First those on which both directions agree, then these and the ones of which one direction is sure.
    """
    batches, (src_tokens, tgt_tokens) = _batches(src, tgt, sizes)
    forward = _Direction(src_tokens, tgt_tokens, sizes)
    backward = _Direction(tgt_tokens, src_tokens, sizes[::-1])
    for iteration in range(MODEL1_ITERATIONS + HMM_ITERATIONS):
        jumps = iteration >= MODEL1_ITERATIONS
        for batch in batches:
            forward.expect(batch.forward, jumps=jumps)
            backward.expect(batch.backward, jumps=jumps)
        forward.maximize()
        backward.maximize()
    shared, loose = ([Links() for _ in src] for _ in range(2))
    for batch in batches:
        to_src, _ = forward.posteriors(batch.forward, jumps=True)
        to_tgt, _ = backward.posteriors(batch.backward, jumps=True)
        to_src = to_src.transpose(1, 2, 0)
        to_tgt = to_tgt.transpose(1, 0, 2)
        is_shared = to_src * to_tgt > LEAST_SHARED**2
        is_loose = is_shared | (to_src + to_tgt > 2 * LEAST_MEAN)
        for links, is_link in ((shared, is_shared), (loose, is_loose)):
            for row, i, j in np.argwhere(is_link).tolist():
                links[batch.pairs[row]].append((i, j))
    return shared, loose


def _batches(
    src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], sizes: tuple[int, int]
) -> tuple[list[_Batch], tuple[Ints, Ints]]:
    """Return batches of all pairs with tokens on both sides, and both tokens of each entry of the lexicon."""
    lengths = np.array([(len(s), len(t)) for s, t in zip(src, tgt, strict=True)]).reshape(-1, 2)
    order = np.lexsort((lengths.min(1), lengths.max(1)))
    order = order[(lengths[order] > 0).all(1)]
    starts = range(0, len(order), _BATCH_PAIRS)
    parts = [order[start : start + _BATCH_PAIRS] for start in starts]
    ids = [
        tuple(padded([rows[pair] for pair in pairs], size) for rows, size in zip((src, tgt), sizes, strict=True))
        for pairs in parts
    ]
    # An entry of the lexicon is a pair of tokens that occurs: `keys` are all of them, `places` those of all cells.
    cells = [i[:, :, None] * (sizes[1] + 1) + j[:, None, :] for i, j in ids]
    flat_cells = np.concatenate([np.zeros(0, np.int64), *map(np.ravel, cells)])
    keys, places = np.unique(flat_cells, return_inverse=True)
    batches: list[_Batch] = []
    ends = np.cumsum([each.size for each in cells])
    for pairs, both, of_batch, flat in zip(parts, ids, cells, np.split(places, ends[:-1]), strict=False):
        entries = flat.astype(np.int32).reshape(of_batch.shape)
        # Tokens at like parts of both sentences are linked more often (fast_align; Dyer et al. 2013, section 2.1).
        i, j = ((np.arange(each.shape[1]) + 0.5) / lengths[pairs, side, None] for side, each in enumerate(both))
        nearness = np.exp(-TENSION * np.abs(i[:, :, None] - j[:, None, :])).astype(np.float32)
        forward, backward = (
            _Side(explained.T, entries.transpose(axes).copy(), nearness.transpose(axes))
            for explained, axes in ((both[1], (2, 0, 1)), (both[0], (1, 0, 2)))
        )
        batches.append(_Batch(pairs, forward, backward))
    return batches, np.divmod(keys, sizes[1] + 1)


def _product(left: Floats, right: Floats) -> Floats:
    """Return left @ right, in parts for which BLAS uses one thread: on busy cores, several wait for each other."""
    rows = max(1, ONE_THREAD // right.size)
    return np.concatenate([left[start : start + rows] @ right for start in range(0, len(left), rows)])


def _exp_digamma(values: Floats) -> Floats:
    """Return exp(digamma(x)) of positive `values`, by the recurrence and the asymptotic series."""
    values = np.maximum(values, 1e-6)
    shift = np.zeros_like(values)
    for _ in range(3):
        shift += 1 / values
        values = values + 1
    square = 1 / (values * values)
    digamma = np.log(values) - 0.5 / values - square * (1 / 12 - square * (1 / 120 - square / 252)) - shift
    return np.exp(digamma)
