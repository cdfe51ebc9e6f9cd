"""The section `training`: updates, optimizer, validation and checkpoints."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from nmt.config.base import MAX_SEED, BatchTokens, Count, Portion, Rate, Section, TokensPerUpdate

Weight = Annotated[float, Field(ge=0.0)]
Schedule = Literal["inverse_sqrt", "cosine", "linear", "wsd", "constant"]


class Stage(Section):
    """One of the consecutive stages of a training run; omitted settings are those of `training` and `data`."""

    max_updates: Count = Field(description="number of updates in this stage")
    weights: tuple[Weight, ...] | None = Field(
        default=None, description="weights of the corpora of data.train, in order; 0 leaves one out"
    )
    lr: float | None = Field(
        default=None, gt=0.0, description="peak learning rate; the schedule restarts in each stage"
    )
    warmup_updates: int | None = Field(
        default=None, ge=0, description="updates in this stage until the peak learning rate"
    )
    schedule: Schedule | None = Field(default=None, description="how the learning rate falls after its peak")
    label_smoothing: Rate | None = Field(
        default=None, description="probability mass that the loss spreads over all tokens"
    )
    batch_tokens: BatchTokens | Literal["auto"] | None = Field(default=None, description="token budget per batch")
    tokens_per_update: TokensPerUpdate | None = Field(default=None, description="target tokens per update")
    dropout: Rate | None = Field(default=None, description="model.dropout and model.embedding_dropout in this stage")
    both_directions: bool | None = Field(default=None, description="training.both_directions in this stage")
    copy_targets: bool | None = Field(default=None, description="training.copy_targets in this stage")
    augment: bool | None = Field(default=None, description="false: change no pairs, even if data.augment does")


class TrainingConfig(Section):
    """The teacher-forced training loop."""

    seed: int = Field(
        default=1, ge=0, le=MAX_SEED, description="random seed of weights, dropout, data order and copies"
    )
    device: Literal["auto", "cuda", "mps", "cpu"] = Field(default="auto", description="auto: cuda, else mps, else cpu")
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        default="auto",
        description="auto: bf16 if a short trial shows that it is at least 1.2 times as fast, else fp32; recorded in "
        "the run; fp16: with loss scaling, for CUDA devices without bf16",
    )
    threads: int = Field(default=0, ge=0, le=1024, description="CPU threads, at most one per core; 0: one per core")
    batch_tokens: BatchTokens | Literal["auto"] = Field(
        default=4096,
        description="token budget per batch (sentences x longest side, padding included); "
        "auto: one batch per update, split into micro-batches that fit in memory",
    )
    tokens_per_update: TokensPerUpdate = Field(
        default=0,
        description="target tokens per update, padding not counted; gradients are accumulated until this is reached",
    )
    max_updates: Count = Field(default=10_000, description="total number of updates")
    max_minutes: float = Field(
        default=0.0,
        ge=0.0,
        le=1e7,
        description="minutes of updates after which training and its schedule end, unless max_updates comes first; "
        "if they do not suffice, the stages become shorter; 0: no limit",
    )
    lr: float = Field(default=1e-3, gt=0.0, description="peak learning rate")
    warmup_updates: int = Field(
        default=400, ge=0, description="updates during which the learning rate rises to its peak"
    )
    schedule: Schedule = Field(
        default="inverse_sqrt",
        description="how the learning rate falls after its peak; cosine and linear end at 0; wsd stays at the peak, "
        "then falls to 0 at the end; constant stays at the peak, for a stage before others",
    )
    cooldown_share: Portion = Field(
        default=0.2, description="with schedule wsd: share of the updates in which the rate falls, linearly"
    )
    betas: tuple[Rate, Rate] = Field(default=(0.9, 0.98), description="betas of AdamW")
    eps: float = Field(default=1e-9, gt=0.0, description="epsilon of AdamW")
    clip_norm: float = Field(default=1.0, ge=0.0, description="maximum gradient norm; 0: no clipping")
    label_smoothing: Rate = Field(default=0.1, description="probability mass that the loss spreads over all tokens")
    both_directions: bool = Field(
        default=False,
        description="swap the sides of half of the pairs in each epoch, and of the other half in the next; as the "
        "first of two stages, this makes a better model for one direction",
    )
    copy_targets: bool = Field(
        default=False,
        description="train on pairs of each target and itself; as the first of two stages, this teaches the decoder to "
        "look at its source, which a few thousand pairs hardly do",
    )
    lexical_start: bool = Field(
        default=False,
        description="start each source embedding at those of the target tokens that translate it according to IBM "
        "model 1, instead of at random; for a few thousand pairs, with copy_targets; init_from comes before it",
    )
    log_every: Count = Field(default=50, description="updates per log line")
    validate_every: Count = Field(
        default=500, description="updates between validations; each validation writes a checkpoint"
    )
    early_stopping_patience: int = Field(
        default=0, ge=0, description="stop after this many validations without a better score; 0: never stop early"
    )
    early_stopping_metric: Literal["bleu", "chrf", "loss"] = Field(
        default="bleu", description="metric that chooses the best checkpoint"
    )
    keep_checkpoints: Count = Field(
        default=5, description="number of newest checkpoints to keep, in addition to the best"
    )
    average_checkpoints: int = Field(
        default=5, ge=0, description="number of newest checkpoints to average at the end; 0 or 1: no averaging"
    )
    score_test: bool = Field(
        default=False,
        description="at the end, score the test set as nmt eval does, and add the scores to the model card",
    )
    init_from: str | None = Field(
        default=None, description="run whose weights and tokenizer to start from (fine-tuning)"
    )
    stages: tuple[Stage, ...] = Field(
        default=(),
        max_length=100,
        description="stages with their own settings; max_updates is then the sum over the stages",
    )

    @model_validator(mode="before")
    @classmethod
    def _add_up_stages(cls, values: object) -> object:
        if not isinstance(values, dict) or "max_updates" in values:
            return values
        try:
            counts = [Stage.model_validate(each).max_updates for each in values.get("stages") or ()]
        except (ValidationError, TypeError):  # of a stage, or of what is no list: their own validation reports it
            return values
        return {**values, "max_updates": sum(counts)} if counts else values

    def of_stage(self, number: int) -> Self:
        """Return the settings of stage `number` (from 0) alone."""
        if not self.stages:
            return self
        own = {"weights", "dropout", "augment"}
        named = self.stages[number].model_dump(exclude=own, exclude_none=True)
        return type(self).model_validate({**self.model_dump(), **named, "stages": ()})

    @model_validator(mode="after")
    def _stages_fit(self) -> Self:
        if self.stages and self.max_updates != (total := sum(stage.max_updates for stage in self.stages)):
            hint = "omit it and set max_updates of the stages, or omit the stages: --set 'training.stages=[]'"
            raise ValueError(f"max_updates is {self.max_updates}, but the stages add up to {total}; {hint}")
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
            few = f"keep_checkpoints is {self.keep_checkpoints}"
            raise ValueError(f"average_checkpoints {self.average_checkpoints} needs as many checkpoints, but {few}")
        if self.batch_tokens == "auto" and self.tokens_per_update < 16:
            raise ValueError("batch_tokens auto makes one batch of tokens_per_update; set it, such as to 25000")
        if self.warmup_updates >= self.max_updates:
            raise ValueError(f"warmup_updates {self.warmup_updates} must be less than max_updates {self.max_updates}")
        return self
