"""The teacher-forced training loop."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping

from torch import Tensor

from nmt.checkpoint import average_weights, load_weights, save_weights
from nmt.model.transformer import Transformer
from nmt.training.interrupt import Interrupt
from nmt.training.parts import Training
from nmt.training.preflight import fit_into_memory


def train(training: Training, interrupt: Interrupt) -> bool:
    """Train to the end or until `interrupt`, and save the state; return whether the end was reached.

    Each update gathers batches, computes gradients and changes the weights; some end with a line of the log or with a
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
        if training.history.last != _checkpoint_name(training):
            _checkpoint(training)
        _average(training)
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


def _checkpoint_name(training: Training) -> str:
    return _checkpoint_name_of(training.update)


def _checkpoint_name_of(update: int) -> str:
    return f"step-{update:08d}"


def _checkpoint(training: Training) -> None:
    """Score the model, write its weights, save the state."""
    _score_and_write(training, _checkpoint_name(training), training.weights)
    # In this order, a crash at any point leaves a state whose checkpoints are all there.
    training.save()
    if training.setup.group.is_main:
        training.history.delete_unlisted(training.run)


def _average(training: Training) -> None:
    """Average the last checkpoints and score the result, which may become the best (Vaswani et al. 2017, section 6.1).

    The average is not part of the saved state: a run that is resumed with more updates averages anew.
    """
    newest = training.history.newest(training.settings.average_checkpoints)
    # Those of the last stage: weights from before it know less of its data.
    names = [name for name in newest if name > _checkpoint_name_of(training.stage.start)]
    training.setup.group.barrier()  # rank 0 has written the last of them
    if len(names) > 1:
        _score_and_write(training, "average", average_weights([training.run.checkpoint(name) for name in names]))


def _score_and_write(training: Training, name: str, weights: Mapping[str, Tensor]) -> None:
    """Validate fp32 `weights`, the precision they are loaded in; save them, and record their scores."""
    started = time.perf_counter()
    result = training.validator(_fp32_model(training, weights))
    is_best = training.history.add(name, result, training.settings.keep_checkpoints)
    if training.setup.group.is_main:
        save_weights(training.run.checkpoint(name), weights)
        training.history.write_index(training.run)
        seconds = time.perf_counter() - started
        training.monitor.log_validation(training.update, name, result, best=is_best, seconds=seconds)
        training.monitor.log_samples(training.update, name, training.validator.samples)


def _fp32_model(training: Training, weights: Mapping[str, Tensor]) -> Transformer:
    """Return a model in fp32 with `weights`: the model in training if it holds them, else a copy."""
    if weights is training.optimizer.model_parameters:
        return training.model
    model = copy.deepcopy(training.model).float()
    load_weights(model, weights)
    return model
