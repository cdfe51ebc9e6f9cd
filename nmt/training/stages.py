"""The stages of a training: consecutive parts with their own data shares and settings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nmt.config import Config
from nmt.config.base import MAX_SEED


class StageSpan(NamedTuple):
    """A stage, which consists of the updates after `start` up to `end`."""

    number: int  # from 0
    start: int
    end: int
    config: Config  # the configuration of a training that consists of only this stage
    reset_optimizer: bool


def stage_spans(config: Config) -> list[StageSpan]:
    """Return the stages of a training, in order; a training without stages counts as one stage."""
    settings, spans, start = config.training, list[StageSpan](), 0
    if not settings.stages:
        return [StageSpan(0, 0, settings.max_updates, config, reset_optimizer=False)]
    for number, stage in enumerate(settings.stages):
        own = config.of_stage(number)
        training = own.training.model_copy(update={"seed": _data_seed(settings.seed, number)})
        end = start + stage.max_updates
        changed = own.model_copy(update={"training": training})
        spans.append(StageSpan(number, start, end, changed, stage.reset_optimizer))
        start = end
    return spans


def _data_seed(seed: int, number: int) -> int:
    """Return the seed for the data order of a stage, so that no stage repeats the order of another."""
    return seed if number == 0 else int(np.random.SeedSequence((seed, number)).generate_state(1)[0]) & MAX_SEED
