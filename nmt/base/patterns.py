"""Regular expressions that are compiled when they are first used, and those of given strings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast


def any_of(strings: Iterable[str]) -> str:
    """Return a pattern that matches each of `strings`, the longest one first; without any, it matches nothing."""
    return "|".join(map(re.escape, sorted(strings, key=len, reverse=True))) or "(?!)"


class _LazyPattern:
    def __init__(self, pattern: str):
        self._text = pattern

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text), name)  # `re` keeps what it has compiled
        self.__dict__[name] = found  # so that this is called once for each name
        return found


def lazy_pattern(pattern: str) -> re.Pattern[str]:
    """Return what behaves like the compiled `pattern`, which compiles it at its first use.

    For large classes of characters and long alternatives, which take a millisecond each: a command imports many modules
    whose patterns it never needs. re.error, if the pattern is wrong, is raised at that use.
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern))
