"""The teacher-forced training loop."""

from __future__ import annotations

import logging
from collections.abc import Callable

from nmt.base.errors import counted
from nmt.training.checkpoints import checkpoint_name
from nmt.training.final_weights import score_and_write, write_average, write_calibrated
from nmt.training.interrupt import Interrupt
from nmt.training.parts import Training
from nmt.training.preflight import fit_into_memory

log = logging.getLogger(__name__)


def train(training: Training, interrupt: Interrupt) -> bool:
    """Train to the end or until `interrupt`, and save the state; return whether the end was reached.

    Each update gathers batches, computes gradients and changes the weights. Some updates end with a log line or a
    checkpoint.
    """
    settings, start = training.settings, training.update
    with training.monitor.showing_progress(training.update, training.end):
        while not has_ended(training):
            if training.update == training.stage.end:
                training.enter_next_stage()
                fit_into_memory(training)
            _train_one_update(training)
            if training.is_out_of_time:
                training.warn_if_unplanned()
                training.plan_end()
            at_end = training.update == training.stage.end
            if training.update % settings.log_every == 0 or at_end:
                _log(training)
                if not at_end:
                    training.plan_end()
            if training.update % settings.validate_every == 0 or (at_end and not training.is_last_stage):
                _checkpoint(training)
            if _is_requested(interrupt, training):
                training.save()
                return False
        if training.update > start:
            log_end(training, training.update - start)
        if training.history.last != checkpoint_name(training.update):
            _checkpoint(training)
        return _finish(training, lambda: _is_requested(interrupt, training))


def _finish(training: Training, should_stop: Callable[[], bool]) -> bool:
    """Derive the final weights; return whether that was finished. The state is already saved."""
    if should_stop():
        return False
    write_average(training)
    if should_stop():
        return False
    if training.settings.calibrate_length:
        write_calibrated(training, should_stop)
    return not should_stop()


def _is_requested(interrupt: Interrupt, training: Training) -> bool:
    """Return True in every rank if one rank was asked to stop."""
    return training.setup.group.any(bool(interrupt.requested))


def log_end(training: Training, num_updates: int) -> None:
    """Log in rank 0 why training ends after these `num_updates`, unless it has just had all of its updates."""
    if not training.setup.group.is_main:
        return
    if training.update < training.end:
        tries = counted(training.history.validations_since_best, "validation")
        reason, remedy = f"{tries} without a better score", "raise training.early_stopping_patience"
    elif training.is_shortened:
        reason, remedy = f"training.max_minutes ran out after update {training.update:,}", "raise training.max_minutes"
        if not training.is_last_stage:
            reason += f", in stage {training.stage.number + 1} of {len(training.stages)}"
    elif num_updates:
        return
    elif not training.run.card.exists():
        log.info("no updates are left; finishing the run")
        return
    else:
        reason = f"the run has had all of its {training.end:,} updates"
        remedy = "append a stage" if training.settings.stages else "raise training.max_updates"
    end = "training ends early" if num_updates else "no updates are left"
    log.info(f"{end}: {reason}; {remedy} to continue it with --resume")


def _train_one_update(training: Training) -> None:
    training.update += 1
    with training.monitor.timing():
        data = training.batches.next_update()
        update_of_stage = training.update - training.stage.start
        loss_sum, norm = training.step(data.batches, data.num_tokens, update_of_stage)
        if training.ema is not None:
            training.ema.add(training.update)
        training.monitor.count(training.update, data, loss_sum, norm)


def has_ended(training: Training) -> bool:
    """Return whether no updates are left: there have been all of them, or early stopping has run out of patience."""
    patience = training.settings.early_stopping_patience
    is_out_of_patience = training.is_last_stage and 0 < patience <= training.history.validations_since_best
    return training.update >= training.end or is_out_of_patience


def _log(training: Training) -> None:
    epoch = training.batches.sampler.position.epoch
    training.monitor.log_training(training.update, epoch, training.step.num_micro_batches)


def _checkpoint(training: Training) -> None:
    """Score the model, write its weights, save the state."""
    score_and_write(training, checkpoint_name(training.update), training.weights)
    # In this order, a crash at any point leaves a state whose checkpoints all exist.
    training.save()
    if training.setup.group.is_main:
        training.history.delete_unlisted(training.run)
