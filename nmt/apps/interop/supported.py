"""Check which models other toolkits support, with the same results as nmt. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from nmt.base.errors import RunError
from nmt.config.model import ModelConfig

# For each key of the model section, the values that CTranslate2 supports with the same results. The export does not
# know keys that are missing here, except numbers.
IN_CTRANSLATE2: dict[str, tuple[str | bool, ...]] = {
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
NUMBERS = {
    "d_model",
    "num_heads",
    "d_ff",
    "encoder_layers",
    "decoder_layers",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "max_src_len",
    "max_tgt_len",
}


def refuse_for_ctranslate2(config: ModelConfig, path: Path) -> None:
    """Raise RunError about the option if CTranslate2 does not support a model with `config` (of the run at `path`)."""
    for key in type(config).model_fields:
        value = getattr(config, key)
        if key in NUMBERS:
            continue
        if value not in IN_CTRANSLATE2.get(key, ()):
            can = IN_CTRANSLATE2.get(key)
            hint = (
                f"it supports {' or '.join(map(_as_yaml, can))}" if can else f"the export does not know model.{key} yet"
            )
            raise RunError(f"CTranslate2 cannot run a model with model.{key}: {_as_yaml(value)}", path=path, hint=hint)


def _as_yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_IN_MARIAN: dict[str, tuple[str | bool, ...]] = {
    "attention": ("scaled_dot_product",),
    "positions": ("sinusoidal",),
    "norm_position": ("post",),
    "norm": ("layer",),
    "activation": ("relu", "gelu", "silu"),
    "tied_embeddings": ("none", "target", "all"),
    "output_bias": (False, True),
    "language_tags": ("source",),
}
"""For each non-numeric key of the model section, the values that Marian supports with the same results."""


def refuse_for_marian(config: ModelConfig, path: Path) -> None:
    """Raise RunError about the option if Marian's architecture does not support a model with `config`."""
    for key in type(config).model_fields:
        value = getattr(config, key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            continue
        can = _IN_MARIAN.get(key)
        if can is None and value is False:  # an option of a later version that is off
            continue
        if value not in (can or ()):
            hint = f"it supports {' or '.join(map(str, can))}" if can else f"the export does not know model.{key} yet"
            raise RunError(f"Marian's architecture does not support model.{key}: {value}", path=path, hint=hint)
