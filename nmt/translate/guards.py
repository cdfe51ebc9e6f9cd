"""Signs that an output ran away: a loop, or a source that was copied instead of translated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

MAX_UNIT = 4
MIN_REPEATS = 4

# A word, or one character of a language written without spaces; no digits, which are rightly the same.
_WORD = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f]|[^\W\d_\u2e80-\u9fff\uf900-\ufaff]+")
_MIN_COPIED = 3
_COPIED_SHARE = 0.5


def longest_run(ids: Sequence[int]) -> tuple[int, int]:
    """Return (unit, repeats) of the n-gram of up to 4 ids that repeats most often in a row; (0, 0) for no ids."""
    best = (0, 0)
    for unit in range(1, MAX_UNIT + 1):
        same = 0  # ids in a row that equal the one a unit before
        for i in range(unit, len(ids)):
            same = same + 1 if ids[i] == ids[i - unit] else 0
            if same // unit + 1 > max(best[1], 1):
                best = (unit, same // unit + 1)
    return best if best[1] else (min(1, len(ids)), min(1, len(ids)))


class Loop(NamedTuple):
    """An n-gram of `unit` tokens, `repeats` times in a row, where `allowed` times would have been right."""

    unit: int
    repeats: int
    allowed: int

    @property
    def forbidden_ngram(self) -> int:
        """The size of n-grams that must not come twice, so that the loop cannot."""
        return max(2, self.unit * (2 if self.allowed < MIN_REPEATS else self.allowed))


def find_loop(output: Sequence[int], source: Sequence[int]) -> Loop | None:
    """Return the loop that the output is caught in, if any.

    A loop is an n-gram of up to 4 tokens, four or more times in a row. Where the source repeats something as often
    ("ha ha ha ha"), the output may do so twice as often.
    """
    if len(output) - len(set(output)) < MIN_REPEATS - 1:  # no token comes that often: nearly all outputs
        return None
    unit, repeats = longest_run(output)
    in_source = longest_run(source)[1]
    allowed = MIN_REPEATS - 1 if in_source < MIN_REPEATS else 2 * in_source
    return Loop(unit, repeats, allowed) if repeats > allowed else None


def is_copy(source: str, output: str) -> bool:
    """Whether over half of an output's words are the source's: it was copied, not translated.

    The measure of Ott et al. 2018 (Analyzing Uncertainty in Neural Machine Translation, section 5.2): overlap of
    unigrams, without punctuation and numbers. Outputs of fewer than three words may be names and are no copies.
    """
    words, of_source = (Counter(word.lower() for word in _WORD.findall(text)) for text in (output, source))
    total = words.total()
    return total >= _MIN_COPIED and (words & of_source).total() > _COPIED_SHARE * total
