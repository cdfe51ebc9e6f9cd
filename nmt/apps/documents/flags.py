"""The flags of a translation that its reader is told about. For a new one, add a line to `FLAGS`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from nmt.translation import Translation

FLAGS = {
    "truncated": "longer than the model's limit: its end is not translated",
    "loop_unresolved": "the translation repeats itself",
    "copied_source": "most words are copied from the source",
    "wrong_language": "the translation seems to be in another language",
    "protected_lost": "protected text is missing or changed",
    "numbers_missed": "numbers are missing or added",
    "unusual_source": "the text is unlike the model's training text",
}
"""Each flag, an attribute of `Translation`, with what it means."""

Flags = dict[str, bool | list[str]]
"""Those flags that are set: True, or a list of what is missing."""


def flags_of(translation: Translation) -> Flags:
    """Return the flags that are set."""
    return {name: value for name in FLAGS if (value := getattr(translation, name))}


def with_flags(flags: Flags | None) -> dict[str, Flags]:
    """Return the field of a response that holds `flags`; none if no flag is set."""
    return {"flags": flags} if flags else {}


def merge(parts: Sequence[Flags]) -> Flags:
    """Return the flags of a text from those of its parts."""
    merged: Flags = {}
    for name in FLAGS:
        values = [part[name] for part in parts if name in part]
        lists = [value for value in values if isinstance(value, list)]
        if values:
            merged[name] = list(dict.fromkeys(chain.from_iterable(lists))) if len(lists) == len(values) else True
    return merged
