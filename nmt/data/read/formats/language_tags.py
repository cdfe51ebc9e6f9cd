"""Match the requested language against the languages in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nmt.base.errors import DataError

_SHOWN = 20
_MAX_COUNTED = 1000


def rank(wanted: str, tag: str) -> int | None:
    """Return how well a language tag matches the requested one: 0 is best, None if it does not match.

    0: the same, ignoring case, with `-` or `_`. 1: more specific, such as en-US for en. 2: more general, such as pt for
    pt-BR. en-US does not match en-GB.
    """
    left, right = (code.strip().casefold().replace("_", "-") for code in (wanted, tag))
    if left == right:
        return 0
    if right.startswith(f"{left}-"):
        return 1
    return 2 if right and left.startswith(f"{right}-") else None


def best_fits(wanted: str, tags: Sequence[str]) -> list[int]:
    """Return the indices of the best matching tags, in order; empty if none matches."""
    ranks = [rank(wanted, tag) for tag in tags]
    best = min((found for found in ranks if found is not None), default=None)
    return [] if best is None else [i for i, found in enumerate(ranks) if found == best]


class LanguagesFound:
    """Counts the languages in a file, for the error message if the requested ones are not among them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, language: str) -> None:
        """Count one occurrence of a language; only the first thousand languages are counted."""
        if language in self._counts or len(self._counts) < _MAX_COUNTED:
            self._counts[language or "none given"] += 1

    def fault(self, message: str, path: Path) -> DataError:
        """Return the error that the requested languages are not in the file."""
        found = ", ".join(f"{name[:60]} ({count:,})" for name, count in self._counts.most_common(_SHOWN))
        more = ", …" if len(self._counts) > _SHOWN else ""
        hint = f"languages in the file: {found}{more}; set src_lang and tgt_lang of this corpus"
        return DataError(message, path=path, hint=hint)
