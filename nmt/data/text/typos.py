"""Imitate typing mistakes: in letters (typos), and in words, spaces and punctuation (noise).

All randomness comes from `draw.random()`, whose numbers are the same in every version of Python.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeVar

from nmt.base.languages import written_without_spaces
from nmt.data.text.spans import Span, replace_spans

T = TypeVar("T")

_LETTERS = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"\S+")
_MIN_TYPED = 3  # letters; a shorter word with a typo is often another word
_MIN_WORDS_TO_DROP = 4
_MAX_DROPPED = 3  # letters: dropping a longer word would leave a target that cannot be inferred from the source
_CHARACTERS_PER_WORD = 2  # of text without spaces

_QWERTY = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_QWERTZ = ("qwertzuiopü", "asdfghjklöä", "yxcvbnm")
_AZERTY = ("azertyuiop", "qsdfghjklm", "wxcvbn")
_JCUKEN = ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю")
_LAYOUTS = {"de": _QWERTZ, "cs": _QWERTZ, "hu": _QWERTZ, "fr": _AZERTY, "ru": _JCUKEN, "uk": _JCUKEN, "be": _JCUKEN}
_STRAY = {True: ("，", "、", "。", "…"), False: (",", " ,", "..", " -", "…")}  # punctuation, by "without spaces"


def choose(options: Sequence[str], draw: random.Random) -> str:
    """Return one of `options`, drawn uniformly."""
    return options[int(draw.random() * len(options))]


def neighbors(language: str) -> dict[str, str]:
    """Return the neighboring keys of each lower-case letter, on a common keyboard layout for `language`."""
    rows = _LAYOUTS.get(language.replace("_", "-").split("-")[0].lower(), _QWERTY)
    beside: dict[str, str] = {}
    for number, row in enumerate(rows):
        for column, letter in enumerate(row):
            # Each row is offset about half a key to the right of the one above it.
            near = [(number, column - 1), (number, column + 1), (number - 1, column), (number - 1, column + 1)]
            near += [(number + 1, column - 1), (number + 1, column)]
            beside[letter] = "".join(rows[r][c] for r, c in near if 0 <= r < len(rows) and 0 <= c < len(rows[r]))
    return beside


class Typist:
    """Makes typing mistakes for a text in `language`, in about `word_rate` of the words and at least one."""

    def __init__(self, language: str, word_rate: float):
        self._without_spaces = written_without_spaces(language)
        self._word_rate = word_rate
        self._neighbors = neighbors(language)

    def mistype(self, text: str, protected: Sequence[Span], draw: random.Random) -> str:
        """Return `text` with typos in its words, but not in its `protected` spans."""
        words = _free(self._typed_words(text), protected)
        chosen = self._some(words, draw)
        return replace_spans(text, chosen, [self._typo(text[start:end], draw) for start, end in chosen])

    def disturb(self, text: str, protected: Sequence[Span], draw: random.Random) -> str:
        """Return `text` with words swapped or repeated, short words dropped, or stray spaces and punctuation."""
        words = self._words(text, protected)
        edits: dict[Span, str] = {}
        for word in self._some(range(len(words)), draw):
            if words[word] not in edits:
                edits.update(self._disturbance(text, words, word, draw))
        spans = sorted(edits)
        return replace_spans(text, spans, [edits[span] for span in spans])

    def _some(self, items: Sequence[T], draw: random.Random) -> list[T]:
        """Draw a share of `word_rate` of `items`, but at least one."""
        chosen = [item for item in items if draw.random() < self._word_rate]
        return chosen or ([items[int(draw.random() * len(items))]] if items else [])

    def _typed_words(self, text: str) -> list[Span]:
        runs = [Span(*match.span()) for match in _LETTERS.finditer(text)]
        if not self._without_spaces:
            return [run for run in runs if run.end - run.start >= _MIN_TYPED]
        return [part for run in runs for part in _parts(run)]

    def _words(self, text: str, protected: Sequence[Span]) -> list[Span]:
        pattern = _LETTERS if self._without_spaces else _WORD
        words = [Span(*match.span()) for match in pattern.finditer(text)]
        return _free([part for word in words for part in _parts(word)] if self._without_spaces else words, protected)

    def _typo(self, word: str, draw: random.Random) -> str:
        """Return `word` with one typo."""
        at = int(draw.random() * len(word))
        others = self._neighbors.get(word[at].lower(), "")
        kind = choose(("swap", "drop", "double", "beside"), draw)
        if kind == "beside" and others:
            letter = choose(others, draw)
            return word[:at] + (letter.upper() if word[at].isupper() else letter) + word[at + 1 :]
        if kind == "double" and not self._without_spaces:
            return word[: at + 1] + word[at:]
        at = min(at, max(0, len(word) - 2))
        pair = word[at : at + 2]
        if kind in ("swap", "beside") and pair[::-1] != pair:
            return word[:at] + pair[::-1] + word[at + 2 :]
        return word[:at] + word[at + 1 :]

    def _disturbance(self, text: str, words: Sequence[Span], word: int, draw: random.Random) -> dict[Span, str]:
        """Return the replacements, by span, of one disturbance."""
        start, end = words[word]
        following = words[word + 1] if word + 1 < len(words) else None
        kind = choose(("drop", "repeat", "swap", "space", "punctuation"), draw)
        if kind == "drop" and self._can_be_done_without(text[start:end], len(words)):
            # Also drop the space before it, or after it if it is the first word.
            before = start - 1 if start and text[start - 1] == " " else start
            after = end + 1 if before == start and text[end : end + 1] == " " else end
            if following is None or after <= following.start:
                return {Span(before, after): ""}
        if kind == "repeat" and not self._without_spaces:
            return {words[word]: f"{text[start:end]} {text[start:end]}"}
        if kind == "swap" and following and not text[end : following.start].strip():
            return {words[word]: text[following.start : following.end], following: text[start:end]}
        if kind == "space":
            return {words[word]: " " + text[start:end]}
        return {words[word]: text[start:end] + choose(_STRAY[self._without_spaces], draw)}

    def _can_be_done_without(self, word: str, num_words: int) -> bool:
        """Return whether `word` can be dropped from the source while the translation keeps it: if it is short."""
        is_short = len(word) <= _MAX_DROPPED and word.isalpha() and word.islower()
        return is_short and num_words >= _MIN_WORDS_TO_DROP and not self._without_spaces


def _parts(run: Span) -> list[Span]:
    """Split a run of characters without spaces into parts that are treated as words."""
    starts = range(run.start, run.end, _CHARACTERS_PER_WORD)
    return [Span(start, min(start + _CHARACTERS_PER_WORD, run.end)) for start in starts]


def _free(words: Sequence[Span], protected: Sequence[Span]) -> list[Span]:
    """Return the words that overlap none of the `protected` spans, which are sorted and disjoint."""
    starts = [span.start for span in protected]
    before = ((word, bisect_left(starts, word.end) - 1) for word in words)  # the last span that starts before its end
    return [word for word, span in before if span < 0 or protected[span].end <= word.start]
