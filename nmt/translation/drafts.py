"""Drafts of translations: the translation of an earlier version of a text, which a search only has to verify."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from nmt.base.errors import DataError
from nmt.data.read.lines import read_lines


class Drafts:
    """The lines of an earlier version of a text, with their translations."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]):
        """Hold as many `sources` as `targets`."""
        self._sources, self._targets = sources, targets
        self._number_of = {source: number for number, source in reversed(list(enumerate(sources)))}  # the first of each
        self._next = 0

    @classmethod
    def read(cls, src: Path, tgt: Path) -> Self:
        """Read the lines of two files. DataError if one has more than the other, or cannot be read."""
        sources, targets = list(read_lines(src)), list(read_lines(tgt))
        if len(sources) != len(targets):
            message = f"{len(targets):,} lines, but {src.name} has {len(sources):,}"
            raise DataError(message, path=tgt, hint="line n of one file must translate line n of the other")
        return cls(sources, targets)

    def of(self, texts: Sequence[str]) -> list[str]:
        """Return a draft for each of `texts`, the next lines of the new version; empty if there is none.

        It is the translation of the same line, else of the line in its place: the one after that of the previous text.
        """
        drafts = []
        for text in texts:
            number = self._next
            if number >= len(self._sources) or self._sources[number] != text:  # a line may occur several times
                number = self._number_of.get(text, number)
            drafts.append(self._targets[number] if number < len(self._targets) else "")
            self._next = number + 1
        return drafts
