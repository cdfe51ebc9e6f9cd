"""The stages of a training: consecutive parts with their own data shares and settings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from nmt.config import Config, TrainingConfig
from nmt.config.base import MAX_SEED


class StageSpan(NamedTuple):
    """A stage, which consists of the updates after `start` up to `end`."""

    number: int  # from 0
    start: int
    end: int
    config: Config  # the configuration of a training that consists of only this stage


def stage_spans(config: Config, ends: Sequence[int] = ()) -> list[StageSpan]:
    """Return the stages of a training, in order; a training without stages counts as one stage.

    `ends`: the updates after which the stages end, as planned for `training.max_minutes`, instead of those configured.
    """
    settings = config.training
    start = 0
    spans: list[StageSpan] = []
    for number, end in enumerate(ends or accumulate(stage_lengths(settings))):
        own = config.of_stage(number)
        # A seed of its own, so that no stage repeats the data order of another.
        drawn = int(np.random.SeedSequence((settings.seed, number)).generate_state(1)[0]) & MAX_SEED
        changes = {"seed": drawn if number else settings.seed, "max_updates": max(1, end - start)}
        changed = own.model_copy(update={"training": own.training.model_copy(update=changes)})
        spans.append(StageSpan(number, start, end, changed))
        start = end
    return spans


def stage_lengths(settings: TrainingConfig) -> tuple[int, ...]:
    """Return the configured number of updates of each stage."""
    return tuple(stage.max_updates for stage in settings.stages) or (settings.max_updates,)
