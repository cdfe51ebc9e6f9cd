"""The five sections of a configuration. Every default of the project is written here, once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from nmt.config.augment import AugmentConfig
from nmt.config.base import Count
from nmt.config.base import Section as Section
from nmt.config.corpora import ONE_CORPUS_OR_MORE, Corpora, LanguageCode, ParallelFiles, fault_of_symbol
from nmt.config.filters import Filters
from nmt.config.glossary import GlossaryConfig
from nmt.languages import Direction, is_variant

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
BatchTokens = Annotated[int, Field(ge=16, le=100_000_000)]
Weight = Annotated[float, Field(ge=0.0)]
Schedule = Literal["inverse_sqrt", "cosine", "linear", "wsd"]
LanguageTags = Literal["source", "both"]
NumLayers = Annotated[int, Field(ge=1, le=1000)]
MIN_COVERAGE = 0.98  # of characters; SentencePiece refuses less
MAX_PARAMETERS = 20_000_000_000  # of the layers of a model: 80 GB in fp32
MAX_BEAM_SIZE = 1000
MAX_LENGTH_PENALTY = 5.0  # 32,768 tokens to this power are still a number in fp32
MAX_LEN_FACTOR = 1000.0  # target tokens per source token
MAX_SEED = 2**31 - 1  # the largest that every library takes


class DataConfig(Section):
    """The parallel text and what is kept of it."""

    src_lang: LanguageCode = Field(description="code of the source language, such as de")
    tgt_lang: LanguageCode = Field(description="code of the target language; it also chooses sacreBLEU's tokenizer")
    train: Corpora = Field(description=ONE_CORPUS_OR_MORE)
    valid: Corpora | None = Field(None, description="null: held out of train")
    test: Corpora | None = Field(None, description="null: held out of train")
    holdout_size: Count = Field(
        500, description="source sentences held out for each of valid and test that is not named"
    )
    holdout_seed: int = Field(
        1, ge=0, lt=2**31, description="chooses the held-out sentences; training.seed has no influence on them"
    )
    on_too_long: Literal["truncate", "drop"] = Field(
        "truncate", description="what to do with pairs longer than model.max_src_len or model.max_tgt_len"
    )
    filters: Filters = Filters()
    protect: bool = Field(False, description="teach the model to copy placeholders for URLs, tags, {name}, %s")
    placeholder_share: Rate = Field(
        0.1, description="with protect: share of training pairs that get an extra copy with placeholders"
    )
    temperature: float = Field(
        1.0,
        ge=1.0,
        le=100.0,
        description="with several corpora: draw from a corpus of n pairs in proportion to n^(1/temperature); 1: by its "
        "size, 5: nearly as often from each; instead of weights",
    )
    augment: AugmentConfig = AugmentConfig()
    glossary: GlossaryConfig = GlossaryConfig()
    store_dir: str | None = Field(None, description="folder for the tokenized corpus; null: `.store` beside the run")

    def corpora(self, name: Literal["train", "valid", "test"]) -> tuple[ParallelFiles, ...]:
        """Return the corpora of one set, each with its languages; empty if the set is held out of train."""
        given: ParallelFiles | tuple[ParallelFiles, ...] | None = getattr(self, name)
        if given is None:
            return ()
        return tuple(
            files.model_copy(
                update={"src_lang": files.src_lang or self.src_lang, "tgt_lang": files.tgt_lang or self.tgt_lang}
            )
            for files in (given if isinstance(given, tuple) else (given,))
        )

    @model_validator(mode="after")
    def _weights_go_together(self) -> Self:
        weighted = [files.weight is not None for files in self.corpora("train")]
        if any(weighted) and not all(weighted):
            raise ValueError(
                f"{sum(weighted)} of the {len(weighted)} corpora of train have a weight; give one to all of them or to "
                "none"
            )
        if any(weighted) and self.temperature != 1.0:
            raise ValueError("the corpora of train have weights and temperature is not 1; choose one of the two")
        for name in ("valid", "test"):
            if any(files.weight is not None for files in self.corpora(name)):
                raise ValueError(f"a corpus of {name} has a weight; only those of train are weighted")
            if any(files.filters is not None for files in self.corpora(name)):
                raise ValueError(f"a corpus of {name} has filters; only those of train are filtered")
        return self

    @model_validator(mode="after")
    def _changed_once(self) -> Self:
        if (total := sum(self.augment.shares().values()) + self.glossary.share) > 1.0 + 1e-9:
            raise ValueError(
                f"the shares of augment and glossary add up to {total:g}; a pair is changed in one way at most, so at "
                "most to 1"
            )
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [files.name for files in self.corpora("train") if files.name is not None]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two corpora of train have the name {name}; each name stands for one")
        return self

    @model_validator(mode="after")
    def _languages_go_together(self) -> Self:
        sources, targets = (dict.fromkeys(codes) for codes in zip(*self.directions, strict=True))
        for name in ("valid", "test"):
            for direction in map(self.direction_of, self.corpora(name)):
                if direction.tgt not in targets or direction.src not in {**sources, **targets}:
                    raise ValueError(
                        f"a corpus of {name} translates from {direction.src} into {direction.tgt}; those of train "
                        f"hold {', '.join({**sources, **targets})}, and translate into {', '.join(targets)}"
                    )
        return self

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of the training corpora, each once, in their order."""
        return tuple(dict.fromkeys(map(self.direction_of, self.corpora("train"))))

    def direction_of(self, files: ParallelFiles) -> Direction:
        """Return the direction of a corpus: its own languages, else those of the section.

        A regional variant is the language of the section: with `tgt_lang: pt`, a corpus in pt-BR is one in pt.
        """
        pairs = (files.src_lang, self.src_lang), (files.tgt_lang, self.tgt_lang)
        src, tgt = (default if own is None or is_variant(own, default) else own for own, default in pairs)
        return Direction(src, tgt)

    def filters_of(self, files: ParallelFiles) -> Filters:
        """Return the filters of a training corpus: its own, else those of the section."""
        return self.filters if files.filters is None else files.filters

    def with_weights(self, weights: Sequence[float]) -> Self:
        """Return the same corpora with other weights, some of which may be 0."""
        corpora = zip(self.corpora("train"), weights, strict=True)
        train = tuple(files.model_copy(update={"weight": weight}) for files, weight in corpora)
        return self.model_copy(update={"train": train, "temperature": 1.0})

    def with_only(self, names: Collection[str]) -> Self:
        """Return the same corpora with a weight of 0 for those that are not named; the others keep their weights."""
        corpora = self.corpora("train")
        left_out = {"weight": 0.0}
        train = tuple(files if files.name in names else files.model_copy(update=left_out) for files in corpora)
        return self.model_copy(update={"train": train})


class SubwordRegularization(Section):
    """Random segmentations of the training pairs: Kudo 2018; for bpe BPE-dropout, Provilkov et al. 2020.

    Either drawn anew in every epoch (`per_epoch`), or a fixed number of them stored (`num_samples`).
    """

    per_epoch: bool = Field(False, description="draw a segmentation of each training pair anew in every epoch")

    num_samples: int = Field(
        1, ge=1, le=1000, description="segmentations stored per training pair: the most probable one, the rest drawn"
    )
    alpha: float = Field(
        0.2, gt=0.0, le=1.0, description="unigram: smoothing, less is more varied; bpe: dropout rate of merges"
    )

    @property
    def is_on(self) -> bool:
        """Return whether training sees drawn segmentations."""
        return self.per_epoch or self.num_samples > 1

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.per_epoch and self.num_samples > 1:
            raise ValueError("per_epoch draws anew in every epoch, so there is nothing to store: set num_samples to 1")
        return self


class TokenizerConfig(Section):
    """The tokenizers, which split text into tokens."""

    type: Literal["unigram", "bpe", "char", "word"] = Field("unigram", description="`word` has no byte fallback")
    vocab_size: int = Field(
        8000,
        ge=8,
        le=1_000_000,
        description="number of tokens (per language if not joint); reduced if the data supports fewer",
    )
    joint: bool = Field(True, description="one vocabulary for both languages")
    normalization: Literal["identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"] = Field(
        "identity", description="nmt_nfkc rewrites ，？！ to ASCII; *_cf folds case too"
    )
    character_coverage: float = Field(
        1.0,
        ge=MIN_COVERAGE,
        le=1.0,
        description="share of characters that get a token of their own; the rest are spelled as bytes",
    )
    user_symbols: tuple[str, ...] = Field((), description="symbols that are never split, such as <2de>")
    max_sentences: Count = Field(
        200_000, description="maximum number of sentences per language for training the tokenizer"
    )
    subword_regularization: SubwordRegularization = SubwordRegularization()
    path: str | None = Field(None, description="use the tokenizer in this folder (made by `nmt vocab`), train none")

    @field_validator("user_symbols")
    @classmethod
    def _not_reserved(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for symbol in value:
            if message := fault_of_symbol(symbol):
                raise ValueError(message)
        if len(set(value)) != len(value):
            raise ValueError("a symbol is named twice")
        return value

    @model_validator(mode="after")
    def _can_sample(self) -> Self:
        if self.subword_regularization.is_on and self.type in ("char", "word"):
            key, off = ("per_epoch", "false") if self.subword_regularization.per_epoch else ("num_samples", "1")
            raise ValueError(
                f"type {self.type} has one segmentation of a text; subword_regularization.{key} must be {off}"
            )
        return self


class ModelConfig(Section):
    """The Transformer encoder-decoder (Vaswani et al. 2017)."""

    d_model: int = Field(256, ge=1, le=16_384, description="width of the states between the layers")
    num_heads: Count = Field(4, description="attention heads; their number divides d_model")
    d_ff: int = Field(1024, ge=1, le=262_144, description="inner width of the feed-forward layers")
    encoder_layers: NumLayers = Field(3, description="layers of the encoder")
    decoder_layers: NumLayers = Field(3, description="layers of the decoder; they cost more in decoding")
    attention: Literal["scaled_dot_product", "additive", "gaussian"] = Field(
        "scaled_dot_product", description="how a query scores a key; the other two are slower, and for study"
    )
    positions: Literal["sinusoidal", "learned", "rotary"] = Field(
        "sinusoidal", description="how the model knows the position of a token"
    )
    norm_position: Literal["pre", "post"] = Field(
        "pre", description="norm before or after each sublayer; pre trains stably without tuning"
    )
    norm: Literal["layer", "rms"] = Field("layer", description="LayerNorm or RMSNorm")
    activation: Literal["relu", "gelu", "silu", "swiglu", "relu2"] = Field(
        "relu",
        description="of the feed-forward layers; swiglu has a gate, and half as many parameters again; relu2 is the "
        "square of relu",
    )
    qk_norm: bool = Field(False, description="an RMSNorm on the queries and keys of each attention head")
    tied_embeddings: Literal["none", "target", "all"] = Field(
        "all", description="target: the output projection shares the target embedding; all: the source embedding too"
    )
    output_bias: bool = Field(False, description="add a learned bias to each logit of the output projection")
    language_tags: LanguageTags = Field(
        "source",
        description="source: with several target languages, each source begins with the tag of the one that is meant; "
        "both: each source begins with the tag of its own language, and each target with that of its language, as in "
        "M2M-100",
    )
    dropout: Rate = Field(0.1, description="dropout rate on every residual branch and inside the feed-forward layers")
    attention_dropout: Rate = Field(0.0, description="dropout rate on attention weights")
    embedding_dropout: Rate = Field(0.1, description="dropout rate on the sum of embedding and position")
    max_src_len: int = Field(128, ge=2, le=32_768, description="longest source in tokens, eos included")
    max_tgt_len: int = Field(128, ge=2, le=32_768, description="longest target in tokens, eos included")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        projections = 4 * self.d_model * (self.encoder_layers + 2 * self.decoder_layers)
        feed_forward = (
            (3 if self.activation == "swiglu" else 2) * self.d_ff * (self.encoder_layers + self.decoder_layers)
        )
        if (num_parameters := self.d_model * (projections + feed_forward)) > MAX_PARAMETERS:
            raise ValueError(
                f"d_model {self.d_model}, d_ff {self.d_ff} and the numbers of layers make a model of "
                f"{num_parameters / 1e9:,.0f} billion parameters; at most {MAX_PARAMETERS / 1e9:.0f} are supported"
            )
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


def _ends_of(stages: object) -> list[int]:
    """Return the updates of each stage, as far as they have been written down rightly."""
    listed = stages if isinstance(stages, list | tuple) else ()
    counts = [stage.get("max_updates") if isinstance(stage, dict) else None for stage in listed]
    numbers = [count for count in counts if isinstance(count, int)]
    return numbers if len(numbers) == len(counts) else []


class Stage(Section):
    """One of the stages that follow each other in a training; what it does not name is as in `training` and `data`."""

    max_updates: Count = Field(description="updates of this stage")
    weights: tuple[Weight, ...] | None = Field(
        None, description="of the corpora of data.train, in their order; 0 leaves one out"
    )
    corpora: tuple[str, ...] | None = Field(
        None, min_length=1, description="names of the corpora of data.train to draw from; the others are left out"
    )
    lr: float | None = Field(None, gt=0.0, description="peak learning rate; the schedule begins anew in each stage")
    warmup_updates: int | None = Field(None, ge=0, description="updates of this stage until the peak")
    schedule: Schedule | None = Field(None, description="how the rate falls after its peak")
    label_smoothing: Rate | None = Field(None, description="probability that the loss spreads over all tokens")
    batch_tokens: BatchTokens | Literal["auto"] | None = Field(None, description="token budget per batch")
    tokens_per_update: int | None = Field(None, ge=0, le=100_000_000, description="target tokens per update")
    dropout: Rate | None = Field(None, description="model.dropout and model.embedding_dropout of this stage")
    draw_segmentations: bool | None = Field(
        None, description="false: none, although tokenizer.subword_regularization.per_epoch is true"
    )
    augment: bool | None = Field(None, description="false: change no pairs, although data.augment says so")
    reset_optimizer: bool = Field(False, description="begin with empty moments of AdamW")


class TrainingConfig(Section):
    """The teacher-forced training loop."""

    seed: int = Field(1, ge=0, le=MAX_SEED, description="seed of weights, dropout and data order")
    device: Literal["auto", "cuda", "mps", "cpu"] = Field("auto", description="auto: cuda, else mps, else cpu")
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        "auto",
        description="auto: fp32 or bf16, the faster in a short trial, recorded in the run; fp16: scaled losses, for "
        "CUDA devices without bf16",
    )
    compile: bool = Field(
        False, description="compile updates with torch.compile, which takes minutes; for long trainings on a GPU"
    )
    threads: int = Field(0, ge=0, le=1024, description="CPU threads; 0: one per core")
    batch_tokens: BatchTokens | Literal["auto"] = Field(
        4096,
        description="token budget per batch (sentences x longest side, padding included); "
        "auto: one batch per update, split into micro-batches that fit in memory",
    )
    tokens_per_update: int = Field(
        0,
        ge=0,
        le=100_000_000,
        description="target tokens per update, padding not counted; gradients are accumulated until it is reached",
    )
    max_updates: Count = Field(10_000, description="updates of the weights in all")
    max_minutes: float = Field(
        0.0,
        ge=0.0,
        le=1e7,
        description="minutes of updates after which training ends, and the schedule with it, if max_updates does not "
        "come first; 0: no limit",
    )
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="muon trains the matrices of the layers, and AdamW the rest; for large batches on a GPU"
    )
    lr: float = Field(1e-3, gt=0.0, description="peak learning rate")
    warmup_updates: int = Field(400, ge=0, description="updates during which the learning rate rises to its peak")
    schedule: Schedule = Field(
        "inverse_sqrt",
        description="how the rate falls after its peak; cosine and linear end at 0; wsd stays at the peak and falls "
        "to 0 at the end",
    )
    cooldown_share: float = Field(
        0.2, gt=0.0, le=1.0, description="with schedule wsd: share of all updates in which the rate falls, linearly"
    )
    betas: tuple[Rate, Rate] = Field((0.9, 0.98), description="betas of AdamW")
    eps: float = Field(1e-9, gt=0.0, description="epsilon of AdamW")
    weight_decay: float = Field(
        0.0, ge=0.0, description="weight decay, on matrices only: not on biases, norms and embeddings"
    )
    clip_norm: float = Field(1.0, ge=0.0, description="maximum norm of the gradient; 0: no clipping")
    label_smoothing: Rate = Field(0.1, description="probability that the loss spreads over all tokens")
    r_drop: float = Field(
        0.0,
        ge=0.0,
        le=1000.0,
        description="R-Drop: weight of the divergence between two passes with other dropout, such as 5; 0: one pass, "
        "which costs half",
    )
    ema: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="decay of a moving average of the weights, such as 0.999; it is what is validated, saved as "
        "checkpoints and translated with; 0: none",
    )
    zero_init: bool = Field(
        False, description="begin with zeros in the last projection of each sublayer, so that layers begin as identity"
    )
    log_every: Count = Field(50, description="updates per line of the log")
    tensorboard: bool = Field(
        False, description="write curves and samples for TensorBoard into the run (needs nmt-toolkit[tensorboard])"
    )
    validate_every: Count = Field(500, description="updates per validation; each writes a checkpoint")
    early_stopping_patience: int = Field(
        0, ge=0, description="stop after so many validations without a better score; 0: never stop early"
    )
    early_stopping_metric: Literal["bleu", "chrf", "loss"] = Field(
        "bleu", description="metric that chooses the best checkpoint"
    )
    keep_checkpoints: Count = Field(5, description="newest checkpoints to keep, in addition to the best")
    average_checkpoints: int = Field(5, ge=0, description="newest checkpoints to average at the end; 0 or 1: none")
    calibrate_length: bool = Field(
        False,
        description="at the end, shift the output bias of the tokens that end a sentence as far as makes greedy search "
        "best on the validation set; needs model.output_bias",
    )
    init_from: str | None = Field(None, description="run whose weights and tokenizer to start from (fine-tuning)")
    stages: tuple[Stage, ...] = Field(
        (), max_length=100, description="stages with settings of their own; max_updates is then the sum of theirs"
    )

    @model_validator(mode="before")
    @classmethod
    def _add_up_stages(cls, values: object) -> object:
        if not isinstance(values, dict) or "max_updates" in values:
            return values
        counts = _ends_of(values.get("stages"))
        return {**values, "max_updates": sum(counts)} if counts else values

    @property
    def num_passes(self) -> int:
        """The number of times that an update computes each of its pairs."""
        return 2 if self.r_drop else 1

    def of_stage(self, number: int) -> Self:
        """Return the settings of stage `number` (from 0) as those of a training of its own."""
        if not self.stages:
            return self
        own = {"weights", "corpora", "dropout", "draw_segmentations", "augment", "reset_optimizer"}
        named = self.stages[number].model_dump(exclude=own, exclude_none=True)
        return type(self).model_validate({**self.model_dump(), **named, "stages": ()})

    @model_validator(mode="after")
    def _stages_fit(self) -> Self:
        if self.stages and self.max_updates != (total := sum(stage.max_updates for stage in self.stages)):
            raise ValueError(f"max_updates is {self.max_updates}, but the stages add up to {total}; leave it out")
        for number in range(len(self.stages)):
            try:
                self.of_stage(number)
            except ValidationError as error:
                fault = error.errors()[0]["msg"].removeprefix("Value error, ")
                raise ValueError(f"stage {number + 1}: {fault}") from None
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.average_checkpoints > self.keep_checkpoints:
            raise ValueError(
                f"average_checkpoints {self.average_checkpoints} needs as many checkpoints; "
                f"keep_checkpoints is {self.keep_checkpoints}"
            )
        if self.calibrate_length and self.early_stopping_metric == "loss":
            raise ValueError("calibrate_length looks at translations; set early_stopping_metric to bleu or chrf")
        if self.max_minutes and self.stages:
            raise ValueError("max_minutes is not for stages, which name their updates; leave one of the two out")
        if self.batch_tokens == "auto" and self.tokens_per_update < 16:
            raise ValueError("batch_tokens auto makes one batch of tokens_per_update; set that, such as to 25000")
        if self.warmup_updates >= self.max_updates:
            raise ValueError(f"warmup_updates {self.warmup_updates} must be less than max_updates {self.max_updates}")
        return self


class SearchOptions(Section):
    """The search for a translation, and the steps before and after it; the same for every engine.

    Lengths are in target tokens. The longest output of a source of S tokens, end of sentence included, has
    `max_len_factor` x S + `max_len_offset` tokens, end of sentence included, and never more than `model.max_tgt_len`.
    Hypotheses are ranked by log P(Y) / |Y|^`length_penalty`, |Y| with end of sentence (Wu et al. 2016, section 7): 0
    ranks by probability, 1 by the mean log-probability per token. ValidationError (a ValueError) if options do not go
    together.
    """

    batch_tokens: BatchTokens = Field(4096, description="source tokens, padding included, decoded together")
    max_len_factor: float = Field(
        2.0, ge=0.0, le=MAX_LEN_FACTOR, description="maximum output length = factor x source tokens + max_len_offset"
    )
    max_len_offset: int = Field(10, ge=0, le=1_000_000, description="see max_len_factor")
    beam_size: int = Field(1, ge=1, le=MAX_BEAM_SIZE, description="beam size; 1 is greedy search")
    num_hypotheses: int = Field(
        1, ge=1, le=10_000, description="number of translations per input, best first, one per line"
    )
    length_penalty: float = Field(
        1.0, ge=0.0, le=MAX_LENGTH_PENALTY, description="rank hypotheses by log-probability / length^penalty"
    )
    exact: bool = Field(False, description="continue beam search until no unfinished hypothesis can still win")
    no_repeat_ngram: int = Field(
        0, ge=0, le=1_000_000, description="never generate an n-gram of this size twice; 0 allows repeats"
    )
    min_len: int = Field(0, ge=0, le=1_000_000, description="minimum output length in tokens")
    sample: bool = Field(False, description="sample translations instead of searching; `num_hypotheses` sets how many")
    temperature: float = Field(
        1.0, ge=0.01, le=100.0, description="with `sample`: values below 1 make the output more conservative"
    )
    top_k: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="with `sample`: draw from the K most probable tokens (Fan et al. 2018); 0: all",
    )
    top_p: float = Field(
        1.0,
        gt=0.0,
        le=1.0,
        description="with `sample`: draw from the smallest set of tokens whose probability reaches P "
        "(Holtzman et al. 2020)",
    )
    seed: int = Field(1, ge=0, le=MAX_SEED, description="with `sample`: seed of the random numbers")
    split: bool = Field(
        True, description="split inputs longer than the model's limit into sentences; else they are truncated"
    )
    protect: bool = Field(
        True,
        description="keep URLs, tags and placeholders such as {name} and %s unchanged, if the model was trained with "
        "data.protect",
    )
    shortlist: bool = Field(
        False,
        description="consider only the target tokens that the run's lexical shortlist has for each source; faster, "
        "but a rare word may be lost. Make the list with `nmt shortlist`",
    )
    retry_loops: bool = Field(True, description="decode outputs that repeat themselves once more, without repeats")
    rerank: Literal["none", "mbr-chrf"] = Field(
        "none",
        description="mbr-chrf: find `num_candidates` translations, and prefer those that are most like the others by "
        "chrF (minimum Bayes risk, Eikema and Aziz 2020); needs the extra mbr",
    )
    num_candidates: int = Field(
        16,
        ge=2,
        le=256,
        description="with `rerank`: translations to choose from, of a beam that is at least as wide, or samples",
    )

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if self.max_len_factor == 0 and self.max_len_offset == 0:
            raise ValueError("max_len_factor and max_len_offset are both 0, which leaves no room for an output")
        if self.sample and (self.beam_size > 1 or self.exact):
            raise ValueError("sampling and beam search exclude each other")
        if not self.sample and (self.top_k or self.top_p < 1 or self.temperature != 1):
            raise ValueError("temperature, top_k and top_p are for sampling")
        if not self.sample and self.rerank == "none" and self.num_hypotheses > self.beam_size:
            raise ValueError(f"{self.num_hypotheses} hypotheses need a beam of that size; it is {self.beam_size}")
        return self

    def changed(self, **changes: object) -> Self:
        """Return these options with `changes`, by field; ValidationError if they do not go together."""
        return type(self).model_validate({**self.model_dump(), **changes})

    def greedy(self) -> Self:
        """Return these options with greedy search: one hypothesis, no sampling."""
        sampling = {"sample": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        return self.changed(beam_size=1, num_hypotheses=1, exact=False, rerank="none", **sampling)

    def of_candidates(self) -> Self:
        """Return the options of the search for the candidates of `rerank`."""
        count = max(self.num_candidates, self.num_hypotheses)
        beam_size = self.beam_size if self.sample else max(self.beam_size, count)
        return self.changed(num_hypotheses=count, beam_size=beam_size, rerank="none")

    def max_len(self, src_len: int) -> int:
        """Return the longest output of a source of `src_len` tokens; both with end of sentence."""
        return max(1, int(self.max_len_factor * src_len) + self.max_len_offset)

    def normalized(self, score: float, length: int) -> float:
        """Return the value that ranks hypotheses: `score` (log-probability) of `length` tokens, eos counted."""
        return score / length**self.length_penalty


class Config(Section):
    """One training run, wholly described."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: SearchOptions = SearchOptions()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.model.tied_embeddings == "all" and not self.tokenizer.joint:
            raise ValueError(
                "model.tied_embeddings all shares one embedding between the languages, so "
                "tokenizer.joint must be true; "
                "with separate vocabularies use target"
            )
        if self.training.r_drop and not (
            self.model.dropout or self.model.attention_dropout or self.model.embedding_dropout
        ):
            raise ValueError(
                "training.r_drop compares two passes with other dropout; set model.dropout, such as to 0.3"
            )
        if self.training.calibrate_length and not self.model.output_bias:
            raise ValueError("training.calibrate_length shifts the output bias; set model.output_bias to true")
        if self.data.glossary.is_on and self.tokenizer.type == "word":
            raise ValueError("data.glossary needs a tokenizer that spells any word: tokenizer.type must not be word")
        if self.training.init_from and self.tokenizer.path:
            raise ValueError("training.init_from brings its own tokenizer; leave tokenizer.path out")
        return self

    @model_validator(mode="after")
    def _stages_name_corpora(self) -> Self:
        corpora = self.data.corpora("train")
        names = [files.name for files in corpora if files.name is not None]
        for number, stage in enumerate(self.training.stages, start=1):
            if stage.weights is not None and stage.corpora is not None:
                raise ValueError(f"training.stages: stage {number} has both weights and corpora; choose one of the two")
            if stage.weights is not None and (len(stage.weights) != len(corpora) or not sum(stage.weights)):
                raise ValueError(
                    f"training.stages: the weights of stage {number} must be {len(corpora)}, one for each corpus of "
                    "data.train, and not all 0"
                )
            if unknown := [name for name in stage.corpora or () if name not in names]:
                known = f"those with a name are {', '.join(names)}" if names else "none of them has a name"
                raise ValueError(
                    f"training.stages: stage {number} names the corpus {unknown[0]}; of data.train, {known}"
                )
        return self

    def of_stage(self, number: int) -> Self:
        """Return what stage `number` (from 0) is as a training of its own; without stages, this configuration."""
        if not self.training.stages:
            return self
        stage, data, model, tokenizer = self.training.stages[number], self.data, self.model, self.tokenizer
        if stage.weights is not None:
            data = data.with_weights(stage.weights)
        if stage.corpora is not None:
            data = data.with_only(stage.corpora)
        if stage.augment is False:
            data = data.model_copy(update={"augment": AugmentConfig()})
        if stage.dropout is not None:
            model = model.model_copy(update={"dropout": stage.dropout, "embedding_dropout": stage.dropout})
        if stage.draw_segmentations is False:
            usual = tokenizer.subword_regularization.model_copy(update={"per_epoch": False})
            tokenizer = tokenizer.model_copy(update={"subword_regularization": usual})
        changed = {"data": data, "model": model, "tokenizer": tokenizer, "training": self.training.of_stage(number)}
        return self.model_copy(update=changed)
