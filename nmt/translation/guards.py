"""Detect degenerate outputs: loops, and sources that were copied instead of translated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from operator import eq
from typing import NamedTuple

MAX_UNIT = 4
MIN_REPEATS = 4

# A word, or a single character in languages written without spaces. No digits, because translation keeps them anyway.
_WORD = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f]|[^\W\d_\u2e80-\u9fff\uf900-\ufaff]+")
_MIN_COPIED = 3
_COPIED_SHARE = 0.5
_MIN_CAPITALS = 8  # fewer may be an abbreviation


def longest_run(ids: Sequence[Hashable]) -> tuple[int, int]:
    """Return (n, repeats) of the n-gram of up to 4 ids with the most consecutive repeats; (0, 0) for no ids.

    Ids may be any hashable values, such as words.
    """
    best = (0, 0)
    for unit in range(1, MAX_UNIT + 1):
        same = bytes(map(eq, ids[unit:], ids))  # whether each id equals the one `unit` positions before
        repeats = max(map(len, same.split(b"\0"))) // unit + 1
        if repeats > max(best[1], 1):
            best = (unit, repeats)
    return best if best[1] else (min(1, len(ids)), min(1, len(ids)))


class Loop(NamedTuple):
    """An n-gram of `unit` tokens that occurs `repeats` times in a row, although only `allowed` times are plausible."""

    unit: int
    repeats: int
    allowed: int

    @property
    def forbidden_ngram(self) -> int:
        """The size of the n-grams whose repetition to forbid, which breaks the loop."""
        return max(2, self.unit * (2 if self.allowed < MIN_REPEATS else self.allowed))


def find_loop(output: Sequence[Hashable], source: Sequence[Hashable]) -> Loop | None:
    """Return the loop that the output is stuck in, if any.

    A loop is an n-gram of up to 4 tokens that occurs four or more times in a row. If the source also repeats something
    that often ("ha ha ha ha"), the output may repeat twice as often.
    """
    if len(output) - len(set(output)) < MIN_REPEATS - 1:  # fast path: in most outputs no token repeats that often
        return None
    unit, repeats = longest_run(output)
    in_source = longest_run(source)[1]
    allowed = MIN_REPEATS - 1 if in_source < MIN_REPEATS else 2 * in_source
    return Loop(unit, repeats, allowed) if repeats > allowed else None


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without numbers; in Chinese and similar scripts, each character."""
    return [word.lower() for word in _WORD.findall(text)]


def is_in_capitals(text: str) -> bool:
    """Return whether a text of several words is in capital letters, with at least eight of them."""
    return text.isupper() and " " in text.strip() and sum(map(str.isupper, text)) >= _MIN_CAPITALS


def is_copy(source: str, output: str) -> bool:
    """Return True if more than half of the output's words come from the source: it was copied, not translated.

    Measures the overlap of unigrams, without punctuation and numbers, as in Ott et al. 2018 (Analyzing Uncertainty in
    Neural Machine Translation, section 5.2). Outputs of fewer than three words may be names, so they never count.
    """
    words, of_source = (Counter(words_of(text)) for text in (output, source))
    total = words.total()
    return total >= _MIN_COPIED and (words & of_source).total() > _COPIED_SHARE * total
