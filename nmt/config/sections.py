"""A complete configuration: its five sections, and the constraints between them."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from nmt.config.base import Section
from nmt.config.data import AugmentConfig, DataConfig
from nmt.config.model import ModelConfig
from nmt.config.search import SearchOptions
from nmt.config.tokenizer import TokenizerConfig
from nmt.config.training import TrainingConfig


class Config(Section):
    """The complete configuration of a training run."""

    data: DataConfig
    tokenizer: TokenizerConfig = Field(default_factory=TokenizerConfig)
    model: ModelConfig = Field(default_factory=ModelConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    decoding: SearchOptions = Field(default_factory=SearchOptions)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.model.tied_embeddings == "all" and not self.tokenizer.joint:
            reason = "model.tied_embeddings all shares one embedding between the languages"
            raise ValueError(f"{reason}, so tokenizer.joint must be true; with separate vocabularies use target")
        if self.training.lexical_start and self.model.tied_embeddings == "all":
            raise ValueError("training.lexical_start needs source embeddings: set model.tied_embeddings to target")
        if self.training.init_from and self.tokenizer.path:
            raise ValueError("training.init_from uses its run's tokenizer; omit tokenizer.path")
        return self

    @model_validator(mode="after")
    def _stages_weigh_each_corpus(self) -> Self:
        num_corpora = len(self.data.corpora("train"))
        for number, stage in enumerate(self.training.stages, start=1):
            if stage.weights is not None and (len(stage.weights) != num_corpora or not sum(stage.weights)):
                need = f"{num_corpora} weights, one per corpus of data.train, and not all 0"
                raise ValueError(f"training.stages: stage {number} must have {need}")
        return self

    @model_validator(mode="after")
    def _stages_have_effect(self) -> Self:
        for number, stage in enumerate(self.training.stages, start=1):
            if stage.augment and not self.data.augment.is_on:
                fault = "augment true changes no pairs; set shares in data.augment, or omit augment"
                raise ValueError(f"training.stages: stage {number}: {fault}")
        return self

    @model_validator(mode="after")
    def _each_stage_fits(self) -> Self:
        for number in range(max(1, len(self.training.stages))):
            config = self.of_stage(number)
            stage = f"training.stages: stage {number + 1}" if self.training.stages else ""
            for key, effect in (("both_directions", "swaps source and target"), ("copy_targets", "copies targets")):
                if getattr(config.training, key) and (reason := config._why_targets_are_no_sources(key)):
                    raise ValueError(f"{stage or 'training'}: {key} {effect}, so {reason}")
        return self

    def _why_targets_are_no_sources(self, key: str) -> str:
        """Return why targets cannot serve as sources for `key`; empty if they can."""
        if not self.tokenizer.joint:
            return "tokenizer.joint must be true"
        if len(self.data.directions) > 1 and (key == "both_directions" or self.model.language_tags == "both"):
            return "all corpora must have the same languages"
        if any(files.tag for files in self.data.corpora("train") if files.weight != 0.0):
            return "no corpus of the stage may have a tag, or it would become part of a target"
        if self.data.augment.is_on:
            return "data.augment must be off, or its faults would become targets; set augment: false in the stage"
        return ""

    def of_stage(self, number: int) -> Self:
        """Return the configuration of stage `number` (from 0) alone; without stages, return this configuration."""
        if not self.training.stages:
            return self
        stage = self.training.stages[number]
        data = self.data
        model = self.model
        if stage.weights is not None:
            data = data.with_weights(stage.weights)
        if stage.augment is False:
            data = data.model_copy(update={"augment": AugmentConfig()})
        if stage.dropout is not None:
            model = model.model_copy(update={"dropout": stage.dropout, "embedding_dropout": stage.dropout})
        changed = {"data": data, "model": model, "training": self.training.of_stage(number)}
        return self.model_copy(update=changed)
