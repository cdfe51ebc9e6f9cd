"""A request to a translator: everything but the texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from nmt.base.errors import NmtError, UsageError, require_one_of, require_type
from nmt.config import SearchOptions
from nmt.data.text.glossary import Glossary


@dataclass(frozen=True)
class Request:
    """Options, languages, terms and prefix for translating texts.

    Commands, the server and the Python API make one; the layers below read its fields.
    """

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
            raise NmtError(
                f"{num_texts} texts but {len(prefixes)} prefixes", hint='pass "" for a text without a prefix'
            )
        if any("\n" in prefix or "\r" in prefix for prefix in prefixes):
            raise UsageError("a prefix must not contain line breaks")
        return prefixes


def changed_options(options: SearchOptions, changes: Mapping[str, object]) -> SearchOptions:
    """Return `options` with `changes`, by name, such as `beam_size`. NmtError if one is unknown, or they conflict."""
    require_type("options", changes, Mapping, "SearchOptions, or a dict of their fields")
    for name in changes:
        require_one_of("option", name, [*SearchOptions.model_fields])
    return options.changed(**changes)
