"""Score and write weights: those of each checkpoint, their average at the end of training, and these in int8."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Mapping

from torch import Tensor

from nmt.artifacts.checkpoint import average_weights, load_weights, save_weights
from nmt.artifacts.run_records import Int8Scores
from nmt.artifacts.rundir import AVERAGE, RunDir
from nmt.base.errors import NmtError
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.native_engine import NativeEngine, NativePrecision
from nmt.decoding.engines.selection import obstacle_to_native, prefers_fp32
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.decoding.hypothesis import NotFiniteError
from nmt.training.checkpoints import checkpoint_name
from nmt.training.monitor import diverged
from nmt.training.parts import Training
from nmt.training.validation import is_untrained
from nmt.translation import Translation

log = logging.getLogger(__name__)


def score_and_write(training: Training, name: str, weights: Mapping[str, Tensor]) -> None:
    """Validate `weights` in fp32, the precision in which they are loaded; save them, and record their scores."""
    started = time.perf_counter()
    model = training.model
    if weights is not training.optimizer.model_parameters:
        model = copy.deepcopy(model).float()
        load_weights(model, weights)
    try:
        result = training.validator(model)
    except NotFiniteError as error:
        raise diverged(
            training.run,
            f"the model diverged: its outputs are not finite in the validation after update {training.update}",
        ) from error
    is_best = training.history.add(name, result, training.settings.keep_checkpoints)
    if training.setup.group.is_main:
        save_weights(training.run.checkpoint(name), weights)
        training.history.write_index(training.run)
        seconds = time.perf_counter() - started
        stage = training.stage_number
        training.monitor.log_validation(training.update, stage, name, result, best=is_best, seconds=seconds)


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


def check_int8(training: Training) -> list[list[Translation]] | None:
    """Translate the validation set in int8 and fp32 with the best checkpoint; save both BLEU scores in index.json.

    Returns the translations in the precision that nmt will choose. Only the native engine is measured, because only its
    default is int8. If it is missing or does not support the model, nothing is measured (None), and if it computes
    something else than PyTorch, None is returned. A failure is only a warning: the training itself is complete.
    """
    if not native_engine.is_available() or native_engine.unsupported(training.config.model):
        return None
    if is_untrained(training.config):
        return None
    run = RunDir(training.run.path)  # training.run might remember an older checkpoint
    try:
        checkpoint = run.best_checkpoint().stem
        difference = _difference(training, run)
        (int8_bleu, _), in_int8 = _translate(training, run, "int8")
        (fp32_bleu, _), in_fp32 = _translate(training, run, "fp32")
    except NmtError as error:
        log.warning("int8 and fp32 were not compared: %s", error.message)
        return None
    scores = Int8Scores(checkpoint=checkpoint, int8_bleu=int8_bleu, fp32_bleu=fp32_bleu, difference=difference)
    run.write_json(run.index_file, run.index().model_copy(update={"int8": scores}))
    if scores.differs:
        obstacle = obstacle_to_native([run], "cpu", "auto")
        log.warning("nmt translates with this run in PyTorch: the native engine does not support %s", obstacle)
        return None
    choice = "; on a CPU, nmt translates with this run in fp32" if prefers_fp32(run) else ""
    log.info("int8: %.2f BLEU on the validation set, fp32 %.2f%s", int8_bleu, fp32_bleu, choice)
    return in_fp32 if choice else in_int8


def _difference(training: Training, run: RunDir) -> float:
    """Return the largest difference between both engines, in fp32."""
    engines = NativeEngine.load(run, training.tokenizers, "fp32"), TorchEngine.load([run], training.tokenizers, "cpu")
    largest = training.validator.difference(*engines)
    for engine in engines:
        engine.close()
    return largest


def _translate(
    training: Training, run: RunDir, precision: NativePrecision
) -> tuple[list[float], list[list[Translation]]]:
    num_threads = training.settings.threads or None
    engine = NativeEngine.load(run, training.tokenizers, precision, num_threads=num_threads)
    return training.validator.translate(engine)
