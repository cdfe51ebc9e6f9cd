"""Draw random segmentations of a text: subword regularization (Kudo 2018), BPE-dropout (Provilkov et al. 2020).

SentencePiece draws segmentations too, but mixes a number into its seed that differs between processes. Here only the
seed determines them, in every process and on every machine.
"""

from __future__ import annotations

import math
import random
import re
from bisect import bisect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from nmt.base.patterns import any_of
from nmt.base.special_tokens import UNK_ID
from nmt.data.tokens.sentencepiece_model import BYTE, NORMAL, USER_DEFINED, Piece

SPACE = "▁"  # the character that SentencePiece writes for a space
_FIRST_LETTER = 0xD800  # surrogates, which no text contains
_MAX_UNIT_LENGTH = 1000  # characters; longer units are cut, because the time of a draw grows with the square
_MAX_LATTICES, _MAX_MERGES = 20_000, 200_000  # are cached, of units of up to 16 characters: at most some 150 MB
_MAX_KEPT_LENGTH = 16
_TINY, _HUGE = 2.0**-300, 2.0**300  # powers of two: scaling by them is exact


class _Ends(NamedTuple):
    """The tokens that may end at one position of a unit, and the sums of the weights of the paths through them."""

    tokens: list[str]
    cumulative: list[float]


class UnigramSampler:
    """Draws a segmentation with its probability to the power of `alpha`, normalized over all segmentations."""

    def __init__(self, scores: Mapping[str, float], alpha: float):
        # To single precision, so that the last bit of a platform's exp does not matter.
        self._weights = {token: float(f"{math.exp(alpha * score):.7g}") for token, score in scores.items()}
        self._max_length = max(map(len, scores))
        self._lattice = lru_cache(_MAX_LATTICES)(self._new_lattice)

    def draw(self, unit: str, generator: random.Random) -> Sequence[str]:
        """Return the tokens of a segmentation of `unit`."""
        lattice = self._lattice(unit) if len(unit) <= _MAX_KEPT_LENGTH else self._new_lattice(unit)
        end = len(unit)
        tokens: list[str] = []
        while end:
            choices, cumulative = lattice[end]
            tokens.append(choices[bisect(cumulative, generator.random() * cumulative[-1], hi=len(choices) - 1)])
            end -= len(tokens[-1])
        return tokens[::-1]

    def _new_lattice(self, unit: str) -> list[_Ends]:
        totals = [1.0]  # for each position: the scaled sum of the weights of all paths to it
        lattice = [_Ends([], [])]
        for end in range(1, len(unit) + 1):
            starts = range(max(0, end - self._max_length), end)
            tokens = [unit[start:end] for start in starts if unit[start:end] in self._weights]
            paths = (totals[end - len(token)] * self._weights[token] for token in tokens)
            lattice.append(_Ends(tokens, list(accumulate(paths))))
            totals.append(lattice[-1].cumulative[-1])
            if totals[-1] < _TINY:
                totals = [total * _HUGE for total in totals]
        return lattice


class BpeDropoutSampler:
    """Merges the best pair of a unit, step by step; at every step, drops each merge with probability `alpha`.

    A unit is finished when no merge is possible, or all possible merges are dropped.
    """

    def __init__(self, scores: Mapping[str, float], alpha: float):
        self._scores, self._alpha = scores, alpha
        self._merges = lru_cache(_MAX_MERGES)(self._find_merges)

    def draw(self, unit: str, generator: random.Random) -> Sequence[str]:
        """Return the tokens of a segmentation of `unit`."""
        tokens = tuple(unit)
        while True:
            merges = self._merges(tokens) if len(unit) <= _MAX_KEPT_LENGTH else self._find_merges(tokens)
            # The best one that is not dropped: whether worse ones are makes no difference.
            at = next((at for at in merges if generator.random() >= self._alpha), None)
            if at is None:
                return tokens
            tokens = (*tokens[:at], tokens[at] + tokens[at + 1], *tokens[at + 2 :])

    def _find_merges(self, tokens: tuple[str, ...]) -> list[int]:
        """Return the places of the pairs of tokens that can be merged, the best first."""
        scores = [self._scores.get(one + other) for one, other in pairwise(tokens)]
        return [at for _, at in sorted((-score, at) for at, score in enumerate(scores) if score is not None)]


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
        self._words = re.compile(f"{SPACE}[^{SPACE}]{{0,{longest - 1}}}|[^{SPACE}]{{1,{longest}}}")
        scores = {token: pieces[i].score for token, i in ids.items()} | dict.fromkeys(letters.values(), 0.0)
        self._ids = ids | {letter: i for i, letter in letters.items()}
        self._known = frozenset(self._ids)
        self._sampler = (UnigramSampler if model_type == "unigram" else BpeDropoutSampler)(scores, alpha)

    def draw(self, texts: Sequence[str], *seeds: int) -> list[list[int]]:
        """Draw a segmentation of each of `texts`, which must be normalized, with "▁" for each space; return its ids."""
        generator = random.Random(repr(seeds))  # its numbers are the same in every version of Python
        segmentations = []
        for text in texts:
            plain = self._symbol.sub(lambda match: self._symbols[match[0]], text)
            units = map(self._in_letters, self._words.findall(plain))
            segmentations.append([self._ids[token] for unit in units for token in self._sampler.draw(unit, generator)])
        return segmentations

    def _in_letters(self, unit: str) -> str:
        """Return a unit with letters for its characters without a token."""
        for unknown in {*unit} - self._known:
            spelling = [self._bytes[byte] for byte in unknown.encode()] if self._bytes else [self._unknown]
            unit = unit.replace(unknown, "".join(spelling))
        return unit
