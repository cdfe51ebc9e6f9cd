"""The settings that determine the translations in an output, so that it is continued only with the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nmt.artifacts.rundir import RunDir, checksums_of_weights
from nmt.base.files import short_sha256
from nmt.translation.request import Request

if TYPE_CHECKING:
    from nmt.translation.memory import TranslationMemory  # with numpy, which few commands need

_CHECKSUM_CHARACTERS = 16


class HasPrecision(Protocol):
    """A translator, which computes in a precision."""

    precision: str


def settings_of(
    models: Sequence[RunDir],
    translator: HasPrecision,
    request: Request,
    glossary: Path | None = None,
    memory: TranslationMemory | None = None,
) -> dict[str, object]:
    """Return what determines the translations: the options, and checksums, so that no others continue an output."""
    languages = {"to": request.to, "from": request.from_}
    settings = {
        **request.options.model_dump(),
        **{name: code for name, code in languages.items() if code is not None},
        "precision": translator.precision,
        "models": [f"{run.path.resolve().name}/{run.usable_checkpoint().stem}" for run in models],
        "weights": [*checksums_of_weights(models)],
    }
    if request.options.shortlist and models[0].shortlist.is_file():  # if it is missing, the engine reports the error
        settings["shortlist"] = short_sha256(models[0].shortlist)
    if memory is not None:
        settings["memory"] = memory.checksum[:_CHECKSUM_CHARACTERS]
    if glossary is not None:
        settings["glossary"] = short_sha256(glossary)
    return settings
