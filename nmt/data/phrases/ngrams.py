"""A language model of the target tokens: n-grams with modified Kneser-Ney smoothing (Chen and Goodman 1999)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.base.special_tokens import BOS_ID, EOS_ID
from nmt.data.phrases.trie import HashedKeys, Ints, build_trie, concatenate

Floats = NDArray[np.float64]

ORDER = 3
START = 1 + BOS_ID  # the state at the start of a sentence


class NgramModel(NamedTuple):
    """Probabilities of the next token. A state is the node, in a trie, of the longest context that matters."""

    keys: Ints  # [nodes - 1], of the trie
    log_probs: Floats  # [nodes]: of the last token of each node, given the others
    backoffs: Floats  # [nodes]: added if the next token does not follow this node
    suffixes: Ints  # [nodes]: the node without the first token
    states: Ints  # [nodes]: the node itself, or the longest end of it that any token follows
    vocab_size: int
    hashed: HashedKeys

    @classmethod
    def learn(cls, sentences: Sequence[Sequence[int]], vocab_size: int, order: int = ORDER) -> NgramModel:
        """Count the n-grams of `sentences`, each with bos and eos, and smooth them."""
        tokens, rows = concatenate([(BOS_ID, *sentence, EOS_ID) for sentence in sentences])
        keys, ends = build_trie(tokens, rows, vocab_size, order)
        num_nodes = 1 + len(keys)
        suffixes = np.zeros(num_nodes, np.int64)
        starts_row = np.zeros(num_nodes, bool)
        counts = np.zeros(num_nodes)
        highest = ends[-1][ends[-1] > 0]
        for longer, shorter in zip(ends[1:], ends, strict=False):
            suffixes[longer[longer > 0]] = shorter[longer > 0]
        for length, nodes in enumerate(ends):
            firsts = np.arange(len(tokens)) - length
            at_start = (nodes > 0) & (tokens[firsts] == BOS_ID)
            starts_row[nodes[at_start]] = True
            counts += np.bincount(nodes[at_start], minlength=num_nodes)
        counts += np.bincount(highest[~starts_row[highest]], minlength=num_nodes)
        # Of shorter sequences, what counts is how many tokens precede them.
        distinct = np.arange(1 + vocab_size, num_nodes)
        preceded = np.bincount(suffixes[distinct], minlength=num_nodes)
        counts[~starts_row] += preceded[~starts_row]
        counts[[0, START]] = 0
        levels = [np.arange(1, 1 + vocab_size), *(np.unique(nodes[nodes > 0]) for nodes in ends[1:])]
        log_probs, backoffs = _smoothed(keys, counts, suffixes, levels, vocab_size)
        return cls.from_arrays(keys, log_probs, backoffs, suffixes, vocab_size)

    @classmethod
    def from_arrays(
        cls, keys: Ints, log_probs: Floats, backoffs: Floats, suffixes: Ints, vocab_size: int
    ) -> NgramModel:
        """Complete a model. Raises ValueError if it could fail or run on."""
        if not len(keys) + 1 == len(log_probs) == len(backoffs) == len(suffixes):
            raise ValueError("its parts do not fit together")
        if not (np.isfinite(log_probs).all() and np.isfinite(backoffs).all()):
            raise ValueError("it contains numbers that are not finite")
        if not ((suffixes >= 0) & (suffixes < np.maximum(np.arange(len(suffixes)), 1))).all():
            raise ValueError("its language model runs in a circle")
        if not np.array_equal(keys[:vocab_size], np.arange(vocab_size)) or (np.diff(keys) <= 0).any():
            raise ValueError("its keys are not in order")
        states = np.arange(len(suffixes))
        continues = np.zeros(len(suffixes), bool)
        continues[np.minimum(keys // vocab_size, len(suffixes) - 1)] = True
        for _ in range(ORDER - 1):
            states = np.where(continues[states], states, suffixes[states])
        return cls(keys, log_probs, backoffs, suffixes, states, vocab_size, HashedKeys.of(keys))

    def step(self, states: Ints, tokens: Ints) -> tuple[Floats, Ints]:
        """Return the log-probability of each of `tokens` [N] in its state, and the state after it."""
        scores = np.zeros(len(states))
        after = 1 + tokens
        rows = np.arange(len(states))
        contexts = states
        while True:
            longer = np.flatnonzero(contexts)  # every token follows node 0
            rows = rows[longer]
            contexts = contexts[longer]
            if not len(rows):
                return scores + self.log_probs[after], self.states[after]
            found = self.hashed.find(contexts * self.vocab_size + tokens[rows])
            after[rows] = np.where(found >= 0, found + 1, after[rows])
            unknown = np.flatnonzero(found < 0)
            rows = rows[unknown]
            contexts = contexts[unknown]
            scores[rows] += self.backoffs[contexts]
            contexts = self.suffixes[contexts]

    def follow(self, states: Ints, tokens: Ints, starts: Ints, lengths: Ints) -> tuple[Floats, Ints]:
        """Return the log-probability of tokens[start : start + length] after each state, and the state after them."""
        scores = np.zeros(len(states))
        states = states.copy()
        for place in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > place)
            found, states[rows] = self.step(states[rows], tokens[starts[rows] + place])
            scores[rows] += found
        return scores, states


def _smoothed(
    keys: Ints, counts: Floats, suffixes: Ints, levels: Sequence[Ints], vocab_size: int
) -> tuple[Floats, Floats]:
    """Return the log-probability and the backoff of each node."""
    probs = np.ones(len(counts))
    backoffs = np.zeros(len(counts))
    for nodes in levels:
        prefixes = keys[nodes - 1] // vocab_size
        seen = counts[nodes]
        ones, twos, threes, fours = (max(int((seen == count).sum()), 1) for count in (1, 2, 3, 4))
        # What is taken from counts of one, two, and three or more; a small corpus may lack
        # n-grams of one of these counts, so it is kept within bounds.
        share = ones / (ones + 2 * twos)
        wanted = [1 - 2 * share * twos / ones, 2 - 3 * share * threes / twos, 3 - 4 * share * fours / threes]
        discounts = np.array([0.0, *np.clip(wanted, [0.1, 0.2, 0.3], [0.9, 1.8, 2.7])])
        removed = discounts[np.minimum(seen, 3).astype(np.int64)]
        # What was taken after each prefix is given to all tokens by the probabilities of the shorter n-gram.
        totals = np.bincount(prefixes, seen, minlength=len(counts))
        rests = np.bincount(prefixes, removed, minlength=len(counts)) / np.maximum(totals, 1)
        lower = probs[suffixes[nodes]] if prefixes.any() else 1 / vocab_size
        probs[nodes] = (seen - removed) / np.maximum(totals[prefixes], 1) + rests[prefixes] * lower
        has_children = totals > 0
        backoffs[has_children] = np.log(np.maximum(rests[has_children], 1e-9))
    return np.log(np.maximum(probs, 1e-30)), backoffs
