"""What is asked of a translator: everything but the texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from pydantic import ValidationError

from nmt.base.errors import NmtError
from nmt.config import SearchOptions
from nmt.config.faults import Location, unknown_key
from nmt.data.text.glossary import Glossary


@dataclass(frozen=True)
class Request:
    """How to translate texts. The doors make it; all that is below them reads it by name."""

    options: SearchOptions
    _: KW_ONLY
    to: str | None = None  # the target language; None: the only one, or that of the tag of a text
    from_: str | None = None  # the source language; None: the first that the model translates into `to`
    glossary: Glossary | None = None
    prefix: str | Sequence[str] = ""  # the beginning of every translation, or one for each text
    draw_by_line: bool = False  # in sampling: equal texts on different lines get different samples

    def prefixes(self, num_texts: int) -> Sequence[str]:
        """Return the prefix of each text. NmtError unless there is one per text, each on a single line."""
        prefixes = [self.prefix] * num_texts if isinstance(self.prefix, str) else self.prefix
        if len(prefixes) != num_texts:
            hint = 'pass "" for a text without a prefix'
            raise NmtError(f"{num_texts} texts but {len(prefixes)} prefixes", hint=hint)
        if any("\n" in prefix or "\r" in prefix for prefix in prefixes):
            raise NmtError("a prefix must not contain line breaks")
        return prefixes


def changed_options(options: SearchOptions, changes: Mapping[str, object]) -> SearchOptions:
    """Return `options` with `changes`, by name, such as `beam_size`. NmtError if one is unknown, or they conflict."""
    try:
        return options.changed(**changes)
    except ValidationError as error:
        (first, *_) = error.errors()
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            hint = unknown_key(SearchOptions, ("decoding",), name, Location("", None)).hint
            raise NmtError(f"unknown option {name}", hint=hint) from None
        raise NmtError(f"{name}: {first['msg']}".removeprefix(": ")) from None
