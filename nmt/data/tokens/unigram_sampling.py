"""Draw segmentations from a unigram language model by forward filtering, backward sampling (Kudo 2018, 3.2)."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.data.tokens.subword_vocabulary import Codes, SubwordVocabulary

_UNKNOWN_PENALTY = 10.0  # as in SentencePiece: a character without a token scores this much below the worst token
_TINY, _HUGE = 2.0**-300, 2.0**300  # powers of two: scaling by them is exact
_ONE = 1 << 32  # probabilities are fractions of it


class UnigramSampler:
    """Draws a segmentation with its probability to the power of `alpha`, normalized over all segmentations."""

    def __init__(self, vocabulary: SubwordVocabulary, codes: Codes, alpha: float):
        self._codes = codes
        scores = [vocabulary.scores[i] for i in vocabulary.tokens.values()]
        # In single precision, so that the last bit of a platform's exp does not matter.
        self._weights = [float(np.float32(math.exp(alpha * score))) for score in vocabulary.scores]
        self._unknown_weight = float(np.float32(math.exp(alpha * (min(scores, default=0.0) - _UNKNOWN_PENALTY))))
        self._max_length = max(map(len, vocabulary.tokens), default=1)
        self._suffixes: dict[str, int] = {}  # of tokens: the id if a suffix is a token, else -1
        for token in vocabulary.tokens:
            self._suffixes.update({token[start:]: -1 for start in range(len(token))})
        self._suffixes.update(vocabulary.tokens)
        self.forget()

    def forget(self) -> None:
        """Drop all units."""
        self._num_nodes = 0
        self._begins, self._ends, self._keys, self._starts, self._edge_codes = (np.zeros(0, np.int64) for _ in range(5))

    def read(self, units: Sequence[str]) -> None:
        """Add the lattices of `units`, numbered consecutively, for `draw` to segment."""
        # A node is a position between two characters. Edges are sorted by their end node. The key of an edge contains
        # that node and, in its lower 32 bits, the cumulative probability of the node's edges before this one.
        keys, starts, codes, ends = array("q"), array("q"), array("q"), array("q")
        for unit in units:
            self._add_lattice(unit, self._num_nodes, (keys, starts, codes))
            ends.append(self._num_nodes + len(unit))
            self._num_nodes += len(unit) + 1
        lengths = np.fromiter(map(len, units), dtype=np.int64, count=len(units))
        new_ends = np.array(ends, dtype=np.int64)
        self._begins = np.concatenate([self._begins, new_ends - lengths])
        self._ends = np.concatenate([self._ends, new_ends])
        self._keys = np.concatenate([self._keys, np.array(keys, dtype=np.int64)])
        self._starts = np.concatenate([self._starts, np.array(starts, dtype=np.int64)])
        self._edge_codes = np.concatenate([self._edge_codes, np.array(codes, dtype=np.int64)])

    def draw(self, which: NDArray[np.int64], bits: np.random.PCG64) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw a segmentation for each unit number in `which` [U].

        Returns all codes, concatenated, and the number of codes per unit [U].
        """
        begins, nodes = self._begins[which], self._ends[which]
        counts = np.zeros(len(which), dtype=np.int64)
        active = np.flatnonzero(nodes > begins)
        steps = []
        while len(active):
            drawn = (bits.random_raw(len(active)) >> np.uint64(32)).astype(np.int64)
            edges = np.searchsorted(self._keys, nodes[active] * _ONE + drawn, side="right") - 1
            steps.append((active, self._edge_codes[edges]))
            counts[active] += 1
            nodes[active] = self._starts[edges]
            active = active[nodes[active] > begins[active]]
        codes = np.zeros(int(counts.sum()), dtype=np.int64)
        ends = counts.cumsum()
        for step, (rows, edge_codes) in enumerate(steps):  # from the end of each unit to its beginning
            codes[ends[rows] - 1 - step] = edge_codes
        return codes, counts

    def _add_lattice(self, unit: str, first: int, columns: tuple[array[int], array[int], array[int]]) -> None:
        """Append the edges of `unit`, which starts at node `first`, to the columns (keys, starts, codes)."""
        keys, starts, codes = columns
        if unit in self._codes.user_symbols:
            keys.append((first + len(unit)) * _ONE)
            starts.append(first)
            codes.append(self._codes.of(unit))
            return
        forward = [1.0]  # for each node: the scaled sum of the weights of all paths to it
        for end in range(1, len(unit) + 1):
            edges = self._edges_to(unit, end)
            weights = [forward[start] * weight for start, _, weight in edges]
            total = before = 0.0
            for weight in weights:  # not sum(), which rounds differently in newer Python versions
                total += weight
            for (start, code, _), weight in zip(edges, weights, strict=True):
                keys.append((first + end) * _ONE + min(int(before / total * _ONE), _ONE - 1))
                starts.append(first + start)
                codes.append(code)
                before += weight
            forward.append(total)
            if total < _TINY:
                for node in range(max(0, end + 1 - self._max_length), end + 1):
                    forward[node] *= _HUGE

    def _edges_to(self, unit: str, end: int) -> list[tuple[int, int, float]]:
        """Return (start, code, weight) of each token of `unit` that ends at `end`, or else of the character there."""
        edges = []
        for start in range(end - 1, max(0, end - self._max_length) - 1, -1):
            token = self._suffixes.get(unit[start:end])
            if token is None:
                break
            if token >= 0:
                edges.append((start, token, self._weights[token]))
        if not edges or edges[0][0] != end - 1:
            edges.insert(0, (end - 1, self._codes.of(unit[end - 1]), self._unknown_weight))
        return edges
