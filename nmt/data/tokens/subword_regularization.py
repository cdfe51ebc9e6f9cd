"""Draw random segmentations of a text: subword regularization (Kudo 2018), BPE-dropout (Provilkov et al. 2020).

SentencePiece draws segmentations too, but mixes a number into its seed that differs between processes. Here only the
seed determines them, in every process and on every machine.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_UNKNOWN_PENALTY = 10.0  # as in SentencePiece: a character without a token scores this much below the worst token
_TINY, _HUGE = 2.0**-300, 2.0**300  # powers of two: scaling by them is exact
_ONE = 1 << 32  # probabilities are fractions of it

_NO_MERGE = np.iinfo(np.int64).max

SPACE = "▁"  # the character that SentencePiece writes for a space
_MAX_UNIT_LENGTH = 1000  # characters; longer units are cut, because the time of a draw grows with the square
MAX_KEPT = 1_000_000  # characters of the cached units: about 200 MB of lattices


class SubwordVocabulary:
    """The V tokens of a SentencePiece model, and codes of a segmentation.

    A code below V is a token id; codes from V on are characters without a token, which are spelled as bytes.
    """

    def __init__(
        self,
        tokens: dict[str, int],
        scores: Sequence[float],
        user_symbols: dict[str, int],
        byte_ids: Sequence[int],
        unknown_id: int,
    ):
        """Take the ids of the `tokens` that spell text and of the `user_symbols`, which are never split.

        `scores` [V]: unigram: log-probabilities; bpe: earlier merges score higher. `byte_ids` [256] is empty if the
        model has no byte fallback.
        """
        self.tokens, self.scores, self.user_symbols = tokens, scores, user_symbols
        self._byte_ids, self._unknown_id = byte_ids, unknown_id
        self._codes = {**tokens, **user_symbols}
        self._spellings: list[Sequence[int]] = []  # of the characters without a token

    def code_of(self, text: str) -> int:
        """Return the code of a token or a character."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.scores) + len(self._spellings)
            spelling = [self._byte_ids[value] for value in text.encode("utf-8")] if self._byte_ids else []
            self._spellings.append(spelling or [self._unknown_id])
        return code

    def ids(self, codes: Ints) -> tuple[Ints, Ints]:
        """Return the token ids for `codes` [C], concatenated, and the number of ids per code [C]."""
        widths, first = np.ones(len(codes), dtype=np.int64), len(self.scores)
        places = np.flatnonzero(codes >= first)
        if len(places) == 0:
            return codes, widths
        spellings = [self._spellings[code - first] for code in codes[places]]
        widths[places] = [len(spelling) for spelling in spellings]
        ids = np.repeat(codes, widths)
        ids[ids >= first] = [i for spelling in spellings for i in spelling]
        return ids, widths


class UnigramSampler:
    """Draws a segmentation with its probability to the power of `alpha`, normalized over all segmentations."""

    def __init__(self, vocabulary: SubwordVocabulary, alpha: float):
        self._vocabulary = vocabulary
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
        # A node is a position between two characters: of each unit, the first and the last.
        self._begins, self._ends = array("q"), array("q")
        # Edges are sorted by their end node. The key of an edge contains that node and, in its lower 32 bits, the
        # cumulative probability of the node's edges before this one.
        self._keys, self._starts, self._edge_codes = array("q"), array("q"), array("q")

    def read(self, units: Sequence[str]) -> None:
        """Add the lattices of `units`, numbered consecutively, for `draw` to segment."""
        for unit in units:
            self._begins.append(self._ends[-1] + 1 if self._ends else 0)
            self._ends.append(self._begins[-1] + len(unit))
            self._add_lattice(unit)

    def draw(self, which: Ints, bits: np.random.PCG64) -> tuple[Ints, Ints]:
        """Draw a segmentation for each unit number in `which` [U].

        Returns all codes, concatenated, and the number of codes per unit [U].
        """
        begins, nodes = np.asarray(self._begins)[which], np.asarray(self._ends)[which]
        keys, starts, edge_codes = map(np.asarray, (self._keys, self._starts, self._edge_codes))  # without copies
        counts = np.zeros(len(which), dtype=np.int64)
        active = np.flatnonzero(nodes > begins)
        steps = []
        while len(active):
            drawn = (bits.random_raw(len(active)) >> np.uint64(32)).astype(np.int64)
            edges = np.searchsorted(keys, nodes[active] * _ONE + drawn, side="right") - 1
            steps.append((active, edge_codes[edges]))
            counts[active] += 1
            nodes[active] = starts[edges]
            active = active[nodes[active] > begins[active]]
        codes = np.zeros(int(counts.sum()), dtype=np.int64)
        ends = counts.cumsum()
        for step, (rows, step_codes) in enumerate(steps):  # from the end of each unit to its beginning
            codes[ends[rows] - 1 - step] = step_codes
        return codes, counts

    def _add_lattice(self, unit: str) -> None:
        """Append the edges of `unit`, the last one."""
        first, keys, starts, codes = self._begins[-1], self._keys, self._starts, self._edge_codes
        if unit in self._vocabulary.user_symbols:
            keys.append(self._ends[-1] * _ONE)
            starts.append(first)
            codes.append(self._vocabulary.code_of(unit))
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
            edges.insert(0, (end - 1, self._vocabulary.code_of(unit[end - 1]), self._unknown_weight))
        return edges


class BpeDropoutSampler:
    """Merges the best pair of each unit, step by step; at every step, drops each merge with probability `alpha`.

    A unit is finished when no merge is possible, or all possible merges are dropped.
    """

    def __init__(self, vocabulary: SubwordVocabulary, alpha: float):
        self._vocabulary = vocabulary
        self._dropped_below = int(alpha * _ONE)
        tokens, scores = vocabulary.tokens, vocabulary.scores
        merges = sorted(
            (tokens[token[:cut]] * _ONE + tokens[token[cut:]], merged)
            for token, merged in tokens.items()
            for cut in range(1, len(token))
            if token[:cut] in tokens and token[cut:] in tokens
        )
        by_score = sorted(tokens.values(), key=lambda i: (-scores[i], i))
        rank = np.zeros(len(scores) + 1, dtype=np.int64)
        rank[by_score] = np.arange(len(by_score))
        self._pairs = np.array([pair for pair, _ in merges] or [-1], dtype=np.int64)  # sorted
        self._merged = np.array([merged for _, merged in merges] or [0], dtype=np.int64)
        self._ranks = rank[self._merged]  # the lower, the earlier
        self.forget()

    def forget(self) -> None:
        """Drop all units."""
        self._ends, self._characters = array("q"), array("q")  # the codes of all units, and where each unit ends

    def read(self, units: Sequence[str]) -> None:
        """Add `units`, spelled in characters and numbered consecutively, for `draw` to segment."""
        for unit in units:
            whole = unit in self._vocabulary.user_symbols
            self._characters.extend(map(self._vocabulary.code_of, (unit,) if whole else unit))
            self._ends.append(len(self._characters))

    def draw(self, which: Ints, bits: np.random.PCG64) -> tuple[Ints, Ints]:
        """Draw a segmentation for each unit number in `which` [U].

        Returns all codes, concatenated, and the number of codes per unit [U].
        """
        lengths = np.diff(np.asarray(self._ends), prepend=0)[which]
        starts, characters = np.asarray(self._ends)[which] - lengths, np.asarray(self._characters)
        counts = np.zeros(len(which), dtype=np.int64)
        done: list[tuple[Ints, Ints]] = []
        units, codes = np.zeros(0, dtype=np.int64), np.zeros((0, int(lengths.max(initial=0))), dtype=np.int64)
        for width in range(codes.shape[1], 0, -1):  # every merge makes a unit shorter by one
            new = np.flatnonzero(lengths == width)
            units = np.concatenate([units, new])
            codes = np.concatenate([codes, characters[starts[new][:, None] + np.arange(width)]])
            places, merged = self._best_merges(codes, bits)
            going_on = places >= 0
            done.append((units[~going_on], codes[~going_on]))
            counts[units[~going_on]] = width
            units, codes = units[going_on], _merge(codes[going_on], places[going_on], merged[going_on])
        drawn = np.zeros(int(counts.sum()), dtype=np.int64)
        begins = counts.cumsum() - counts
        for rows, row_codes in done:
            drawn[begins[rows][:, None] + np.arange(row_codes.shape[1])] = row_codes
        return drawn, counts

    def _best_merges(self, codes: Ints, bits: np.random.PCG64) -> tuple[Ints, Ints]:
        """Return the position of the best remaining merge per row of `codes` [R, width] (-1: none), and its result."""
        num_rows, width = codes.shape
        if width == 1 or num_rows == 0:
            return np.full(num_rows, -1), np.zeros(num_rows, dtype=np.int64)
        pairs = codes[:, :-1] * _ONE + codes[:, 1:]
        found = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        ranks = np.where(self._pairs[found] == pairs, self._ranks[found], _NO_MERGE)
        drawn = (bits.random_raw(ranks.size) >> np.uint64(32)).astype(np.int64).reshape(ranks.shape)
        ranks[drawn < self._dropped_below] = _NO_MERGE
        places = ranks.argmin(axis=1)
        rows = np.arange(num_rows)
        return np.where(ranks[rows, places] == _NO_MERGE, -1, places), self._merged[found[rows, places]]


def _merge(codes: Ints, places: Ints, merged: Ints) -> Ints:
    """Replace two codes by one at a position in each row: [R, width] -> [R, width - 1]."""
    num_rows, width = codes.shape
    rows = np.arange(num_rows)
    codes[rows, places] = merged
    second = rows * width + places + 1  # in the flattened codes
    return np.delete(codes, second).reshape(num_rows, width - 1)


class Segmentations(NamedTuple):
    """One segmentation of each of several texts."""

    ids: Ints  # [tokens of all texts], concatenated
    lengths: Ints  # [texts], in tokens


class SubwordSampler:
    """Draws segmentations of texts, determined by the seeds of a draw.

    Texts are cut into independent units: user-defined symbols, and words with the space before them (if no token
    crosses a space).
    """

    def __init__(self, vocabulary: SubwordVocabulary, model_type: str, alpha: float):
        """Create a sampler for the `model_type` unigram or bpe; ValueError for others, with only one segmentation."""
        if model_type not in ("unigram", "bpe"):
            raise ValueError(f"a tokenizer of type {model_type} has only one segmentation per text")
        self._vocabulary = vocabulary
        kind = UnigramSampler if model_type == "unigram" else BpeDropoutSampler
        self._sampler: UnigramSampler | BpeDropoutSampler = kind(vocabulary, alpha)
        self._numbers: dict[str, int] = {}  # of the distinct units that `_sampler` has read
        self._num_kept = 0  # their characters
        symbols = sorted(vocabulary.user_symbols, key=len, reverse=True)
        self._symbols = re.compile(f"({'|'.join(map(re.escape, symbols)) or '(?!)'})")
        longest = _MAX_UNIT_LENGTH
        word = f"{SPACE}[^{SPACE}]{{0,{longest - 1}}}|[^{SPACE}]{{1,{longest}}}"
        crosses_spaces = any(SPACE in token[1:] for token in vocabulary.tokens)
        self._words = re.compile(f".{{1,{longest}}}" if crosses_spaces else word, re.DOTALL)

    def draw(self, texts: Sequence[str], *seeds: int) -> Segmentations:
        """Draw a segmentation of each of `texts`, which must be normalized, with "▁" for each space."""
        bits = np.random.PCG64(seeds)  # its numbers are the same in every version of numpy
        units = self._read(texts)
        which = np.fromiter((unit for text_units in units for unit in text_units), dtype=np.int64)
        text_of_unit = np.repeat(np.arange(len(texts)), [len(text_units) for text_units in units])
        codes, counts = self._sampler.draw(which, bits)
        ids, widths = self._vocabulary.ids(codes)
        lengths = np.bincount(np.repeat(text_of_unit, counts), weights=widths, minlength=len(texts))
        return Segmentations(ids, lengths.astype(np.int64))

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the units of each text, and let the sampler read those that are not cached.

        The units of one call are always in memory together; if there are too many cached ones, they are dropped first.
        Draws do not depend on the cache.
        """
        if self._num_kept > MAX_KEPT:
            self._numbers.clear()
            self._sampler.forget()
            self._num_kept = 0
        numbers, num_known = self._numbers, len(self._numbers)
        units = [[numbers.setdefault(unit, len(numbers)) for unit in self._units(text)] for text in texts]
        new = list(islice(numbers, num_known, None))
        self._num_kept += sum(map(len, new))
        self._sampler.read(new)
        return units

    def _units(self, text: str) -> list[str]:
        units: list[str] = []
        for number, part in enumerate(self._symbols.split(text)):  # symbols stand between the other parts
            units += [part] if number % 2 else self._words.findall(part)
        return units
