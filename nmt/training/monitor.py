"""Count updates, copy their losses to the host, and write the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.model.layers import DecoderLayer
from nmt.model.transformer import Transformer
from nmt.training.batches import Update
from nmt.training.environment import Setup
from nmt.training.metrics import MetricsLog, TrainRecord, ValidRecord, Window
from nmt.training.update.step import Step
from nmt.training.validation import ValidationResult

log = logging.getLogger(__name__)

# Updates in a row that are not finite, after which a training counts as diverged. Higher in fp16: the
# loss scale may be up to 2^24, and halves with each skipped update. Chosen by hand.
MAX_SKIPPED_IN_A_ROW = 5
_MAX_SKIPPED_IN_FP16 = 30


def diverged(run: RunDir, message: str) -> RunError:
    """Return the error about a training whose numbers are no longer finite."""
    last = run.index().last
    kept = f"the checkpoint {last} is kept" if last else "there is no checkpoint yet"
    return RunError(
        message,
        path=run.path,
        hint="start a new run with a lower training.lr, more training.warmup_updates, or training.precision fp32; "
        f"{kept}",
    )


class TrainingFlops:
    """Counts the FLOPs of a forward and backward pass for sentences of given lengths, without padding.

    Forward: two FLOPs per matrix weight and token, plus the two matrix products of attention (Kaplan et al. 2020,
    section 2.1). Backward takes twice as many. Embedding lookups, norms and softmax are not counted, as is usual.
    """

    def __init__(self, model: Transformer):
        self.config = model.config
        layers = cast("list[DecoderLayer]", model.decoder_layers)
        cross = _num_weights(layer.cross_attention.key_value_proj for layer in layers)
        self.per_src_token = _num_weights(model.encoder_layers) + cross
        self.per_tgt_token = _num_weights(model.decoder_layers) - cross + model.output_proj.weight.numel()

    def __call__(self, src_len: NDArray[np.int64], tgt_len: NDArray[np.int64]) -> float:
        """Return the FLOPs for sentences of src_len [B] and tgt_len [B] tokens, eos included."""
        matrices = self.per_src_token * src_len.sum() + self.per_tgt_token * tgt_len.sum()
        pairs = self.config.encoder_layers * (src_len * src_len).sum()
        # A target position attends to itself and the positions before it: half of the square.
        pairs += self.config.decoder_layers * ((tgt_len * (tgt_len + 1) / 2).sum() + (src_len * tgt_len).sum())
        return float(3.0 * (2.0 * matrices + 4.0 * self.config.d_model * pairs))


def _num_weights(modules: Iterable[nn.Module]) -> int:
    linears = (part for module in modules for part in module.modules() if isinstance(part, nn.Linear))
    return sum(linear.weight.numel() for linear in linears)


class Monitor:
    """The clock and the log of a training."""

    def __init__(self, run: RunDir, setup: Setup, flops: TrainingFlops):
        self.run = run
        self.setup = setup
        self.flops = flops
        self.metrics = MetricsLog(run.metrics)
        self.on_record: Callable[[TrainRecord | ValidRecord], None] = lambda record: None
        self.window = Window()
        self.train_seconds = 0.0
        self.skipped_in_a_row = 0
        self._lr = 0.0  # of the newest update
        self._unflushed: list[tuple[int, int, Tensor, Tensor]] = []  # number, tokens, loss and norm on the device

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Add the seconds of the block to the training time."""
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.window.seconds += seconds
        self.train_seconds += seconds

    def count(self, number: int, update: Update, lr: float, loss_sum: Tensor, norm: Tensor) -> None:
        """Count an update; `loss_sum` is this rank's, and the device may still be computing both tensors.

        Call it inside `timing`.
        """
        self._unflushed.append((number, update.num_tokens, loss_sum, norm))
        self._lr = lr
        self.window.reading_seconds += update.reading_seconds
        self.window.flops += sum(self.flops(rows.src_len, rows.tgt_len) for rows in update.indices)
        if self.setup.device.type == "cpu" and self.setup.group.world_size == 1:
            self._flush()  # on a CPU, there is nothing to wait for; the caller measures the time

    def flush(self) -> None:
        """Copy losses and norms to the host and sum them over the ranks. Only here, the host waits for the device."""
        if not self._unflushed:
            return
        with self.timing():
            self._flush()

    def _flush(self) -> None:
        numbers, num_tokens, losses, norms = zip(*self._unflushed, strict=True)
        self._unflushed = []
        # Copy to the host first, because Apple GPUs have no fp64.
        loss_sums = self.setup.group.sum(torch.stack(losses).cpu().double()).tolist()
        # Add updates one by one, so that the sums do not depend on when they are flushed.
        updates = zip(numbers, num_tokens, loss_sums, torch.stack(norms).tolist(), strict=True)
        for number, tokens, loss_sum, norm in updates:
            if self.window.add(loss_sum, tokens, norm):
                self.skipped_in_a_row = 0
            else:
                self._count_skipped(number)

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

    def log_training(self, number: int, end: int, stage: int | None, epoch: int, step: Step) -> None:
        """Write and show the means over the updates since the previous line, up to update `number` of `end`."""
        self.flush()
        window = self.window
        self.window = Window()
        flops_per_second = window.flops / window.seconds
        record = TrainRecord(
            update=number,
            epoch=epoch,
            loss=window.loss_sum / window.num_tokens if window.num_tokens else None,
            lr=self._lr,
            stage=stage,
            grad_norm=window.norm_sum / window.num_updates if window.num_updates else None,
            skipped=window.num_skipped,
            tokens_per_second=window.num_tokens / window.seconds,
            flops_per_second=flops_per_second,
            num_micro_batches=step.num_micro_batches,
            num_launched=step.num_launched,
            reading_share=window.reading_seconds / window.seconds,
            utilization=flops_per_second / (self.setup.precision.flops * self.setup.group.world_size),
            train_seconds=self.train_seconds,
        )
        step.num_launched = 0
        if self.setup.group.is_main:
            self._append(record)
            log.info(
                f"update {number}/{end}  loss {'none' if record.loss is None else f'{record.loss:.3f}'}  "
                f"{record.tokens_per_second:,.0f} tokens/s  {record.utilization:.0%} of peak  lr {record.lr:.2e}  "
                f"{(end - number) * self.train_seconds / number / 60:.0f} min left"
            )

    def _append(self, record: TrainRecord | ValidRecord) -> None:
        self.metrics.append(record)
        self.on_record(record)

    def log_validation(
        self, number: int, stage: int | None, name: str, result: ValidationResult, *, best: bool, seconds: float
    ) -> None:
        """Write and show the scores of the checkpoint `name`."""
        scores = result._asdict()
        del scores["signatures"]
        self._append(ValidRecord(update=number, checkpoint=name, seconds=seconds, stage=stage, **scores))
        log.info(
            f"valid {name}: loss {result.loss:.3f}  perplexity {result.perplexity:.2f}  BLEU {result.bleu:.2f}  "
            f"chrF {result.chrf:.2f}{'  (best)' if best else ''}  [{seconds:.0f} s]"
        )
        for direction, scores in result.directions.items():
            log.info(f"  {direction}: loss {scores['loss']:.3f}  BLEU {scores['bleu']:.2f}  chrF {scores['chrf']:.2f}")

    def forget_after(self, update: int) -> None:
        """Drop log entries after `update`, because a resumed run rewrites them."""
        self.metrics.forget_after(update)
