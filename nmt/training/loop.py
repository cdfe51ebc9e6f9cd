"""The teacher-forced training loop."""

from __future__ import annotations

from nmt.training.checkpoints import checkpoint_name
from nmt.training.final_weights import score_and_write, write_average, write_calibrated
from nmt.training.interrupt import Interrupt
from nmt.training.parts import Training
from nmt.training.preflight import fit_into_memory


def train(training: Training, interrupt: Interrupt) -> bool:
    """Train to the end or until `interrupt`, and save the state; return whether the end was reached.

    Each update gathers batches, computes gradients and changes the weights. Some updates end with a log line or a
    checkpoint.
    """
    settings = training.settings
    with training.monitor.showing_progress(training.update, training.end):
        while training.update < training.end and not _is_out_of_patience(training):
            if training.update == training.stage.end:
                training.enter_next_stage()
                fit_into_memory(training)
            _train_one_update(training)
            if training.is_out_of_time:
                training.plan_end()
            at_end = training.update == training.stage.end
            if training.update % settings.log_every == 0 or at_end:
                _log(training)
                if not at_end:
                    training.plan_end()
            if training.update % settings.validate_every == 0 or (at_end and not training.is_last_stage):
                _checkpoint(training)
            if training.setup.group.any(bool(interrupt.requested)):
                training.save()
                return False
        if training.history.last != checkpoint_name(training.update):
            _checkpoint(training)
        write_average(training)
        if settings.calibrate_length:
            write_calibrated(training)
    return True


def _train_one_update(training: Training) -> None:
    training.update += 1
    with training.monitor.timing():
        data = training.batches.next_update()
        update_of_stage = training.update - training.stage.start
        loss_sum, norm = training.step(data.batches, data.num_tokens, update_of_stage)
        if training.ema is not None:
            training.ema.add(training.update)
        training.monitor.count(training.update, data, loss_sum, norm)


def _is_out_of_patience(training: Training) -> bool:
    patience = training.settings.early_stopping_patience
    return training.is_last_stage and 0 < patience <= training.history.validations_since_best


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
