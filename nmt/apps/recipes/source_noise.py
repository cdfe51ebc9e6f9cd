"""Noise on the source side of synthetic pairs: words dropped, blanked and moved (Edunov et al. 2018, section 3)."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from nmt.data.text.spans import find_spans

# For languages written without spaces: a run of Latin letters and digits, or any other character.
_CHARACTERS = re.compile(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]")


class SourceNoise(NamedTuple):
    """Noise for each word: it may be dropped, blanked, and moved by up to `shuffle` positions.

    Edunov et al. 2018 use 0.1, 0.1 and 3. A word with a protected span, such as a URL, is neither dropped nor blanked,
    because its translation keeps the span. At least one word stays.
    """

    drop: float = 0.0
    blank: float = 0.0
    shuffle: int = 0
    blank_token: str = "[BLANK]"

    def __bool__(self) -> bool:
        return bool(self.drop or self.blank or self.shuffle)

    def apply(self, text: str, key: tuple[int, ...], *, spaces: bool = True) -> str:
        """Return `text` with noise that is determined by `key`, such as (seed, line).

        If not `spaces`, the language is written without them, and each character is a word.
        """
        words = _words(text) if spaces else _words_without_spaces(text)
        random = np.random.default_rng(key)
        drops, blanks = random.random((2, len(words)))
        kept = [bool(find_spans(word)) for word in words]
        changed = [
            self.blank_token if blank < self.blank and not keep else word
            for word, drop, blank, keep in zip(words, drops, blanks, kept, strict=True)
            if keep or drop >= self.drop
        ]
        if words and not changed:
            changed = [words[int(random.integers(len(words)))]]
        # Sorting by position + U[0, k + 1) moves no word by more than k positions (Lample et al. 2018, section 2.3).
        order = np.argsort(np.arange(len(changed)) + random.uniform(0, self.shuffle + 1, len(changed)), kind="stable")
        moved = [changed[place] for place in (order if self.shuffle else range(len(changed)))]
        if spaces:
            return " ".join(moved)
        return "".join(f" {word} " if word == self.blank_token else word for word in moved).strip()


EDUNOV = SourceNoise(drop=0.1, blank=0.1, shuffle=3)


def _words(text: str) -> list[str]:
    """Split `text` at spaces, except within protected spans, such as a tag with attributes."""
    solid = list(text)
    for span in find_spans(text):
        solid[span.start : span.end] = "_" * (span.end - span.start)
    return [text[found.start() : found.end()] for found in re.finditer(r"\S+", "".join(solid))]


def _words_without_spaces(text: str) -> list[str]:
    """Return the characters of `text`, but keep protected spans and runs of Latin letters whole."""
    words, end = list[str](), 0
    for span in find_spans(text):
        words += [*_CHARACTERS.findall(text[end : span.start]), text[span.start : span.end]]
        end = span.end
    return words + _CHARACTERS.findall(text[end:])
