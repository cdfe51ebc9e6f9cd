"""Check which models other toolkits support, with the same results as nmt. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

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
    **IN_CTRANSLATE2,
    "positions": ("sinusoidal",),
    "norm": ("layer",),
    "activation": ("relu", "gelu", "silu"),
    "qk_norm": (False,),
    "language_tags": ("source",),
}
IN_PEGASUS: Supported = {**IN_MARIAN, "tied_embeddings": ("all",)}
Toolkit = Literal["CTranslate2", "transformers"]


def refuse_unsupported(config: ModelConfig, path: Path, toolkit: Toolkit) -> None:
    """Raise RunError about all options that `toolkit` does not support in a model with `config` (stored at `path`)."""
    supported = IN_CTRANSLATE2
    message = "CTranslate2 cannot run a model with"
    instead = ""
    if toolkit == "transformers":
        supported = IN_PEGASUS if config.norm_position == "pre" else IN_MARIAN
        message = f"transformers has no {config.norm_position}-norm translation model with"
        instead = "; `nmt config new --for hf` configures a model that it has"
    refused = {key: value for key, value in config if not _is_number(value) and value not in supported.get(key, ())}
    if refused:
        values = " and ".join(f"model.{key}: {str(value).lower()}" for key, value in refused.items())
        can = " and ".join(f"model.{key}: {' or '.join(map(str, supported[key])).lower()}" for key in refused)
        raise RunError(f"{message} {values}", path=path, hint=f"it supports {can}{instead}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
