"""The five sections of a configuration. Every default of the project is written here, once."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]
BatchTokens = Annotated[int, Field(ge=16)]
NumLayers = Annotated[int, Field(ge=1, le=1000)]
MIN_COVERAGE = 0.98  # of characters; SentencePiece refuses less


class Section(BaseModel):
    """What all sections share: unknown keys refused, values fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class ParallelFiles(Section):
    """Where parallel text lies: two aligned files (`src`, `tgt`), or one tab-separated file (`tsv`, `columns`).

    Paths are taken from the current directory; `$NAME`, `${NAME}` and `${NAME:-default}` are read from the
    environment. A name that ends in `.gz` is read as gzip.
    """

    src: str | None = None
    tgt: str | None = None
    tsv: str | None = None
    columns: tuple[Count, Count] = Field((1, 2), description="source and target column of the tsv, counted from 1")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        aligned = self.src is not None and self.tgt is not None
        if aligned == (self.tsv is not None) or (self.src is None) != (self.tgt is None):
            raise ValueError("name either src and tgt (two aligned files) or tsv (one tab-separated file)")
        if self.columns[0] == self.columns[1]:
            raise ValueError("columns must name two different columns")
        return self


class DataConfig(Section):
    """The parallel text and what is kept of it."""

    src_lang: str = Field(description="code of the source language, such as de")
    tgt_lang: str = Field(description="code of the target language; it also chooses sacreBLEU's tokenizer")
    train: ParallelFiles
    valid: ParallelFiles | None = Field(None, description="null: held out of train")
    test: ParallelFiles | None = Field(None, description="null: held out of train")
    holdout_size: Count = Field(
        500, description="source sentences held out for each of valid and test that is not named"
    )
    on_too_long: Literal["truncate", "drop"] = Field(
        "truncate", description="pairs over model.max_src_len, max_tgt_len"
    )
    protect: bool = Field(False, description="teach the model to copy placeholders for URLs, tags, {name}, %s")
    placeholder_share: Rate = Field(0.1, description="with protect: copies of pairs with placeholders put in, a pair")
    store_dir: str | None = Field(None, description="where tokenized corpora are kept; null: `.store` beside the run")

    @field_validator("src_lang", "tgt_lang")
    @classmethod
    def _language_code(cls, value: str) -> str:
        if not value.replace("-", "").replace("_", "").isalnum():
            raise ValueError("a language code, such as de, zh or pt-BR")
        return value


class TokenizerConfig(Section):
    """How text becomes tokens."""

    type: Literal["unigram", "bpe", "char", "word"] = Field("unigram", description="`word` has no byte fallback")
    vocab_size: int = Field(8000, ge=8, description="tokens asked for (each side, if not joint); clamped to the data")
    joint: bool = Field(True, description="one vocabulary for both languages")
    normalization: Literal["identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"] = Field(
        "identity", description="nmt_nfkc rewrites ，？！ to ASCII; *_cf folds case too"
    )
    character_coverage: float = Field(
        1.0, ge=MIN_COVERAGE, le=1.0, description="share of characters with a token; the rest are spelled in bytes"
    )
    user_symbols: tuple[str, ...] = Field((), description="symbols that are never split, such as <2de>")
    max_sentences: Count = Field(2_000_000, description="sentences a side, at most, that the tokenizer is trained on")
    samples: int = Field(
        1, ge=1, le=1000, description="segmentations of a training pair; the first is the usual one, the rest are drawn"
    )
    sampling_alpha: float = Field(
        0.2, gt=0.0, le=1.0, description="of drawn ones. unigram: less is more varied; bpe: share of merges left out"
    )
    path: str | None = Field(None, description="use the tokenizer in this folder (made by `nmt vocab`), train none")

    @field_validator("user_symbols")
    @classmethod
    def _not_reserved(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for symbol in value:
            byte_token = len(symbol) == 6 and symbol.startswith("<0x") and symbol.endswith(">")
            if symbol in {"<unk>", "<pad>", "<s>", "</s>"} or byte_token:
                raise ValueError(f"{symbol} is reserved; choose another name")
            if not symbol or any(c.isspace() or c in "▁," for c in symbol):
                raise ValueError(f"{symbol!r}: a symbol is not empty and holds no white space, comma or ▁")
        if len(set(value)) != len(value):
            raise ValueError("a symbol is named twice")
        return value

    @model_validator(mode="after")
    def _can_sample(self) -> Self:
        if self.samples > 1 and self.type in ("char", "word"):
            raise ValueError(f"type {self.type} has one segmentation of a text; samples must be 1")
        return self


class ModelConfig(Section):
    """The Transformer encoder-decoder (Vaswani et al. 2017)."""

    d_model: int = Field(256, ge=1, le=65_536)
    num_heads: Count = Field(4, description="attention heads; they divide d_model")
    d_ff: int = Field(1024, ge=1, le=1_048_576, description="width inside the feed-forward layers")
    encoder_layers: NumLayers = 3
    decoder_layers: NumLayers = 3
    attention: Literal["scaled_dot_product", "additive", "gaussian"] = "scaled_dot_product"
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    norm_position: Literal["pre", "post"] = Field("pre", description="pre-norm trains stably without tuning")
    norm: Literal["layer", "rms"] = "layer"
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    tied_embeddings: Literal["none", "target", "all"] = Field(
        "all", description="target: output projection = target embedding; all: source embedding too"
    )
    dropout: Rate = Field(0.1, description="on every residual branch and inside the feed-forward layers")
    attention_dropout: Rate = Field(0.0, description="on attention weights")
    embedding_dropout: Rate = Field(0.1, description="on the sum of embedding and position")
    max_src_len: int = Field(128, ge=2, le=32_768, description="longest source in tokens, eos included")
    max_tgt_len: int = Field(128, ge=2, le=32_768, description="longest target in tokens, eos included")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.d_model % self.num_heads:
            fits = [n for n in range(1, self.d_model + 1) if self.d_model % n == 0]
            near = sorted(sorted(fits, key=lambda n: abs(n - self.num_heads))[:2])
            raise ValueError(
                f"num_heads {self.num_heads} does not divide d_model {self.d_model}; {near[0]} or {near[-1]} would"
            )
        if self.positions == "rotary" and self.attention != "scaled_dot_product":
            raise ValueError(f"rotary positions act on dot products; {self.attention} attention has none")
        if self.positions == "rotary" and (self.d_model // self.num_heads) % 2:
            raise ValueError(
                f"rotary positions need an even head size; d_model / num_heads is {self.d_model // self.num_heads}"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError("sinusoidal positions need an even d_model")
        return self


class TrainingConfig(Section):
    """The teacher-forced training loop."""

    seed: int = Field(1, ge=0, lt=2**31, description="of weights, dropout, data order and hold-out")
    device: Literal["auto", "cuda", "mps", "cpu"] = Field("auto", description="auto: cuda, else mps, else cpu")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: the faster one in a short trial; printed and kept"
    )
    compile: bool = Field(
        False, description="compile updates by torch.compile, which takes minutes; for long trainings on a GPU"
    )
    threads: int = Field(0, ge=0, description="CPU threads; 0: one per core")
    batch_tokens: BatchTokens | Literal["auto"] = Field(
        4096,
        description="sentences x longest side, padding included, in one batch; "
        "auto: an update, split into micro-batches that fit in memory",
    )
    tokens_per_update: int = Field(
        0, ge=0, description="real target tokens an update; batches are added up to reach it"
    )
    max_updates: Count = 10_000
    lr: float = Field(1e-3, gt=0.0, description="peak learning rate")
    warmup_updates: int = Field(400, ge=0, description="updates in which the rate rises to its peak")
    schedule: Literal["inverse_sqrt", "cosine", "linear"] = "inverse_sqrt"
    betas: tuple[Rate, Rate] = Field((0.9, 0.98), description="of AdamW")
    eps: float = Field(1e-9, gt=0.0, description="of AdamW")
    weight_decay: float = Field(0.0, ge=0.0, description="AdamW; on matrices, not on biases, norms and embeddings")
    clip_norm: float = Field(1.0, ge=0.0, description="largest norm of the gradient; 0: no clipping")
    label_smoothing: Rate = Field(0.1, description="share of the target spread over all tokens")
    log_every: Count = Field(50, description="updates between two lines of the log")
    validate_every: Count = Field(500, description="updates between two validations, each with a checkpoint")
    early_stopping_patience: int = Field(
        0, ge=0, description="validations without a better score before stopping; 0: never stop early"
    )
    early_stopping_metric: Literal["bleu", "chrf", "loss"] = Field(
        "bleu", description="what the best checkpoint is chosen by"
    )
    keep_checkpoints: Count = Field(5, description="newest checkpoints kept, beside the best")
    average_checkpoints: int = Field(5, ge=0, description="checkpoints averaged at the end; 0 or 1: none")
    init_from: str | None = Field(None, description="run whose weights and tokenizer to continue from (fine-tuning)")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.average_checkpoints > self.keep_checkpoints:
            raise ValueError(
                f"average_checkpoints {self.average_checkpoints} needs as many checkpoints; "
                f"keep_checkpoints is {self.keep_checkpoints}"
            )
        if self.batch_tokens == "auto" and self.tokens_per_update < 16:
            raise ValueError("batch_tokens auto makes one batch of tokens_per_update; set that, such as to 25000")
        if self.warmup_updates >= self.max_updates:
            raise ValueError(f"warmup_updates {self.warmup_updates} must be less than max_updates {self.max_updates}")
        return self


class DecodingConfig(Section):
    """How translations are searched for."""

    batch_tokens: int = Field(4096, ge=16, description="source tokens, padding included, decoded together")
    max_len_factor: float = Field(2.0, gt=0.0, description="longest output = factor x source tokens + offset")
    max_len_offset: int = Field(10, ge=1, description="see max_len_factor")
    beam_size: Count = Field(1, description="hypotheses kept at every step; 1: greedy")
    length_penalty: float = Field(1.0, ge=0.0, description="hypotheses are ranked by log-probability / tokens^penalty")
    exact: bool = Field(False, description="run the beam until no better hypothesis can come")
    no_repeat_ngram: int = Field(0, ge=0, description="no n-gram of so many tokens comes twice; 0: any may")
    min_len: int = Field(0, ge=0, description="fewest tokens of an output")


class Config(Section):
    """One training run, wholly described."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.model.tied_embeddings == "all" and not self.tokenizer.joint:
            raise ValueError(
                "model.tied_embeddings all shares one embedding between the languages, so "
                "tokenizer.joint must be true; "
                "with separate vocabularies use target"
            )
        if self.training.init_from and self.tokenizer.path:
            raise ValueError("training.init_from brings its own tokenizer; leave tokenizer.path out")
        return self
