"""Convert the configuration of a Marian or M2M-100 model to nmt's. Imports no torch."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from nmt.apps.interop.hf_folder import ACTIVATIONS, HfConfig, MarianConfig
from nmt.base.errors import RunError
from nmt.config.model import ModelConfig


def model_config(hf: HfConfig) -> ModelConfig:
    """Return nmt's configuration of a model. RunError if the model is too large."""
    try:
        return ModelConfig.model_validate(model_values(hf))
    except ValidationError as error:
        raise RunError(error.errors()[0]["msg"].removeprefix("Value error, "), path="config.json") from None


def model_values(hf: HfConfig) -> dict[str, Any]:
    """Return the section `model` of a configuration that is equivalent to the model of `hf`."""
    tied = "none"  # nmt always scales a tied embedding
    if hf.tie_word_embeddings and hf.scale_embedding:
        tied = "all" if hf.shares_embeddings else "target"
    own = {"positions": "sinusoidal", "norm_position": "post"}
    if not isinstance(hf, MarianConfig):
        own = {"positions": "learned", "norm_position": "pre", "language_tags": "both"}
    return {
        "d_model": hf.d_model,
        "num_heads": hf.encoder_attention_heads,
        "d_ff": hf.encoder_ffn_dim,
        "encoder_layers": hf.encoder_layers,
        "decoder_layers": hf.decoder_layers,
        **own,
        "activation": ACTIVATIONS[hf.activation_function],
        "tied_embeddings": tied,
        "output_bias": True,  # M2M-100 has none, but nmt needs one to give its begin token no probability
        "dropout": hf.dropout,
        "attention_dropout": hf.attention_dropout,
        "embedding_dropout": hf.dropout,
        "max_src_len": hf.max_position_embeddings,
        "max_tgt_len": hf.max_position_embeddings,
    }
