"""The end of training: an average, weights calibrated to outputs of the right length, and the quality of int8."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.artifacts.checkpoint import average_weights, load_weights, read_weights, save_weights
from nmt.artifacts.rundir import AVERAGE, CALIBRATED, Int8Scores, RunDir, checkpoint_quality
from nmt.base.errors import NmtError
from nmt.base.special_tokens import EOS_ID
from nmt.data.store.store import Side
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.native_engine import NativeEngine, NativePrecision
from nmt.decoding.engines.selection import prefers_fp32
from nmt.decoding.hypothesis import NotFiniteError
from nmt.training.checkpoints import checkpoint_name
from nmt.training.monitor import diverged
from nmt.training.parts import Training
from nmt.training.validation import ValidationResult
from nmt.translation import Translation

log = logging.getLogger(__name__)

BIAS = "output_proj.bias"
_STEP = 0.5  # nats
_MAX_STEPS = 8  # in one direction
_PATIENCE = 2  # steps in a row without a better score
_BLOCK_SENTENCES = 1000
_MAX_BLOCKS = 100


def score_and_write(training: Training, name: str, weights: Mapping[str, Tensor]) -> None:
    """Validate `weights` in fp32, the precision in which they are loaded; save them, and record their scores."""
    started = time.perf_counter()
    _write(training, name, weights, _validate(training, weights), started)


def write_average(training: Training) -> None:
    """Average the last checkpoints and score the result, which may become the best (Vaswani et al. 2017, section 6.1).

    The average is not part of the saved state: a run that is resumed with more updates averages its later checkpoints.
    """
    newest = training.history.newest(training.settings.average_checkpoints)
    # Only those of the last stage: earlier weights were trained less on its data.
    names = [name for name in newest if name > checkpoint_name(training.stage.start)]
    training.setup.group.barrier()  # wait until rank 0 has written the last one
    if len(names) > 1:
        score_and_write(training, AVERAGE, average_weights([training.run.checkpoint(name) for name in names]))


def write_calibrated(training: Training, should_stop: Callable[[], bool]) -> None:
    """Calibrate the output bias of the best weights so that outputs have the right length, and score the result.

    Greedy search often ends a little early or late, which costs BLEU. The bias of each token is moved by a common
    shift, in nats, times the rate at which the token ends a sentence. The shift is the best one on the validation set.
    Like the average, the result is not part of the saved state. Nothing is written if `should_stop` returns True after
    a validation.
    """
    best, metric = training.history.best, training.settings.early_stopping_metric
    assert best is not None
    started = time.perf_counter()
    training.setup.group.barrier()  # wait until rank 0 has written the best weights
    weights = read_weights(training.run.checkpoint(best))
    rates = torch.from_numpy(end_rates(training.store.tgt))
    results: dict[float, ValidationResult] = {}

    def with_shift(shift: float) -> dict[str, Tensor]:
        return {**weights, BIAS: weights[BIAS] + shift * rates}

    def quality(shift: float) -> float:
        results[shift] = _validate(training, with_shift(shift))
        return checkpoint_quality(results[shift].values(), metric)

    shift = find_peak(quality, checkpoint_quality(training.history.checkpoints[best], metric), should_stop)
    if should_stop():
        return
    if shift:
        _write(training, CALIBRATED, with_shift(shift), results[shift], started)
    if training.setup.group.is_main:
        log.info("length: %s", f"end-of-sentence bias moved by {shift:+g} nats" if shift else "no bias shift is better")


def end_rates(side: Side) -> NDArray[np.float32]:
    """Return the share of each token's occurrences that are at the end of a sentence, [V]; 1 for eos.

    Counts 100 blocks of 1,000 sentences, evenly over the corpora, which are stored one after another; or all.
    """
    num_blocks = -(-(len(side.offsets) - 1) // _BLOCK_SENTENCES)
    counts, ends = np.zeros((2, side.vocab_size), dtype=np.int64)
    for block in np.unique(np.linspace(0, num_blocks - 1, min(num_blocks, _MAX_BLOCKS)).round().astype(int)):
        offsets = side.offsets[block * _BLOCK_SENTENCES : (block + 1) * _BLOCK_SENTENCES + 1]
        tokens = side.tokens[offsets[0] : offsets[-1]]
        last = tokens[offsets[1:][np.diff(offsets) > 0] - offsets[0] - 1]
        counts += np.bincount(tokens, minlength=side.vocab_size)
        ends += np.bincount(last, minlength=side.vocab_size)
    rates = ends / np.maximum(counts, 1)
    rates[EOS_ID] = 1.0
    return rates.astype(np.float32)


def find_peak(
    quality: Callable[[float], float], at_zero: float, should_stop: Callable[[], bool] = lambda: False
) -> float:
    """Return the multiple of `_STEP` where `quality` is highest: walk down from 0, or up if that does not help.

    A walk ends after `_PATIENCE` steps without a better value, because scores are not smooth.
    """
    values = {0.0: at_zero}
    for direction in (-_STEP, _STEP):
        num_worse = 0
        for number in range(1, _MAX_STEPS + 1):
            if should_stop():
                return 0.0
            value = quality(number * direction)
            num_worse = 0 if value > max(values.values()) else num_worse + 1
            values[number * direction] = value
            if num_worse == _PATIENCE:
                break
        if max(values.values()) > at_zero:
            break
    return max(values, key=lambda shift: (values[shift], -abs(shift)))


def _validate(training: Training, weights: Mapping[str, Tensor]) -> ValidationResult:
    model = training.model
    if weights is not training.optimizer.model_parameters:
        model = copy.deepcopy(model).float()
        load_weights(model, weights)
    try:
        return training.validator(model)
    except NotFiniteError as error:
        message = f"the model diverged: its outputs are not finite in the validation after update {training.update}"
        raise diverged(training.run, message) from error


def _write(
    training: Training, name: str, weights: Mapping[str, Tensor], result: ValidationResult, started: float
) -> None:
    is_best = training.history.add(name, result, training.settings.keep_checkpoints)
    if training.setup.group.is_main:
        save_weights(training.run.checkpoint(name), weights)
        training.history.write_index(training.run)
        seconds = time.perf_counter() - started
        stage = training.stage_number
        training.monitor.log_validation(training.update, stage, name, result, best=is_best, seconds=seconds)


def check_int8(training: Training) -> list[list[Translation]] | None:
    """Translate the validation set in int8 and fp32 with the best checkpoint; save both BLEU scores in index.json.

    Returns the translations in the precision that nmt will choose. Only the native engine is measured, because only its
    default is int8. If it is missing or does not support the model, nothing is measured (None). A failure is only a
    warning, because the training itself is complete.
    """
    if not native_engine.is_available() or native_engine.unsupported(training.config.model):
        return None
    run = RunDir(training.run.path)  # training.run might remember an older checkpoint
    try:
        checkpoint = run.best_checkpoint().stem
        int8_bleu, in_int8 = _translate(training, run, "int8")
        fp32_bleu, in_fp32 = _translate(training, run, "fp32")
    except NmtError as error:
        log.warning("int8 and fp32 were not compared: %s", error.message)
        return None
    scores = Int8Scores(checkpoint=checkpoint, int8_bleu=int8_bleu, fp32_bleu=fp32_bleu)
    run.write_index(run.index().model_copy(update={"int8": scores}))
    choice = "; on a CPU, nmt translates with this run in fp32" if prefers_fp32(run) else ""
    log.info("int8: %.2f BLEU on the validation set, fp32 %.2f%s", int8_bleu, fp32_bleu, choice)
    return in_fp32 if choice else in_int8


def _translate(training: Training, run: RunDir, precision: NativePrecision) -> tuple[float, list[list[Translation]]]:
    num_threads = training.settings.threads or None
    engine = NativeEngine.load(run, training.tokenizers, precision, num_threads=num_threads)
    return training.validator.translate(engine)
