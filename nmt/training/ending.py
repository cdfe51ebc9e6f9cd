"""When a training ends: after its updates, when early stopping loses patience, or after `training.max_minutes`.

With `max_minutes`, each line of the log plans the update that can be reached in that time, at the speed so far. The
learning-rate schedule ends there too, and stages become shorter in proportion. Every rank must call these functions
after the same update.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import accumulate

from nmt.base.errors import counted
from nmt.config import Config, TrainingConfig
from nmt.training.parts import Training
from nmt.training.stages import StageSpan, stage_lengths, stage_spans
from nmt.training.update.optimizer import learning_rate

log = logging.getLogger(__name__)

_JUMP = 1.5  # times the rate before: much more than any schedule rises by in one update after its warmup


def has_ended(training: Training) -> bool:
    """Return whether no updates are left: there have been all of them, or early stopping has run out of patience."""
    patience = training.settings.early_stopping_patience
    is_out_of_patience = training.is_last_stage and 0 < patience <= training.history.validations_since_best
    return training.update >= training.end or is_out_of_patience


def log_end(training: Training, num_updates: int) -> None:
    """Log in rank 0 why training ends after these `num_updates`, unless it has just had all of its updates."""
    settings = training.settings
    if not training.setup.group.is_main:
        return
    if training.update < training.end:
        tries = counted(training.history.validations_since_best, "validation")
        reason = f"{tries} without a better score"
        remedy = "raise training.early_stopping_patience"
    elif settings.max_minutes and training.end < _unlimited_end(settings, _finished_ends(training)):
        reason = f"training.max_minutes ran out after update {training.update:,}"
        remedy = "raise training.max_minutes" + ", which counts those of the whole run," * (not num_updates)
        if not training.is_last_stage:
            reason += f", in stage {training.stage_number} of {len(training.stages)}"
    elif num_updates:
        return
    elif not training.run.card.exists():
        log.info("no updates are left; finishing the run")
        return
    else:
        reason = f"the run has had all of its {training.end:,} updates"
        remedy = "append a stage" if settings.stages else "raise training.max_updates"
    end = "training ends early" if num_updates else "no updates are left"
    log.info(f"{end}: {reason}; {remedy} to continue it with --resume")


def check_time(training: Training) -> None:
    """End training now if a rank has spent `training.max_minutes` on updates."""
    seconds = 60 * training.settings.max_minutes
    if not seconds or not training.setup.group.any(training.monitor.train_seconds >= seconds):
        return
    if training.plan is None and training.setup.group.is_main:
        effect = "the schedule could not be planned, and the learning rate has not fallen as it should"
        log.warning(f"time ran out before the first line of the log, so {effect}; lower training.log_every")
    plan_end(training)


def plan_end(training: Training, *, anew: bool = False) -> None:
    """With `training.max_minutes`, plan to end at the update that can be reached in that time.

    The first plan, and one made `anew` for other limits, warns of a warmup that does not end.
    """
    settings = training.settings
    update = training.update
    if not settings.max_minutes:
        return
    finished = _finished_ends(training)
    share = training.monitor.train_seconds / (60 * settings.max_minutes)
    expected = update if share >= 1 else min(_unlimited_end(settings, finished), round(update / max(share, 1e-9)))
    last = training.setup.group.gather(max(update, expected))[0]
    is_first = anew or training.plan is None
    training.follow(planned_ends(settings, finished, update, last))
    if is_first and training.setup.group.is_main:
        _warn_of_warmup(training)


def resume_plan(training: Training, old: Config) -> None:
    """Follow the plan of a resumed state; if the limits have changed since, keep only the ends of finished stages.

    Warn if the learning rate jumps, because its schedule ends later than with the `old` configuration.
    """
    ends = training.plan.ends if training.plan else ()
    before = _rate(stage_spans(old, ends)[training.stage.number], training.update)
    _plan_anew(training)
    own = training.stage.config.training
    after = _rate(training.stage, training.update + 1)
    is_in_warmup = training.update - training.stage.start <= own.warmup_updates
    goes_on = training.update < training.stage.end and training.setup.group.is_main
    if goes_on and after > _JUMP * before and not is_in_warmup:
        log.warning(
            f"the learning rate jumps from {before:.2g} to {after:.2g}, {after / own.lr:.0%} of its peak: its schedule "
            "had come further, and now ends later. The loss will rise at first; to go on without a jump, start a run "
            "with training.init_from and a lower training.lr"
        )


def _rate(stage: StageSpan, update: int) -> float:
    return learning_rate(stage.config.training, update - stage.start)


def _plan_anew(training: Training) -> None:
    """Follow the plan of the state, or make another one if there is none or the limits have changed."""
    plan = training.plan
    settings = training.settings
    number = training.stage.number
    if plan is None:
        if training.update:  # the limit may be new; the time so far shows the speed
            plan_end(training)
        return
    if (plan.lengths, plan.max_minutes) == (stage_lengths(settings), settings.max_minutes):
        training.follow(plan.ends)
        return
    if training.update == plan.ends[number] and not training.is_last_stage:
        num_updates = training.update - (plan.ends[number - 1] if number else 0)
        # The present stage is finished, unless it ended because the time was over.
        number += plan.ends[number] < plan.ends[-1] or num_updates >= stage_lengths(settings)[number]
    finished = plan.ends[:number]
    last = max(training.update, _unlimited_end(settings, finished))
    training.follow(planned_ends(settings, finished, training.update, last))
    plan_end(training, anew=True)


def planned_ends(settings: TrainingConfig, finished: Sequence[int], update: int, last: int) -> list[int]:
    """Return the updates after which the stages end if training, now after `update`, is to end after `last`.

    The stages that have `finished`, after these updates, keep their ends. The others share the remaining updates in
    proportion to their `max_updates`, but each gets at least one; if none remain, they all end now.
    """
    start = finished[-1] if finished else 0
    sums = list(accumulate(stage_lengths(settings)[len(finished) :]))
    ends = list(finished)
    for total in sums:
        earliest = max([update, *ends[-1:]]) + 1 if last > update else update
        ends.append(max(earliest, start + round((last - start) * total / sums[-1])))
    return ends


def _finished_ends(training: Training) -> list[int]:
    """Return the updates after which the finished stages ended."""
    is_finished = training.update == training.stage.end and not training.is_last_stage
    return [stage.end for stage in training.stages[: training.stage.number + is_finished]]


def _unlimited_end(settings: TrainingConfig, finished: Sequence[int]) -> int:
    """Return the update after which training ends if the stages that are not `finished` have all their updates."""
    return sum(stage_lengths(settings)[len(finished) :], start=finished[-1] if finished else 0)


def _warn_of_warmup(training: Training) -> None:
    """Warn of the first stage that will end before its warmup."""
    for stage in training.stages[training.stage.number :]:
        own = stage.config.training
        if own.max_updates <= own.warmup_updates:
            of_stage = f" of stage {stage.number + 1}" if training.settings.stages else ""
            log.warning(
                f"{training.settings.max_minutes:g} minutes are enough for about {own.max_updates} updates{of_stage}, "
                f"but training.warmup_updates is {own.warmup_updates}: the learning rate will not reach its peak"
            )
            return
