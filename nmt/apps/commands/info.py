"""`nmt info`: describe a model folder."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.apps.commands.streams import print_text
from nmt.artifacts.cachedir import GB, LIMIT_VARIABLE, cache_folder, cache_limit, cached_models
from nmt.base.errors import counted
from nmt.base.files import to_json

if TYPE_CHECKING:
    from nmt.apps.interop.describe import ModelInfo


def info(
    model: Annotated[
        str | None,
        typer.Argument(help="Run, export or Hugging Face folder. Default: $NMT_MODEL, else the newest run in ./runs."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    cache: Annotated[
        bool, typer.Option("--cache", help="List the models in the cache instead, with size and time of last use.")
    ] = False,
) -> None:
    """Describe a model: size, languages, scores, license, exports."""
    if cache:
        if model is not None:
            raise typer.BadParameter("--cache lists the models in the cache; omit the model")
        print_text(_cache_as_json() if as_json else "\n".join(_cache_as_text()))
        return
    from nmt.apps.interop.describe import describe_model

    found = describe_model(model)
    print_text(to_json(found.as_json()) if as_json else _table(found))


def _cache_as_text() -> Iterator[str]:
    models = cached_models()
    total = sum(model.num_bytes for model in models) / GB
    limit = f"{cache_limit():g} GB (${LIMIT_VARIABLE})"
    yield f"{cache_folder()}: {counted(len(models), 'model')}, {total:.2f} GB of at most {limit}"
    for model in models:
        used = datetime.fromtimestamp(model.last_use).astimezone().isoformat(" ", "minutes")
        yield f"{used}  {model.num_bytes / GB:8.2f} GB  {model.name}"


def _cache_as_json() -> str:
    models = [
        {"name": model.name, "folder": str(model.folder), "bytes": model.num_bytes, "last_use": model.last_use}
        for model in cached_models()
    ]
    return to_json({"cache": str(cache_folder()), "limit_gb": cache_limit(), "models": models})


def _table(found: ModelInfo) -> str:
    parameters = f"{found.parameters:,} parameters, " if found.parameters is not None else ""
    rows = {
        "path": found.path,
        "kind": found.kind,
        "languages": ", ".join(found.languages),
        "size": f"{parameters}{found.megabytes:,.1f} MB",
        "model": found.architecture,
        "vocabulary": ", ".join(f"{size:,} tokens ({side})" for side, size in found.vocabulary.items()),
        "scores": ", ".join(f"{name} {value:.2f}" for name, value in found.scores.items()) or "none",
        "license": found.license or "not named in README.md",
    }
    lines = [f"{name:<11}{value}" for name, value in rows.items()]
    return "\n".join([*lines, *(f"{name:<24}{why or 'possible'}" for name, why in found.can_become.items())])
