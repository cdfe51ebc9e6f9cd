"""The names and shapes of the parameters of a model with a given configuration. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from nmt.base.errors import RunError
from nmt.config.model import AttentionKind, ModelConfig

Shapes = dict[str, tuple[int, ...]]

VOCABULARIES = ("src_embedding.tokens.weight", "tgt_embedding.tokens.weight", "output_proj.weight")


def check_shapes(expected: Shapes, found: Shapes, path: Path) -> None:
    """Raise RunError unless the shapes `found` in the weights at `path` are the `expected` ones of the model."""
    for name in VOCABULARIES:
        ours = expected.get(name, ())
        theirs = found.get(name, ())
        if ours[1:] == theirs[1:] and ours[:1] != theirs[:1] and ours and theirs:
            raise RunError(
                f"the tokenizer has {ours[0]:,} tokens, and these weights were trained with {theirs[0]:,}",
                path=path,
                hint="tokenizer and weights of a run belong together; copy the whole run again",
            )
    odd = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if odd:
        raise _of_another_model(f"{odd[0]} and {len(odd) - 1} more differ", path)


def check_number_of_layers(config: ModelConfig, found: Shapes, path: Path) -> None:
    """Raise RunError if `config` has more layers than there are tensors in the weights at `path`."""
    num_layers = config.encoder_layers + config.decoder_layers
    if num_layers > len(found):
        raise _of_another_model(f"{num_layers:,} layers, but {len(found):,} tensors", path)


def _of_another_model(difference: str, path: Path) -> RunError:
    return RunError(
        f"these weights belong to another model: {difference}",
        path=path,
        hint="the model section of config.yaml must be the one the weights were trained with",
    )


def parameter_shapes(config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int) -> Shapes:
    """Return the shape of each parameter of `Transformer(config, …)`, by name; tied parameters are listed once."""
    d_model = config.d_model
    max_len = max(config.max_src_len, config.max_tgt_len)
    shapes: Shapes = {"src_embedding.tokens.weight": (src_vocab_size, d_model)}
    if config.tied_embeddings != "all":
        shapes["tgt_embedding.tokens.weight"] = (tgt_vocab_size, d_model)
    if config.tied_embeddings == "none":
        shapes["output_proj.weight"] = (tgt_vocab_size, d_model)
    if config.output_bias:
        shapes["output_proj.bias"] = (tgt_vocab_size,)
    if config.positions == "learned":
        shapes |= {f"{side}_embedding.learned.weight": (max_len, d_model) for side in ("src", "tgt")}
    for layer in range(config.encoder_layers):
        shapes |= _sublayers(config, f"encoder_layers.{layer}", ("self",))
    for layer in range(config.decoder_layers):
        shapes |= _sublayers(config, f"decoder_layers.{layer}", ("self", "cross"))
    if config.norm_position == "pre":
        shapes |= _norm(config, "encoder_norm") | _norm(config, "decoder_norm")
    return shapes


def _sublayers(config: ModelConfig, layer: str, attentions: tuple[AttentionKind, ...]) -> Shapes:
    d_model, d_ff = config.d_model, config.d_ff
    d_hidden = 2 * d_ff if config.activation == "swiglu" else d_ff
    shapes: Shapes = {}
    for name in attentions:
        shapes |= _linear(f"{layer}.{name}_attention.query_proj", d_model, d_model)
        shapes |= _linear(f"{layer}.{name}_attention.key_value_proj", d_model, 2 * d_model)
        shapes |= _linear(f"{layer}.{name}_attention.output_proj", d_model, d_model)
        if config.normalizes_heads(name):
            head_size = (d_model // config.num_heads,)
            shapes |= {f"{layer}.{name}_attention.{side}_norm.weight": head_size for side in ("query", "key")}
        shapes |= _score(config, f"{layer}.{name}_attention.score")
        shapes |= _norm(config, f"{layer}.{name}_residual.norm")
    shapes |= _linear(f"{layer}.feed_forward.input_proj", d_model, d_hidden)
    shapes |= _linear(f"{layer}.feed_forward.output_proj", d_ff, d_model)
    return shapes | _norm(config, f"{layer}.feed_forward_residual.norm")


def _score(config: ModelConfig, name: str) -> Shapes:
    if config.attention == "gaussian":
        return {f"{name}.width": ()}
    head_size = config.d_model // config.num_heads
    rows = {"query_proj": head_size, "key_proj": head_size, "score_proj": 1} if config.attention == "additive" else {}
    return {f"{name}.{projection}.weight": (number, head_size) for projection, number in rows.items()}


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(config: ModelConfig, name: str) -> Shapes:
    parameters = ("weight", "bias") if config.norm == "layer" else ("weight",)
    return {f"{name}.{parameter}": (config.d_model,) for parameter in parameters}
