"""The error tree: what is wrong, where, and how to fix it. `cli.main` is the one place that catches it."""

from __future__ import annotations

from pathlib import Path


class NmtError(Exception):
    """A fault the user can fix.

    `message` says what is wrong, `path` and `line` where (lines count from 1), `hint` what to do about it.
    """

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None, hint: str = ""):
        self.message = message
        self.path = path
        self.line = line
        self.hint = hint
        super().__init__(self._render())

    def _render(self) -> str:
        place = "" if self.path is None else f"{self.path}: " if self.line is None else f"{self.path}:{self.line}: "
        return f"{place}{self.message}" + (f"\n  {self.hint}" if self.hint else "")


class ConfigError(NmtError):
    """A configuration file or a `--set` that cannot be read as it stands."""


class DataError(NmtError):
    """Parallel text or a tokenizer that cannot be used as it stands."""


class RunError(NmtError):
    """A run directory that is missing, in the way, damaged, or made by another version."""
