"""The errors that nmt reports: what is wrong, where, and how to fix it. Only `cli.main` catches them all."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_NOT_SHOWN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control and format characters, surrogates, line separators


def printable(text: str, *, but: str = "") -> str:
    r"""Return `text` with control characters and lone surrogates, except those in `but`, written as escapes (`\x1b`).

    Untrusted file names and keys may contain terminal escape sequences. File names that are not valid UTF-8 contain
    surrogates, which cannot be printed.
    """
    hidden = (c for c in set(text).difference(but) if unicodedata.category(c) in _NOT_SHOWN)
    return text.translate({ord(c): c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in hidden})


def in_words(names: Sequence[str], last: str = "and") -> str:
    """Join `names` into a list for a sentence: "a", "a and b", "a, b and c"; `last` comes before the last one."""
    return f" {last} ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: "1 pair", "2,000 pairs". The plural of `noun` must end in "s"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def how_to_install(extra: str) -> str:
    """Return the hint for a missing package: the command that installs an extra of nmt, which is not released yet."""
    return f'in the checkout of nmt: pip install ".[{extra}]"'


class NmtError(Exception):
    """An error that the user can fix.

    `message` says what is wrong, `path` and `line` where (lines count from 1), and `hint` how to fix it. `str(error)`
    is `printable`.
    """

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None, hint: str = ""):
        self.message = message
        self.path = path
        self.line = line
        self.hint = hint
        place = "" if path is None else f"{printable(str(path))}{'' if line is None else f':{line}'}: "
        super().__init__(printable(f"{place}{message}" + (f"\n  {hint}" if hint else ""), but="\n"))


class ConfigError(NmtError):
    """An invalid configuration file, `--set` option or environment variable."""


class UsageError(ConfigError):
    """Arguments that are missing or cannot be used together; a command ends with exit code 2."""


class DataError(NmtError):
    """Parallel text or a tokenizer that cannot be used."""


class RunError(NmtError):
    """A run, export or packed model that is missing, damaged, in the way, or of an unsupported format."""


def nearest(value: str, choices: Sequence[str]) -> str | None:
    """Return the choice that looks like `value`, or whose first word does, such as beam_size for beem; None if none."""
    from difflib import get_close_matches  # only here, because a start should not pay for it

    by_first_word = {choice.partition("_")[0]: choice for choice in reversed(choices)}
    near = get_close_matches(value, choices, n=1) or get_close_matches(value, by_first_word, n=1, cutoff=0.7)
    return by_first_word.get(near[0], near[0]) if near else None


def require_one_of(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise NmtError unless `value`, of the argument `name`, is one of `choices`."""
    if value not in choices:
        near = nearest(str(value), choices)
        hint = f"did you mean {near!r}? " if near else ""
        raise NmtError(f"unknown {name} {value!r}", hint=f"{hint}choose from {', '.join(choices)}")


def require_type(name: str, value: object, types: type | tuple[type, ...], expected: str) -> None:
    """Raise NmtError, with what is `expected`, unless `value`, of the argument `name`, is of one of `types`."""
    if not isinstance(value, types):
        given = "None" if value is None else f"of type {type(value).__name__}"
        raise NmtError(f"{name} must be {expected}; it is {given}")


def require_texts(name: str, values: Sequence[str]) -> list[str]:
    """Return the texts `values`, of the argument `name`, as a list. NmtError if they are no sequence of str."""
    if isinstance(values, str | bytes | Mapping):
        raise NmtError(
            f"{name} must be a list of str, not a single {type(values).__name__}", hint="put it into a list: [text]"
        )
    require_type(name, values, Iterable, "a list of str")
    values = list(values)
    for number, value in enumerate(values, 1):
        if not isinstance(value, str):
            raise NmtError(f"{name} must be a list of str; number {number} is of type {type(value).__name__}")
    return values


def require(extra: str, package: str, user: str, *, otherwise: str = "", path: Path | str | None = None) -> Any:
    """Import and return a `package` that an `extra` of nmt installs, and that `user` needs.

    NmtError if it is not installed, with the command that installs it, and with what to do `otherwise`.
    """
    try:
        return import_module(package)
    except ImportError as error:
        hint = how_to_install(extra) + (f", or {otherwise}" if otherwise else "")
        reason = "" if error.name == package else f" ({error})"  # it is there, but a part of it is not, or is broken
        raise NmtError(
            f"{user} needs the package {package}, which is not installed{reason}", path=path, hint=hint
        ) from None


def require_torch() -> None:
    """Raise NmtError unless PyTorch is installed, for commands that would need it only after other work."""
    if find_spec("torch") is None:
        raise NmtError("this command needs PyTorch, which is not installed", hint=how_to_install("train"))


def missing_torch(error: ModuleNotFoundError, message: str = "this command needs PyTorch") -> NmtError:
    """Return an NmtError if `error` means that PyTorch is not installed; otherwise raise `error`."""
    if error.name != "torch":
        raise error
    return NmtError(f"{message}, which is not installed", hint=how_to_install("train"))
