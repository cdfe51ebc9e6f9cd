"""Write a run's model as a CTranslate2 model, built with CTranslate2's own specifications.

The layout follows `ctranslate2.specs` (the weights and their names) and what CTranslate2 does with the weights; equal
names mean the same in both. No other toolkit is involved.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nmt.apps.interop.export_folder import Quantization
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.model.layers import NORM_EPS
from nmt.model.transformer import Transformer

_THEIR_NAMES = {
    ".": "/",
    "src_embedding/tokens": "encoder/embeddings_0",
    "tgt_embedding/tokens": "decoder/embeddings",
    "_layers/": "/layer_",
    "encoder_norm": "encoder/layer_norm",
    "decoder_norm": "decoder/layer_norm",
    "query_norm": "q_norm",
    "key_norm": "k_norm",
    "self_residual/norm": "self_attention/layer_norm",
    "cross_residual/norm": "attention/layer_norm",
    "feed_forward_residual/norm": "ffn/layer_norm",
    "norm/weight": "norm/gamma",
    "norm/bias": "norm/beta",
    "query_proj": "linear_0",
    "self_attention/key_value_proj": "self_attention/linear_0",
    "self_attention/output_proj": "self_attention/linear_1",
    "cross_attention/key_value_proj": "cross_attention/linear_1",
    "cross_attention/output_proj": "cross_attention/linear_2",
    "cross_attention": "attention",
    "feed_forward/input_proj": "ffn/linear_0",
    "feed_forward/output_proj": "ffn/linear_1",
    "output_proj": "decoder/projection",
}
"""Parts of our names, with those of CTranslate2 that replace them, in this order. What gets one name is joined."""


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
    from ctranslate2.specs.model_spec import index_spec
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
    for layer in decoder.layer:
        layer.attention = MultiHeadAttentionSpec(rms_norm=options["rms_norm"])  # without norms of queries and keys
    spec = TransformerSpec(encoder, decoder)
    for name, parts in _tensors(model).items():
        layer, _, variable = name.rpartition("/")
        # Copied, because CTranslate2 quantizes in place.
        setattr(index_spec(spec, layer), variable, np.concatenate([part.float().cpu().numpy() for part in parts]))
    return spec


def _tensors(model: Transformer) -> dict[str, list[Tensor]]:
    """Return the parts of each tensor of CTranslate2's, by its name there."""
    found: defaultdict[str, list[Tensor]] = defaultdict(list)
    for name, tensor in model.state_dict().items():
        if ".learned." in name:
            continue
        for ours, theirs in _THEIR_NAMES.items():
            name = name.replace(ours, theirs)
        if model.config.activation == "swiglu" and "ffn/linear_0" in name:
            # The activation applies to the first half of our outputs, not to the second.
            tensor, second = tensor.chunk(2)
            found[name.replace("linear_0", "linear_0_noact")].append(second)
        found[name].append(tensor)
    for stack, embedding in (("encoder", model.src_embedding), ("decoder", model.tgt_embedding)):
        # The table: CTranslate2's own sinusoids have all sines before all cosines; ours alternate.
        table = embedding.sinusoidal if embedding.learned is None else embedding.learned.weight.detach()
        if table is not None:
            # One more row: CTranslate2 also scores eos after a target of maximum length, where we drop the score.
            found[f"{stack}/position_encodings/encodings"] = [table, table[-1:]]
    return found
