"""The teacher-forced training loop."""

from __future__ import annotations

import logging

from nmt.training.checkpoints import checkpoint_name
from nmt.training.ending import check_time, has_ended, log_end, plan_end
from nmt.training.final_weights import score_and_write, write_average
from nmt.training.interrupt import Interrupt
from nmt.training.memory_limits import fit_into_memory
from nmt.training.parts import Training
from nmt.training.update.optimizer import learning_rate

log = logging.getLogger(__name__)


def train(training: Training, interrupt: Interrupt) -> bool:
    """Train to the end or until `interrupt`, and save the state; return whether the end was reached.

    Each update gathers batches, computes gradients and changes the weights. Some updates end with a log line or a
    checkpoint.
    """
    start = training.update

    def should_stop() -> bool:  # in every rank if one rank was asked to stop
        return training.setup.group.any(bool(interrupt.requested))

    while not has_ended(training):
        if training.update == training.stage.end:
            _enter_next_stage(training)
        _train_one_update(training)
        check_time(training)
        at_end = training.update == training.stage.end
        if training.update % training.settings.log_every == 0 or at_end:
            epoch = training.batches.position.epoch
            stage = training.stage_number
            training.monitor.log_training(training.update, training.end, stage, epoch, training.step)
            if not at_end:
                plan_end(training)
        if training.update % training.settings.validate_every == 0 or (at_end and not training.is_last_stage):
            _checkpoint(training)
        if should_stop():
            training.save()
            return False
    if training.update > start:
        log_end(training, training.update - start)
    if training.history.last != checkpoint_name(training.update):
        _checkpoint(training)
    if not should_stop():
        write_average(training)
    return not should_stop()


def _train_one_update(training: Training) -> None:
    training.update += 1
    settings = training.stage.config.training
    with training.monitor.timing():
        data = training.batches.next_update()
        lr = learning_rate(settings, training.update - training.stage.start)
        loss_sum, norm = training.step(data.batches, data.num_tokens, lr, settings.label_smoothing)
        training.monitor.count(training.update, data, lr, loss_sum, norm)


def _enter_next_stage(training: Training) -> None:
    training.enter_next_stage()
    plan_end(training)
    if training.setup.group.is_main:
        log.info(f"stage {training.stage_number} of {len(training.stages)}, up to update {training.stage.end}")
    fit_into_memory(training)


def _checkpoint(training: Training) -> None:
    """Score the model, write its weights, save the state."""
    score_and_write(training, checkpoint_name(training.update), training.optimizer.master)
    # In this order, a crash at any point leaves a state whose checkpoints all exist.
    training.save()
    if training.setup.group.is_main:
        training.history.delete_unlisted(training.run)
