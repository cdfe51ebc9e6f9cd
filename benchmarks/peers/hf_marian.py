"""The model of both Hugging Face programs: a MarianMTModel of the workload's size, randomly initialized."""

from __future__ import annotations

from typing import Any

from common import BOS, EOS, PAD
from transformers import MarianConfig, MarianMTModel


def make_marian(job: dict[str, Any], attention: str) -> MarianMTModel:
    """Build the model; `attention` is sdpa or eager. Marian is post-norm, with dropout in the same places as nmt."""
    config = MarianConfig(
        vocab_size=job["vocab_size"],
        d_model=job["d_model"],
        encoder_layers=job["layers"],
        decoder_layers=job["layers"],
        encoder_ffn_dim=job["d_ff"],
        decoder_ffn_dim=job["d_ff"],
        encoder_attention_heads=job["num_heads"],
        decoder_attention_heads=job["num_heads"],
        dropout=job["dropout"],
        activation_dropout=job["dropout"],
        attention_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        tie_word_embeddings=True,
        share_encoder_decoder_embeddings=True,
        max_position_embeddings=2048,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        attn_implementation=attention,
    )
    return MarianMTModel(config)
