"""Write a run's model as a CTranslate2 model, built with CTranslate2's own specifications.

The layout follows `ctranslate2.specs` (the weights and their names) and what CTranslate2 does with the weights; equal
names mean the same in both. No other toolkit is involved.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt.apps.interop.export_folder import Quantization
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.model.attention import MultiHeadAttention
from nmt.model.layers import NORM_EPS, DecoderLayer, EncoderLayer, FeedForward
from nmt.model.transformer import Embedding, Transformer


def write_ctranslate2(
    model: Transformer, tokenizers: TokenizerPair, folder: Path, quantization: Quantization = "none"
) -> None:
    """Write model.bin, config.json and the vocabularies of `model` into the existing `folder`.

    The vocabularies list the tokens of `tokenizers` by id. CTranslate2 adds eos to each source.
    """
    spec = _make_spec(model)
    spec.register_source_vocabulary(tokenizers.src.vocabulary)
    spec.register_target_vocabulary(tokenizers.tgt.vocabulary)
    spec.config.layer_norm_epsilon = NORM_EPS[model.config.norm]
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(None if quantization == "none" else quantization)
    spec.save(str(folder))


def _make_spec(model: Transformer) -> Any:
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
    from ctranslate2.specs.common_spec import Activation
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

    config = model.config
    activations = {"relu": Activation.RELU, "gelu": Activation.GELU, "silu": Activation.SWISH}
    options = {
        "pre_norm": config.norm_position == "pre",
        "activation": activations.get(config.activation, Activation.SWISH),  # the gate of SwiGLU is a SiLU
        "ffn_glu": config.activation == "swiglu",
        "rms_norm": config.norm == "rms",
        # 0: all dimensions of a head. We rotate the first half of a head with the second, so not interleaved.
        "rotary_dim": 0 if config.positions == "rotary" else None,
        "rotary_interleave": False,
        "qk_norm": config.qk_norm == "self",
    }
    encoder = TransformerEncoderSpec(config.encoder_layers, config.num_heads, **options)
    # The attention to return: the mean over the heads of the last layer.
    decoder = TransformerDecoderSpec(
        config.decoder_layers, config.num_heads, alignment_layer=-1, alignment_heads=config.num_heads, **options
    )
    _set_embedding(encoder.embeddings[0], encoder, model.src_embedding)
    _set_embedding(decoder.embeddings, decoder, model.tgt_embedding)
    for made, encoder_layer in zip(encoder.layer, cast("list[EncoderLayer]", model.encoder_layers), strict=True):
        _set_layer(made, encoder_layer)
    for made, decoder_layer in zip(decoder.layer, cast("list[DecoderLayer]", model.decoder_layers), strict=True):
        _set_layer(made, decoder_layer)
        made.attention = MultiHeadAttentionSpec(rms_norm=options["rms_norm"])  # without norms of queries and keys
        _set_attention(made.attention, decoder_layer.cross_attention, decoder_layer.cross_residual.norm)
    if options["pre_norm"]:
        _set_norm(encoder.layer_norm, model.encoder_norm)
        _set_norm(decoder.layer_norm, model.decoder_norm)
    decoder.projection.weight = _array(model.output_proj.weight)
    if config.output_bias:
        decoder.projection.bias = _array(model.output_proj.bias)
    return TransformerSpec(encoder, decoder)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    # Copy, because CTranslate2 quantizes in place.
    return tensor.detach().float().cpu().numpy().copy()


def _set_embedding(embeddings: Any, stack: Any, embedding: Embedding) -> None:
    """Set the token table and, unless positions are rotary, their table; CTranslate2 scales by sqrt(D), as we do."""
    embeddings.weight = _array(embedding.tokens.weight)
    # Write the table: CTranslate2's own sinusoids have all sines before all cosines; ours alternate.
    table = embedding.sinusoidal if embedding.learned is None else embedding.learned.weight
    if table is not None:
        # One more row: CTranslate2 also scores eos after a target of maximum length, where we drop the score.
        stack.position_encodings.encodings = np.concatenate([_array(table), _array(table[-1:])])


def _set_norm(made: Any, norm: nn.Module) -> None:
    made.gamma = _array(norm.weight)  # type: ignore[arg-type]
    if isinstance(norm, nn.LayerNorm):
        made.beta = _array(norm.bias)


def _set_linear(made: Any, *parts: nn.Linear) -> None:
    """Concatenate `parts` into one linear layer."""
    made.weight = np.concatenate([_array(part.weight) for part in parts])
    made.bias = np.concatenate([_array(part.bias) for part in parts])


def _set_layer(made: Any, layer: EncoderLayer | DecoderLayer) -> None:
    """Set the variables that encoder and decoder layers share."""
    _set_attention(made.self_attention, layer.self_attention, layer.self_residual.norm)
    _set_feed_forward(made.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def _set_attention(made: Any, attention: MultiHeadAttention, norm: nn.Module) -> None:
    _set_norm(made.layer_norm, norm)
    query = attention.query_proj
    key_value = attention.key_value_proj
    output = attention.output_proj
    if len(made.linear) == 2:  # of self-attention
        _set_linear(made.linear[0], query, key_value)
    else:
        _set_linear(made.linear[0], query)
        _set_linear(made.linear[1], key_value)
    _set_linear(made.linear[-1], output)
    if attention.query_norm is not None and attention.key_norm is not None:
        _set_norm(made.q_norm, attention.query_norm)
        _set_norm(made.k_norm, attention.key_norm)


def _set_feed_forward(made: Any, feed_forward: FeedForward, norm: nn.Module) -> None:
    _set_norm(made.layer_norm, norm)
    _set_linear(made.linear_1, feed_forward.output_proj)
    if not feed_forward.gated:
        _set_linear(made.linear_0, feed_forward.input_proj)
        return
    weight = feed_forward.input_proj.weight.chunk(2)
    bias = feed_forward.input_proj.bias.chunk(2)
    # The activation applies to the first half of our outputs, not to the second.
    for linear, half_weight, half_bias in zip((made.linear_0, made.linear_0_noact), weight, bias, strict=True):
        linear.weight = _array(half_weight)
        linear.bias = _array(half_bias)
