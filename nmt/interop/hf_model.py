"""The configuration of a Marian model as nmt has it. Imports no torch."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from nmt.config.model import ModelConfig
from nmt.errors import RunError
from nmt.interop.hf_folder import ACTIVATIONS, MarianConfig


def model_config(marian: MarianConfig) -> ModelConfig:
    """Return nmt's configuration of a Marian model. RunError if it is too large."""
    try:
        return ModelConfig.model_validate(model_values(marian))
    except ValidationError as error:
        raise RunError(error.errors()[0]["msg"].removeprefix("Value error, "), path="config.json") from None


def model_values(marian: MarianConfig) -> dict[str, Any]:
    """Return the section `model` of a configuration that computes what a Marian model computes."""
    tied = "none"  # nmt scales a tied embedding always
    if marian.tie_word_embeddings and marian.scale_embedding:
        tied = "all" if marian.share_encoder_decoder_embeddings else "target"
    return {
        "d_model": marian.d_model,
        "num_heads": marian.encoder_attention_heads,
        "d_ff": marian.encoder_ffn_dim,
        "encoder_layers": marian.encoder_layers,
        "decoder_layers": marian.decoder_layers,
        "positions": "sinusoidal",
        "norm_position": "post",
        "activation": ACTIVATIONS[marian.activation_function],
        "tied_embeddings": tied,
        "output_bias": True,
        "dropout": marian.dropout,
        "attention_dropout": marian.attention_dropout,
        "embedding_dropout": marian.dropout,
        "max_src_len": marian.max_position_embeddings,
        "max_tgt_len": marian.max_position_embeddings,
    }
