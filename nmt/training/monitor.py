"""Count updates, copy their losses to the host, and write the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.config import TrainingConfig
from nmt.model.flops import TrainingFlops
from nmt.training.batches import Update
from nmt.training.environment import Setup
from nmt.training.metrics import MetricsLog, Progress, TrainRecord, ValidRecord, Window
from nmt.training.stages import StageSpan
from nmt.training.tensorboard import Sample, TensorBoardLog
from nmt.training.update.optimizer import learning_rate
from nmt.training.validation import ValidationResult

log = logging.getLogger(__name__)

MAX_SKIPPED_IN_A_ROW = 5
_MAX_SKIPPED_IN_FP16 = 30  # higher in fp16: the loss scale starts too high, and halves with each skipped update


class _Unflushed(NamedTuple):
    """An update whose loss and norm are still on the device."""

    number: int
    num_tokens: int
    loss_sum: Tensor
    norm: Tensor


def diverged(run: RunDir, message: str) -> RunError:
    """Return the error about a training whose numbers are no longer finite."""
    last = run.index().last
    kept = f"the checkpoint {last} is kept" if last else "there is no checkpoint yet"
    hint = f"start a new run with a lower training.lr, more training.warmup_updates, or training.precision fp32; {kept}"
    return RunError(message, path=run.path, hint=hint)


class Monitor:
    """The clock and the log of a training."""

    def __init__(self, run: RunDir, settings: TrainingConfig, setup: Setup, flops: TrainingFlops):
        self.run, self.settings, self.setup, self.flops = run, settings, setup, flops
        self.metrics = MetricsLog(run.metrics)
        self.tensorboard = TensorBoardLog(run.tensorboard) if settings.tensorboard else None
        self.stage: StageSpan | None = None  # the current stage of training
        self.window = Window()
        self.train_seconds = 0.0
        self.skipped_in_a_row = 0
        self._lr = 0.0  # of the newest update
        self._unflushed: list[_Unflushed] = []
        self._progress: Progress | None = None

    @contextmanager
    def showing_progress(self, update: int, end: int) -> Iterator[None]:
        """Show a progress bar from `update` to `end`, only in rank 0."""
        self._progress = Progress(end, update, silent=not self.setup.group.is_main)
        try:
            yield
        finally:
            self._progress.close()

    def expect(self, end: int) -> None:
        """Change the `end` of the progress bar."""
        if self._progress is not None:
            self._progress.expect(end)

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Add the seconds of the block to the training time."""
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.window.seconds += seconds
        self.train_seconds += seconds

    def count(self, number: int, update: Update, loss_sum: Tensor, norm: Tensor) -> None:
        """Count an update; `loss_sum` is this rank's, and the device may still be computing both tensors.

        Call it inside `timing`.
        """
        self._unflushed.append(_Unflushed(number, update.num_tokens, loss_sum, norm))
        self._lr = self._learning_rate(number)  # now, because the plan may change before the next line of the log
        self.window.reading_seconds += update.reading_seconds
        self.window.flops += sum(self.flops(rows.src_len, rows.tgt_len) for rows in update.indices)
        if self._progress is not None:
            self._progress.advance()
        if self.setup.device.type == "cpu" and self.setup.group.world_size == 1:
            self._flush()  # on a CPU, there is nothing to wait for; the caller measures the time

    def flush(self) -> None:
        """Copy losses and norms to the host and sum them over the ranks. Only here, the host waits for the device."""
        if not self._unflushed:
            return
        with self.timing():
            self._flush()

    def _flush(self) -> None:
        waiting, self._unflushed = self._unflushed, []
        # Copy to the host first, because Apple GPUs have no fp64.
        losses = torch.stack([update.loss_sum for update in waiting]).cpu().double()
        loss_sums = self.setup.group.sum(losses).tolist()
        norms = torch.stack([update.norm for update in waiting]).tolist()
        # Add updates one by one, so that the sums do not depend on when they are flushed.
        for update, loss_sum, norm in zip(waiting, loss_sums, norms, strict=True):
            if self.window.add(loss_sum, update.num_tokens, norm):
                self.skipped_in_a_row = 0
            else:
                self._count_skipped(update.number)

    def _count_skipped(self, number: int) -> None:
        """Count an update whose loss or gradient is not finite. RunError after too many in a row."""
        self.skipped_in_a_row += 1
        in_fp16 = self.setup.precision.name == "fp16"
        consequence = "; the loss scale halves" if in_fp16 else ""
        level = logging.INFO if in_fp16 else logging.WARNING
        log.log(level, f"update {number} skipped: its loss or gradient is not finite{consequence}")
        limit = _MAX_SKIPPED_IN_FP16 if in_fp16 else MAX_SKIPPED_IN_A_ROW
        if self.skipped_in_a_row == limit:
            raise diverged(
                self.run, f"the loss or gradient was not finite in {limit} updates in a row, up to update {number}"
            )

    def log_training(self, number: int, epoch: int, num_micro_batches: int) -> None:
        """Write and show the means over the updates since the previous line, up to update `number`."""
        self.flush()
        window, self.window = self.window, Window()
        flops_per_second = window.flops / window.seconds
        record = TrainRecord(
            update=number,
            epoch=epoch,
            loss=window.loss_sum / window.num_tokens if window.num_tokens else None,
            lr=self._lr,
            stage=self._stage_number(),
            grad_norm=window.norm_sum / window.num_updates if window.num_updates else None,
            skipped=window.num_skipped,
            tokens_per_second=window.num_tokens / window.seconds,
            flops_per_second=flops_per_second,
            num_micro_batches=num_micro_batches,
            reading_share=window.reading_seconds / window.seconds,
            utilization=flops_per_second / (self.setup.precision.flops * self.setup.group.world_size),
            train_seconds=self.train_seconds,
        )
        if self.setup.group.is_main:
            self.metrics.append(record)
            if self.tensorboard is not None:
                self.tensorboard.train(record)
            if self._progress is not None:
                self._progress.report(record)

    def _learning_rate(self, number: int) -> float:
        if self.stage is None:
            return learning_rate(self.settings, number)
        return learning_rate(self.stage.config.training, number - self.stage.start)

    def _stage_number(self) -> int | None:
        """Return the number of the stage, from 1; None if the training has no stages."""
        return self.stage.number + 1 if self.stage is not None and self.settings.stages else None

    def log_validation(self, number: int, name: str, result: ValidationResult, *, best: bool, seconds: float) -> None:
        """Write and show the scores of the checkpoint `name`."""
        loss, perplexity, bleu, chrf, _, directions = result
        record = ValidRecord(
            update=number,
            checkpoint=name,
            loss=loss,
            perplexity=perplexity,
            bleu=bleu,
            chrf=chrf,
            seconds=seconds,
            directions=directions,
            stage=self._stage_number(),
        )
        self.metrics.append(record)
        if self.tensorboard is not None:
            self.tensorboard.valid(record)
        log.info(
            f"valid {name}: loss {loss:.3f}  perplexity {perplexity:.2f}  BLEU {bleu:.2f}  "
            f"chrF {chrf:.2f}{'  (best)' if best else ''}  [{seconds:.0f} s]"
        )
        for direction, scores in directions.items():
            log.info(f"  {direction}: loss {scores['loss']:.3f}  BLEU {scores['bleu']:.2f}  chrF {scores['chrf']:.2f}")

    def log_samples(self, number: int, name: str, samples: Mapping[str, Sequence[Sample]]) -> None:
        """Write translations of a few validation sentences by the checkpoint `name`, if a log for them is enabled."""
        if self.tensorboard is not None:
            self.tensorboard.samples(number, name, samples)

    def forget_after(self, update: int) -> None:
        """Drop log entries after `update`, because a resumed run rewrites them."""
        self.metrics.forget_after(update)
        if self.tensorboard is not None:
            self.tensorboard.forget_after(update)
