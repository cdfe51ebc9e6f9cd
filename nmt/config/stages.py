"""The entries of `training.stages`: settings for one part of a training run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nmt.config.base import BatchTokens, Count, Rate, Section

Weight = Annotated[float, Field(ge=0.0)]
Schedule = Literal["inverse_sqrt", "cosine", "linear", "wsd", "constant"]


class Stage(Section):
    """One of the consecutive stages of a training run; omitted settings are those of `training` and `data`."""

    max_updates: Count = Field(description="number of updates in this stage")
    weights: tuple[Weight, ...] | None = Field(
        None, description="weights of the corpora of data.train, in order; 0 leaves one out"
    )
    corpora: tuple[str, ...] | None = Field(
        None, min_length=1, description="names of the corpora of data.train to draw from; the others are left out"
    )
    lr: float | None = Field(None, gt=0.0, description="peak learning rate; the schedule restarts in each stage")
    warmup_updates: int | None = Field(None, ge=0, description="updates in this stage until the peak learning rate")
    schedule: Schedule | None = Field(None, description="how the learning rate falls after its peak")
    label_smoothing: Rate | None = Field(None, description="probability mass that the loss spreads over all tokens")
    batch_tokens: BatchTokens | Literal["auto"] | None = Field(None, description="token budget per batch")
    tokens_per_update: int | None = Field(None, ge=0, le=100_000_000, description="target tokens per update")
    dropout: Rate | None = Field(None, description="model.dropout and model.embedding_dropout in this stage")
    draw_segmentations: bool | None = Field(
        None, description="false: draw none, even if tokenizer.subword_regularization.per_epoch is true"
    )
    both_directions: bool | None = Field(None, description="training.both_directions in this stage")
    augment: bool | None = Field(None, description="false: change no pairs, even if data.augment does")
    reset_optimizer: bool = Field(False, description="start without the moments of AdamW and Muon")
