"""The error tree: what is wrong, where, and how to fix it. `cli.main` is the one place that catches it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

_NOT_SHOWN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, such as those of a terminal; surrogates; other line ends


def printable(text: str, *, but: str = "") -> str:
    r"""Return `text` with control characters and lone surrogates, except those in `but`, written as escapes (`\x1b`).

    File names and keys from a stranger may hold sequences that a terminal obeys, and names that are not UTF-8 hold
    surrogates that cannot be written.
    """
    return "".join(
        c.encode("unicode_escape", "surrogatepass").decode("ascii")
        if unicodedata.category(c) in _NOT_SHOWN and c not in but
        else c
        for c in text
    )


def in_words(names: Sequence[str]) -> str:
    """Return `names` as a sentence lists them: "a", "a and b", "a, b and c"."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def counted(number: int, noun: str) -> str:
    """Return a count as a sentence has it: "1 pair", "2,000 pairs". The plural of `noun` ends in "s"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


class NmtError(Exception):
    """A fault the user can fix.

    `message` says what is wrong, `path` and `line` where (lines count from 1), `hint` what to do about it. As a text,
    the error is `printable`.
    """

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None, hint: str = ""):
        self.message = message
        self.path = path
        self.line = line
        self.hint = hint
        super().__init__(self._render())

    def _render(self) -> str:
        path = "" if self.path is None else printable(str(self.path))
        place = "" if self.path is None else f"{path}: " if self.line is None else f"{path}:{self.line}: "
        return printable(f"{place}{self.message}" + (f"\n  {self.hint}" if self.hint else ""), but="\n")


class ConfigError(NmtError):
    """A configuration file or a `--set` that cannot be read as it stands."""


class DataError(NmtError):
    """Parallel text or a tokenizer that cannot be used as it stands."""


class RunError(NmtError):
    """A run directory that is missing, in the way, damaged, or made by another version."""
