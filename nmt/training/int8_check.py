"""Measure the quality of int8 at the end of training, which decides the precision for translation on a CPU."""

from __future__ import annotations

import logging

from nmt.artifacts.rundir import Int8Scores, RunDir
from nmt.base.errors import NmtError
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.native_engine import NativeEngine, NativePrecision
from nmt.decoding.engines.selection import prefers_fp32
from nmt.training.parts import Training

log = logging.getLogger(__name__)


def check_int8(training: Training) -> None:
    """Translate the validation set in int8 and fp32 with the best checkpoint; save both BLEU scores in index.json.

    Only the native engine is measured, because only its default is int8. If it is missing or does not support the
    model, nothing is measured. A failure is only a warning, because the training itself is complete.
    """
    if not native_engine.is_available() or native_engine.unsupported(training.config.model):
        return
    run = RunDir(training.run.path)  # training.run might remember an older checkpoint
    try:
        scores = Int8Scores(
            checkpoint=run.best_checkpoint().stem,
            int8_bleu=_bleu(training, run, "int8"),
            fp32_bleu=_bleu(training, run, "fp32"),
        )
    except NmtError as error:
        log.warning("int8 and fp32 were not compared: %s", error.message)
        return
    run.write_index(run.index().model_copy(update={"int8": scores}))
    choice = "; on a CPU, nmt translates with this run in fp32" if prefers_fp32(run) else ""
    log.info("int8: %.2f BLEU on the validation set, fp32 %.2f%s", scores.int8_bleu, scores.fp32_bleu, choice)


def _bleu(training: Training, run: RunDir, precision: NativePrecision) -> float:
    num_threads = training.settings.threads or None
    engine = NativeEngine.load(run, training.tokenizers, precision, num_threads=num_threads)
    return training.validator.bleu(engine)
