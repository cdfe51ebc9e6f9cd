"""Words that a phrase table knows in place of one that it does not: other forms of it, since they begin alike.

Yang and Kirchhoff 2006, "Phrase-Based Backoff Models for Machine Translation of Highly Inflected Languages".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import takewhile
from operator import eq

from nmt.data.tokens.tokenizer import Tokenizer

_SHARED = 4  # letters that words of kin begin with
_MOST = 5  # of them for a word


class WordsOfKin:
    """Finds words of kin among the source phrases of a table."""

    def __init__(self, phrases: Iterable[Sequence[int]], tokenizer: Tokenizer):
        self._vocabulary = tokenizer.vocabulary
        self._known: dict[str, list[tuple[str, int]]] = {}
        letters = [token.removeprefix("▁") for token in self._vocabulary]
        self._has_letters = [all(unicodedata.category(each)[0] in "LM" for each in text) for text in letters]
        self._begins = [token.startswith("▁") for token in self._vocabulary]
        for number, phrase in enumerate(phrases):
            if self._begins[phrase[0]] and (word := self._letters(phrase)):
                self._known.setdefault(word[:_SHARED], []).append((word, number))

    def find(self, word: Sequence[int]) -> list[tuple[int, float]]:
        """Return the numbers of the phrases nearest to `word`, and the share of letters in which they differ."""
        letters = self._letters(word)
        known = self._known.get(letters[:_SHARED], ()) if len(letters) >= _SHARED else ()
        found = ((1 - 2 * _shared(letters, other) / len(letters + other), number) for other, number in known)
        return [(number, difference) for difference, number in sorted(found)[:_MOST]]

    def _letters(self, tokens: Sequence[int]) -> str:
        """Return the letters of a word; empty if the tokens are none, or several."""
        if not all(map(self._has_letters.__getitem__, tokens)) or any(map(self._begins.__getitem__, tokens[1:])):
            return ""
        return "".join(map(self._vocabulary.__getitem__, tokens)).removeprefix("▁")


def _shared(text: str, other: str) -> int:
    """Return how many characters both begin with."""
    return sum(takewhile(bool, map(eq, text, other)))
