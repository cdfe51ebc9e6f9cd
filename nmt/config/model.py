"""The section `model`: sizes and variants of the Transformer's layers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nmt.config.base import Count, Rate, Section

LanguageTags = Literal["source", "both"]
AttentionKind = Literal["self", "cross"]
NumLayers = Annotated[int, Field(ge=1, le=1000)]
MAX_PARAMETERS = 20_000_000_000  # in the layers of a model: 80 GB in fp32


class ModelConfig(Section):
    """The Transformer encoder-decoder (Vaswani et al. 2017)."""

    d_model: int = Field(default=256, ge=1, le=16_384, description="width of the states between layers")
    num_heads: Count = Field(default=4, description="number of attention heads; must divide d_model")
    d_ff: int = Field(default=1024, ge=1, le=262_144, description="inner width of the feed-forward layers")
    encoder_layers: NumLayers = Field(default=3, description="number of encoder layers")
    decoder_layers: NumLayers = Field(
        default=3, description="number of decoder layers; they cost more when translating"
    )
    attention: Literal["scaled_dot_product", "additive", "gaussian"] = Field(
        default="scaled_dot_product",
        description="how queries score keys; additive and gaussian are slower, meant for study",
    )
    positions: Literal["sinusoidal", "learned", "rotary"] = Field(
        default="sinusoidal", description="how the model encodes the position of a token"
    )
    norm_position: Literal["pre", "post"] = Field(
        default="pre", description="norm before or after each sublayer; pre trains stably without tuning"
    )
    norm: Literal["layer", "rms"] = Field(default="layer", description="LayerNorm or RMSNorm")
    activation: Literal["relu", "gelu", "silu", "swiglu", "relu2"] = Field(
        default="relu",
        description="activation of the feed-forward layers; swiglu adds a gate, and 50% more parameters; relu2 is the "
        "square of relu",
    )
    qk_norm: Literal["self"] | bool = Field(
        default=False,
        description="apply RMSNorm to the queries and keys of each attention head; self: in self-attention only, which "
        "CTranslate2 supports",
    )
    tied_embeddings: Literal["none", "target", "all"] = Field(
        default="all",
        description="target: the output projection shares the target embedding; all: the source embedding too",
    )
    output_bias: bool = Field(default=False, description="add a learned bias to each logit of the output projection")
    language_tags: LanguageTags = Field(
        default="source",
        description="source: with several target languages, each source begins with the tag of its target language; "
        "both: each source and each target begins with the tag of its own language, as in M2M-100",
    )
    dropout: Rate = Field(
        default=0.1, description="dropout rate on every residual branch and inside the feed-forward layers"
    )
    attention_dropout: Rate = Field(default=0.0, description="dropout rate on attention weights")
    embedding_dropout: Rate = Field(default=0.1, description="dropout rate on the sum of embedding and position")
    max_src_len: int = Field(default=128, ge=2, le=32_768, description="maximum source length in tokens, eos included")
    max_tgt_len: int = Field(default=128, ge=2, le=32_768, description="maximum target length in tokens, eos included")

    def normalizes_heads(self, attention: AttentionKind) -> bool:
        """Return whether `qk_norm` applies to the self-attention or cross-attention of each layer."""
        return self.qk_norm is True or self.qk_norm == attention

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        projections = 4 * self.d_model * (self.encoder_layers + 2 * self.decoder_layers)
        num_matrices = 3 if self.activation == "swiglu" else 2
        feed_forward = num_matrices * self.d_ff * (self.encoder_layers + self.decoder_layers)
        if (num_parameters := self.d_model * (projections + feed_forward)) > MAX_PARAMETERS:
            size = f"{num_parameters / 1e9:,.0f} billion parameters; at most {MAX_PARAMETERS / 1e9:.0f} are supported"
            sizes = f"d_model {self.d_model}, d_ff {self.d_ff} and the numbers of layers"
            raise ValueError(f"{sizes} make a model of {size}")
        if self.d_model % self.num_heads:
            divisors = [number for number in range(1, self.d_model + 1) if self.d_model % number == 0]
            near = sorted(divisors, key=lambda number: abs(number - self.num_heads))[:2]
            fitting = " or ".join(map(str, sorted(near)))
            raise ValueError(f"num_heads {self.num_heads} does not divide d_model {self.d_model}; {fitting} would")
        if self.positions == "rotary" and self.attention != "scaled_dot_product":
            raise ValueError(f"rotary positions need dot products; {self.attention} attention has none")
        if self.positions == "rotary" and (head_size := self.d_model // self.num_heads) % 2:
            raise ValueError(f"rotary positions need an even head size; d_model / num_heads is {head_size}")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError("sinusoidal positions need an even d_model")
        return self
