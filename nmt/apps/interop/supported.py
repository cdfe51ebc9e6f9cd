"""Check which models other toolkits support, with the same results as nmt. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nmt.base.errors import RunError
from nmt.config.model import ModelConfig

Supported = Mapping[str, tuple[str | bool, ...]]

# For each key of the model section, except numbers, the values that give the same results.
IN_CTRANSLATE2: Supported = {
    "attention": ("scaled_dot_product",),
    "positions": ("sinusoidal", "learned", "rotary"),
    "norm_position": ("pre", "post"),
    "norm": ("layer", "rms"),
    "activation": ("relu", "gelu", "silu", "swiglu"),
    "qk_norm": (False, "self"),
    "tied_embeddings": ("none", "target", "all"),
    "output_bias": (False, True),
    "language_tags": ("source", "both"),
}
IN_MARIAN: Supported = {
    "attention": ("scaled_dot_product",),
    "positions": ("sinusoidal",),
    "norm_position": ("post",),
    "norm": ("layer",),
    "activation": ("relu", "gelu", "silu"),
    "qk_norm": (False,),
    "tied_embeddings": ("none", "target", "all"),
    "output_bias": (False, True),
    "language_tags": ("source",),
}


def refuse_for_ctranslate2(config: ModelConfig, path: Path) -> None:
    """Raise RunError about the option if CTranslate2 does not support a model with `config` (of the run at `path`)."""
    _refuse(config, path, IN_CTRANSLATE2, "CTranslate2 cannot run a model with")


def refuse_for_marian(config: ModelConfig, path: Path) -> None:
    """Raise RunError about the option if Marian's architecture does not support a model with `config`."""
    _refuse(config, path, IN_MARIAN, "Marian's architecture does not support")


def _refuse(config: ModelConfig, path: Path, supported: Supported, message: str) -> None:
    for key, value in config:
        if (isinstance(value, int | float) and not isinstance(value, bool)) or value in supported.get(key, ()):
            continue
        can = " or ".join(map(_as_yaml, supported.get(key, ())))
        hint = f"it supports {can}" if can else f"the export does not know model.{key} yet"
        raise RunError(f"{message} model.{key}: {_as_yaml(value)}", path=path, hint=hint)


def _as_yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
