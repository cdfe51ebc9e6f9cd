"""Find where a text without spaces between words has the translation of a source word.

A token of such a text may be a part of a word, or several words (喝咖啡, drink coffee). What the tokens have in common
that the lexicon links to the source word is its translation: 咖啡.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

import numpy as np

from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.text.spans import Span

_NEAR_PEAK = 0.75  # of the highest weight, which the characters of a word reach; measured with data/demo-en-zh
_NEAR_PEAK_OF_LETTERS = 0.6
_APART = 0.5  # of the highest weight, which others of its characters reach in tokens without that character
_INSEPARABLE = 0.9  # of the occurrences of two characters, which are in this order
_SEPARABLE = 0.5
_OFTEN = 5  # occurrences of a character, from which on another one that is always behind it is of its word

_FIRST_IDEOGRAPH = "\u2e80"
_LETTERS = 3  # in a row that two texts share, in scripts whose characters are letters, as Thai

Linked = list[tuple[str, float]]  # target tokens, and how strongly they are linked to a source token


class TermPlaces:
    """Finds translations by the characters of the tokens that the lexicon links to the source."""

    def __init__(self, lexicon: TermLexicon, tgt_tokens: Sequence[str], sample: Iterable[str], *, swapped: bool):
        """Use `lexicon`; `sample` are target texts, which tell which characters are never apart.

        If `swapped`, the sides of the lexicon are exchanged.
        """
        keys = lexicon.keys
        width = lexicon.tgt_vocab_size
        self._tokens = tgt_tokens
        self._similarities = lexicon.similarities
        self._src, self._tgt = (keys % width, keys // width) if swapped else (keys // width, keys % width)
        self._linked: dict[int, Linked] = {}
        self._counts = Counter(part for text in sample for part in (*text, *map("".join, pairwise(text))))

    def find(self, src_ids: Sequence[int], word: Collection[int], text: str, taken: Collection[Span]) -> Span | None:
        """Return where `text`, the translation of `src_ids`, has that of the tokens number `word`; None if unknown.

        The characters belong to the word rather than to another token of the source, and to none of `taken`.
        """
        size, share = (
            (1, _NEAR_PEAK) if max(text, default="") >= _FIRST_IDEOGRAPH else (_LETTERS, _NEAR_PEAK_OF_LETTERS)
        )
        linked = [self._linked_to(token) for token in src_ids]
        of_word = [entry for number in word for entry in linked[number]]
        weights = _weigh(text, of_word, size)
        others = [_weigh(text, tokens, size + 1) for number, tokens in enumerate(linked) if number not in word]
        own = [
            weight if weight > max(rest, default=0.0) else 0.0 for weight, *rest in zip(weights, *others, strict=True)
        ]
        highest = max(own, default=0.0)
        if not highest:
            return None
        peak = text[own.index(highest)]
        apart = _weigh(text, [(token, strength) for token, strength in of_word if peak not in token], size)
        belongs = [
            weight > 0 and (weight >= share * highest or without >= _APART * highest)
            for weight, without in zip(own, apart, strict=True)
        ]
        free: list[Span] = []
        start = 0
        for end in range(1, len(text) + 1):
            is_end = end == len(text) or not belongs[end] or (size == 1 and not self._are_joined(text, end))
            if belongs[end - 1] and is_end:
                run = self._whole(text, start, end)
                if not any(run.start < span.end and span.start < run.end for span in taken):
                    free.append(run)
            start = end if is_end or not belongs[end - 1] else start
        return max(free, key=lambda run: sum(own[run.start : run.end]), default=None)

    def _linked_to(self, token: int) -> Linked:
        if token not in self._linked:
            entries = np.flatnonzero(self._src == token).tolist()
            self._linked[token] = [
                (self._tokens[self._tgt[i]].strip("▁"), float(self._similarities[i])) for i in entries
            ]
        return self._linked[token]

    def _are_joined(self, text: str, at: int) -> bool:
        """Return whether the characters around `at` may be of one word: one of them mostly stands beside the other."""
        before = text[at - 1]
        after = text[at]
        least = _SEPARABLE * min(self._counts[before], self._counts[after])
        return before == after or self._counts[before + after] >= least

    def _whole(self, text: str, start: int, end: int) -> Span:
        """Return [start, end) with the characters beside it that cannot be separated from it."""
        while start > 0 and self._are_inseparable(text, start):
            start -= 1
        while end < len(text) and (self._are_inseparable(text, end) or self._is_begun(text, end)):
            end += 1
        return Span(start, end)

    def _are_inseparable(self, text: str, at: int) -> bool:
        before = text[at - 1]
        after = text[at]
        least = _INSEPARABLE * max(self._counts[before], self._counts[after], 2)
        return unicodedata.category(after)[0] == "M" or self._counts[before + after] >= least

    def _is_begun(self, text: str, at: int) -> bool:
        """Return whether the character before `at` always has that behind it, as 帽 in 帽子."""
        before = text[at - 1]
        after = text[at]
        return after.isalpha() and self._counts[before + after] >= max(self._counts[before], _OFTEN)


def _weigh(text: str, linked: Linked, size: int) -> list[float]:
    """Return for each character of `text` how strongly the tokens are linked that have it with `size` - 1 others."""
    weights: Counter[str] = Counter()
    for token, strength in linked:
        units = {token[at : at + size] for at in range(max(1, len(token) - size + 1))}
        weights.update(dict.fromkeys(units, strength))
    weighed = [0.0] * len(text)
    for unit, weight in weights.items():
        at = text.find(unit)
        while unit and at >= 0:
            for place in range(at, at + len(unit)):
                weighed[place] = max(weighed[place], weight)
            at = text.find(unit, at + 1)
    return weighed
