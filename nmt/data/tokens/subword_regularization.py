"""Draw random segmentations of a text: subword regularization (Kudo 2018), BPE-dropout (Provilkov et al. 2020).

SentencePiece draws segmentations too, but mixes a number into its seed that differs between processes. Here only the
seed determines them, in every process and on every machine.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.base.patterns import any_of
from nmt.base.special_tokens import UNK_ID
from nmt.data.tokens.sentencepiece_model import BYTE, NORMAL, USER_DEFINED, Piece

Ints = NDArray[np.int64]

_TINY, _HUGE = 2.0**-300, 2.0**300  # powers of two: scaling by them is exact
_ONE = 1 << 32  # probabilities are fractions of it
_NO_MERGE = np.iinfo(np.int64).max

SPACE = "▁"  # the character that SentencePiece writes for a space
_FIRST_LETTER = 0xD800  # surrogates, which no text contains
_MAX_UNIT_LENGTH = 1000  # characters; longer units are cut, because the time of a draw grows with the square
MAX_KEPT = 1_000_000  # characters of the cached units: about 200 MB of lattices


class UnigramSampler:
    """Draws a segmentation with its probability to the power of `alpha`, normalized over all segmentations."""

    def __init__(self, ids: Mapping[str, int], scores: Mapping[str, float], alpha: float):
        self._ids = ids
        # In single precision, so that the last bit of a platform's exp does not matter.
        self._weights = {token: float(np.float32(math.exp(alpha * score))) for token, score in scores.items()}
        self._max_length = max(map(len, ids), default=1)
        # A node is a position between two characters: of each unit, the first and the last.
        self._begins, self._ends = array("q"), array("q")
        # Edges are sorted by their end node. The key of an edge contains that node and, in its lower 32 bits, the
        # cumulative probability of the node's edges before this one.
        self._keys, self._starts, self._edge_ids = array("q"), array("q"), array("q")

    def read(self, units: Sequence[str]) -> None:
        """Add the lattices of `units`, numbered consecutively, for `draw` to segment."""
        for unit in units:
            self._begins.append(self._ends[-1] + 1 if self._ends else 0)
            self._ends.append(self._begins[-1] + len(unit))
            self._add_lattice(unit, self._begins[-1])

    def draw(self, which: Ints, bits: np.random.PCG64) -> tuple[Ints, Ints]:
        """Draw a segmentation for each unit number in `which` [U].

        Returns all ids, concatenated, and the number of ids per unit [U].
        """
        begins, nodes = np.asarray(self._begins)[which], np.asarray(self._ends)[which]
        keys, starts, edge_ids = map(np.asarray, (self._keys, self._starts, self._edge_ids))  # without copies
        counts = np.zeros(len(which), dtype=np.int64)
        active = np.flatnonzero(nodes > begins)
        steps = []
        while len(active):
            edges = np.searchsorted(keys, nodes[active] * _ONE + _random(bits, len(active)), side="right") - 1
            steps.append((active, edge_ids[edges]))
            counts[active] += 1
            nodes[active] = starts[edges]
            active = active[nodes[active] > begins[active]]
        ids = np.zeros(int(counts.sum()), dtype=np.int64)
        ends = counts.cumsum()
        for step, (rows, step_ids) in enumerate(steps):  # from the end of each unit to its beginning
            ids[ends[rows] - 1 - step] = step_ids
        return ids, counts

    def _add_lattice(self, unit: str, first: int) -> None:
        """Append the edges of `unit`, whose first node is `first`."""
        forward = [1.0]  # for each node: the scaled sum of the weights of all paths to it
        for end in range(1, len(unit) + 1):
            begins = range(end - 1, max(0, end - self._max_length) - 1, -1)
            starts = [start for start in begins if unit[start:end] in self._ids]
            tokens = [unit[start:end] for start in starts]
            weights = [forward[start] * self._weights[token] for start, token in zip(starts, tokens, strict=True)]
            *before, total = accumulate(weights, initial=0.0)
            self._keys.extend((first + end) * _ONE + min(int(sum_ / total * _ONE), _ONE - 1) for sum_ in before)
            self._starts.extend(first + start for start in starts)
            self._edge_ids.extend(self._ids[token] for token in tokens)
            forward.append(total)
            if total < _TINY:
                forward = [each * _HUGE for each in forward]


class BpeDropoutSampler:
    """Merges the best pair of each unit, step by step; at every step, drops each merge with probability `alpha`.

    A unit is finished when no merge is possible, or all possible merges are dropped.
    """

    def __init__(self, ids: Mapping[str, int], scores: Mapping[str, float], alpha: float):
        self._ids, self._dropped_below = ids, int(alpha * _ONE)
        by_rank = sorted(ids, key=lambda token: (-scores[token], ids[token]))
        merges = sorted(
            (ids[token[:cut]] * _ONE + ids[token[cut:]], rank)
            for rank, token in enumerate(by_rank)
            for cut in range(1, len(token))
            if token[:cut] in ids and token[cut:] in ids
        )
        self._pairs, self._ranks = np.array([(-1, 0), *merges], dtype=np.int64).T
        self._merged = np.array([ids[token] for token in by_rank], dtype=np.int64)  # by rank
        self._units: list[list[int]] = []  # in letters

    def read(self, units: Sequence[str]) -> None:
        """Add `units`, numbered consecutively, for `draw` to segment."""
        self._units += [[self._ids[letter] for letter in unit] for unit in units]

    def draw(self, which: Ints, bits: np.random.PCG64) -> tuple[Ints, Ints]:
        """Draw a segmentation for each unit number in `which` [U].

        Returns all ids, concatenated, and the number of ids per unit [U].
        """
        lengths = np.array([len(unit) for unit in self._units], dtype=np.int64)[which]
        counts = np.zeros(len(which), dtype=np.int64)
        done: list[tuple[Ints, Ints]] = []
        units, ids = np.zeros(0, dtype=np.int64), np.zeros((0, int(lengths.max(initial=0))), dtype=np.int64)
        for width in range(ids.shape[1], 0, -1):  # every merge makes a unit shorter by one
            new = np.flatnonzero(lengths == width)
            units = np.concatenate([units, new])
            letters = [self._units[number] for number in which[new]]
            ids = np.concatenate([ids, np.array(letters, dtype=np.int64).reshape(-1, width)])
            places, ranks = self._best_merges(ids, bits)
            going_on = ranks != _NO_MERGE
            done.append((units[~going_on], ids[~going_on]))
            counts[units[~going_on]] = width
            units = units[going_on]
            ids = _merge(ids[going_on], places[going_on], self._merged[ranks[going_on]])
        drawn = np.zeros(int(counts.sum()), dtype=np.int64)
        begins = counts.cumsum() - counts
        for rows, row_ids in done:
            drawn[begins[rows][:, None] + np.arange(row_ids.shape[1])] = row_ids
        return drawn, counts

    def _best_merges(self, ids: Ints, bits: np.random.PCG64) -> tuple[Ints, Ints]:
        """Return the position and the rank of the best remaining merge per row of `ids` [R, width]."""
        num_rows, width = ids.shape
        ranks = np.full((num_rows, width), _NO_MERGE)  # of a merge with what follows
        pairs = ids[:, :-1] * _ONE + ids[:, 1:]
        found = np.searchsorted(self._pairs, pairs, side="right") - 1
        is_kept = _random(bits, pairs.size).reshape(pairs.shape) >= self._dropped_below
        ranks[:, :-1] = np.where(is_kept & (self._pairs[found] == pairs), self._ranks[found], _NO_MERGE)
        places = ranks.argmin(axis=1)
        return places, ranks[np.arange(num_rows), places]


def _random(bits: np.random.PCG64, count: int) -> Ints:
    """Return numbers from 0 up to `_ONE`."""
    return (bits.random_raw(count) >> np.uint64(32)).astype(np.int64)


def _merge(ids: Ints, places: Ints, merged: Ints) -> Ints:
    """Replace two ids by one at a position in each row: [R, width] -> [R, width - 1]."""
    num_rows, width = ids.shape
    rows = np.arange(num_rows)
    ids[rows, places] = merged
    second = rows * width + places + 1  # in the flattened ids
    return np.delete(ids, second).reshape(num_rows, width - 1)


class Segmentations(NamedTuple):
    """One segmentation of each of several texts."""

    ids: Ints  # [tokens of all texts], concatenated
    lengths: Ints  # [texts], in tokens


class SubwordSampler:
    """Draws segmentations of texts, determined by the seeds of a draw.

    Texts are cut into independent units: words with the space before them, which no drawn token crosses. A user-defined
    symbol, and each byte of a character without a token, is a letter of its own, which no other token contains.
    """

    def __init__(self, pieces: Sequence[Piece], model_type: str, alpha: float):
        """Draw tokens of a SentencePiece model, of `model_type` unigram or bpe; ValueError for others.

        Their scores are, of unigram, log-probabilities; of bpe, those of earlier merges are higher.
        """
        if model_type not in ("unigram", "bpe"):
            raise ValueError(f"a tokenizer of type {model_type} has only one segmentation per text")
        ids = {piece.text: i for i, piece in enumerate(pieces) if piece.type == NORMAL}
        symbols = {piece.text: i for i, piece in enumerate(pieces) if piece.type == USER_DEFINED}
        byte_ids = {int(piece.text[3:5], 16): i for i, piece in enumerate(pieces) if piece.type == BYTE}
        letters = {i: chr(_FIRST_LETTER + n) for n, i in enumerate([UNK_ID, *symbols.values(), *byte_ids.values()])}
        self._symbols = {symbol: letters[i] for symbol, i in symbols.items()}
        self._bytes = [letters[byte_ids.get(byte, UNK_ID)] for byte in range(256 if byte_ids else 0)]
        self._unknown = letters[UNK_ID]
        self._symbol = re.compile(any_of(symbols))
        longest = _MAX_UNIT_LENGTH
        word = f"{SPACE}[^{SPACE}]{{0,{longest - 1}}}|[^{SPACE}]{{1,{longest}}}"
        self._words = re.compile(word)
        scores = {token: pieces[i].score for token, i in ids.items()} | dict.fromkeys(letters.values(), 0.0)
        ids |= {letter: i for i, letter in letters.items()}
        self._known = frozenset(ids)
        kind = UnigramSampler if model_type == "unigram" else BpeDropoutSampler
        self._make: Callable[[], UnigramSampler | BpeDropoutSampler] = partial(kind, ids, scores, alpha)
        self._sampler = self._make()
        self._numbers: dict[str, int] = {}  # of the distinct units that `_sampler` has read

    def draw(self, texts: Sequence[str], *seeds: int) -> Segmentations:
        """Draw a segmentation of each of `texts`, which must be normalized, with "▁" for each space."""
        bits = np.random.PCG64(seeds)  # its numbers are the same in every version of numpy
        units = self._read(texts)
        which = np.fromiter((unit for text_units in units for unit in text_units), dtype=np.int64)
        text_of_unit = np.repeat(np.arange(len(texts)), [len(text_units) for text_units in units])
        ids, counts = self._sampler.draw(which, bits)
        lengths = np.bincount(text_of_unit, weights=counts, minlength=len(texts))
        return Segmentations(ids, lengths.astype(np.int64))

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the units of each text, and let the sampler read those that are not cached.

        The units of one call are always in memory together; if there are too many cached ones, they are dropped first.
        Draws do not depend on the cache.
        """
        if sum(map(len, self._numbers)) > MAX_KEPT:
            self._numbers.clear()
            self._sampler = self._make()
        numbers, num_known = self._numbers, len(self._numbers)
        plain = (self._symbol.sub(lambda match: self._symbols[match[0]], text) for text in texts)
        words = map(self._words.findall, plain)
        units = [[numbers.setdefault(unit, len(numbers)) for unit in of_text] for of_text in words]
        self._sampler.read([self._in_letters(unit) for unit in islice(numbers, num_known, None)])
        return units

    def _in_letters(self, unit: str) -> str:
        """Return a unit with letters for its characters without a token."""
        for unknown in {*unit} - self._known:
            spelling = [self._bytes[byte] for byte in unknown.encode()] if self._bytes else [self._unknown]
            unit = unit.replace(unknown, "".join(spelling))
        return unit
