"""The teacher-forced training loop."""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.checkpoint import (
    average_weights,
    check_state,
    check_weights,
    last_state,
    load_weights,
    read_weights,
    save_state,
    save_weights,
)
from nmt.config import Config
from nmt.data.batching import Batch, BatchIndices, DataPosition, TokenBudgetSampler, read_batch, tokens_for
from nmt.device import Precision
from nmt.errors import RunError
from nmt.model.flops import TrainingFlops
from nmt.model.transformer import Transformer
from nmt.rundir import RunDir
from nmt.special_tokens import EOS_ID
from nmt.training.distributed import ProcessGroup
from nmt.training.history import History
from nmt.training.interrupt import Interrupt
from nmt.training.memory import available_bytes, needed_bytes, num_micro_batches_on_cpu, refuse_beyond_memory
from nmt.training.metrics import MetricsLog, Progress
from nmt.training.optimizer import Optimizer, learning_rate
from nmt.training.prepare import Prepared
from nmt.training.step import Step
from nmt.training.validation import Validator

log = logging.getLogger(__name__)

MAX_SKIPPED_IN_A_ROW = 5


class Trainer:
    """One run in training: the model and all that changes from update to update."""

    def __init__(
        self,
        run: RunDir,
        config: Config,
        prepared: Prepared,
        device: torch.device,
        precision: Precision,
        group: ProcessGroup | None = None,
    ):
        self.run, self.config, self.settings = run, config, config.training
        self.device, self.group = device, group or ProcessGroup()
        self.precision = precision
        torch.manual_seed(self.settings.seed)
        self.tokenizers = tokenizers = prepared.tokenizers
        self.model = Transformer(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size).to(device).train()
        self.optimizer = Optimizer(self.model, self.settings, precision.dtype)
        self.step = Step(self.model, self.optimizer, self.group, self.settings.label_smoothing, self.settings.compile)
        if self.group.rank:  # dropout differs between the processes
            torch.manual_seed(self.settings.seed + self.group.rank)
        self.flops = TrainingFlops(self.model)
        self.store = prepared.store
        limits = (config.model.max_src_len, config.model.max_tgt_len)
        report = prepared.report
        self.longest = (
            min(limits[0], report.src.length_longest + 1),
            min(limits[1], report.tgt.length_longest + 1),
        )
        asked = self.settings.batch_tokens
        self.batch_tokens = (
            tokens_for(self.settings.tokens_per_update, self.store, *limits) if asked == "auto" else asked
        )
        self.sampler = TokenBudgetSampler(
            prepared.store,
            batch_tokens=self.batch_tokens,
            max_src_len=config.model.max_src_len,
            max_tgt_len=config.model.max_tgt_len,
            seed=self.settings.seed,
            drop_too_long=config.data.on_too_long == "drop",
        )
        self.validate = Validator(*run.read_pairs("valid"), tokenizers, config, self.group)
        self.history = History(self.settings.early_stopping_metric)
        self.metrics = MetricsLog(run.metrics)
        self.window = Window()
        # Update, real target tokens, loss and norm, of updates that are not in the window yet.
        self.unflushed: list[tuple[int, int, Tensor, Tensor]] = []
        self.update = 0
        self.train_seconds = 0.0
        self.skipped_in_a_row = 0

    def start(self) -> None:
        """Begin at update 0, with the weights of `training.init_from` where that is named."""
        if self.group.is_main:
            self.metrics.forget_after(0)
        if self.settings.init_from:
            path = RunDir(Path(self.settings.init_from)).best_checkpoint()
            weights = read_weights(path)
            check_weights(self.model, weights, path)
            self.optimizer.load_weights(weights)

    def train(self, interrupt: Interrupt) -> bool:
        """Train to the end, or until `interrupt`; returns whether the end was reached. Both ways the state is saved."""
        self._check_memory()
        self.progress = Progress(self.settings.max_updates, self.update, silent=not self.group.is_main)
        while self.update < self.settings.max_updates and not self._out_of_patience():
            self._timed_step()
            if self.update % self.settings.log_every == 0 or self.update == self.settings.max_updates:
                self._log()
            if self.update % self.settings.validate_every == 0:
                self._checkpoint()
            if self.group.any(bool(interrupt.asked)):
                self.save()
                self.progress.close()
                return False
        if self.history.last != self._checkpoint_name():
            self._checkpoint()
        self._average()
        self.progress.close()
        return True

    def _check_memory(self) -> None:
        """Meet now what would fail later: on a CPU by an estimate, elsewhere by trying the longest batch."""
        if self.device.type == "cpu":
            have, share = available_bytes(), self.batch_tokens // self.group.world_size
            if self.settings.batch_tokens == "auto":
                self.step.num_micro_batches = num_micro_batches_on_cpu(
                    share, max(self.longest), self.step.num_micro_batches, self._needed_bytes, have
                )
            refuse_beyond_memory(self._needed_bytes(self.step.num_micro_batches), have)
            return
        random = self._random_state()
        src_len, tgt_len = self.longest
        num_rows = max(1, self.batch_tokens // max(src_len, tgt_len) // self.group.world_size)
        src, tgt = (torch.full((num_rows, length), EOS_ID) for length in (src_len, tgt_len))
        self.step.dry_run(Batch.from_ids(src, tgt, tgt))
        self.validate.dry_run(self.model, src_len)
        self._set_random_state(random)

    def _needed_bytes(self, num_micro_batches: int) -> int:
        """With batches cut into as many micro-batches."""
        vocab_size, num_bytes = self.model.output_proj.weight.size(0), self.precision.dtype.itemsize
        tokens, size = self.batch_tokens // num_micro_batches, self.model.num_parameters()
        return needed_bytes(self.config.model, tokens, size, vocab_size, self.longest, num_bytes)

    def _out_of_patience(self) -> bool:
        return 0 < self.settings.early_stopping_patience <= self.history.without_better

    def _timed_step(self) -> None:
        started = time.perf_counter()
        all_rows = self._indices_of_update()
        num_tokens = sum(rows.num_tgt_tokens for rows in all_rows)
        share = [rows.share(self.group.rank, self.group.world_size) for rows in all_rows]
        self.update += 1
        batches = [read_batch(self.store, rows) for rows in share]
        self.window.reading_seconds += time.perf_counter() - started
        loss_sum, norm = self.step(batches, num_tokens, self.update)
        self.unflushed.append((self.update, num_tokens, loss_sum, norm))
        self.window.flops += sum(self.flops(rows.src_len, rows.tgt_len) for rows in all_rows)
        self._count_seconds(started)
        self.progress.advance()
        if self.device.type == "cpu" and self.group.world_size == 1:
            self._flush_losses()  # there is nothing to wait for

    def _count_seconds(self, started: float) -> None:
        seconds = time.perf_counter() - started
        self.window.seconds += seconds
        self.train_seconds += seconds

    def _count_skipped(self, update: int) -> None:
        """RunError after `MAX_SKIPPED_IN_A_ROW` updates without a finite loss and gradient, which change nothing."""
        self.skipped_in_a_row += 1
        log.warning(f"update {update} skipped: its loss or gradient is not finite")
        if self.skipped_in_a_row == MAX_SKIPPED_IN_A_ROW:
            self.progress.close()
            kept = self.history.last
            raise RunError(
                f"the loss or the gradient was not finite in {MAX_SKIPPED_IN_A_ROW} updates in a row, "
                f"up to update {update}",
                path=self.run.path,
                hint="lower training.lr, raise training.warmup_updates, or set training.precision to fp32; "
                + (f"the checkpoint {kept} is kept" if kept else "there is no checkpoint yet"),
            )

    def _indices_of_update(self) -> list[BatchIndices]:
        """One batch, or as many as reach `tokens_per_update`."""
        batches = [self.sampler.next_indices()]
        if self.settings.batch_tokens == "auto":
            return batches
        while sum(rows.num_tgt_tokens for rows in batches) < self.settings.tokens_per_update:
            batches.append(self.sampler.next_indices())
        return batches

    def _log(self) -> None:
        self._flush_losses()
        window, self.window = self.window, Window()
        flops = window.flops / window.seconds
        record = {
            "kind": "train",
            "update": self.update,
            "epoch": self.sampler.position.epoch,
            "loss": window.loss_sum / window.num_tokens if window.num_tokens else None,
            "lr": learning_rate(self.settings, self.update),
            "grad_norm": window.norm_sum / window.num_updates if window.num_updates else None,
            "skipped": window.num_skipped,
            "tokens_per_second": window.num_tokens / window.seconds,
            "flops_per_second": flops,
            "num_micro_batches": self.step.num_micro_batches,
            "reading_share": window.reading_seconds / window.seconds,
            "utilization": flops / (self.precision.flops * self.group.world_size),
            "train_seconds": self.train_seconds,
        }
        seconds_an_update = self.train_seconds / self.update
        if self.group.is_main:
            self.metrics.append(record)
            self.progress.report(record, (self.settings.max_updates - self.update) * seconds_an_update)

    def _flush_losses(self) -> None:
        """Bring losses and norms to the host. Only here is the device waited for, and the sum over processes made."""
        if not self.unflushed:
            return
        started = time.perf_counter()
        waiting, self.unflushed = self.unflushed, []
        losses = self.group.sum(torch.stack([loss_sum for _, _, loss_sum, _ in waiting]).double().cpu()).tolist()
        norms = torch.stack([norm for *_, norm in waiting]).tolist()
        self._count_seconds(started)
        # One by one, so that the sums do not depend on when they are made.
        for (update, num_tokens, _, _), loss_sum, norm in zip(waiting, losses, norms, strict=True):
            if self.window.add(loss_sum, num_tokens, norm):
                self.skipped_in_a_row = 0
            else:
                self._count_skipped(update)

    def _checkpoint_name(self) -> str:
        return f"step-{self.update:08d}"

    def _checkpoint(self) -> None:
        """Score the model, keep its weights, save the state."""
        name = self._checkpoint_name()
        self._score_and_keep(name, self.optimizer.master)
        # In this order a crash at any point leaves a state whose checkpoints are all there.
        self.save()
        if self.group.is_main:
            self.history.delete_others(self.run)

    def _average(self) -> None:
        """Score the mean of the last checkpoints; it becomes the best if it is.

        It is not part of the saved state, so a run that is resumed with more updates averages anew.
        """
        names = self.history.newest(self.settings.average_checkpoints)
        self.group.barrier()  # the first process has written the last of them
        if len(names) > 1:
            self._score_and_keep("average", average_weights([self.run.checkpoint(name) for name in names]))

    def _score_and_keep(self, name: str, weights: Mapping[str, Tensor]) -> None:
        """Validate fp32 `weights`, as they will be loaded, and enter them into the history, the index and the log."""
        started = time.perf_counter()
        scores = self.validate(self._fp32_model(weights))
        best = self.history.add(name, scores)
        self.history.forget(self.settings.keep_checkpoints)
        if not self.group.is_main:
            return
        save_weights(self.run.checkpoint(name), weights)
        self.history.write(self.run)
        seconds = time.perf_counter() - started
        record = {"kind": "valid", "update": self.update, "checkpoint": name, **scores.values(), "seconds": seconds}
        self.metrics.append(record)
        log.info(
            f"valid {name}: loss {scores.loss:.3f}  perplexity {scores.perplexity:.2f}  BLEU {scores.bleu:.2f}  "
            f"chrF {scores.chrf:.2f}{'  (best)' if best else ''}  [{seconds:.0f} s]"
        )

    def _fp32_model(self, weights: Mapping[str, Tensor]) -> Transformer:
        """A model in fp32 that holds `weights`; the one in training, where it does already."""
        if weights is self.optimizer.model_parameters:
            return self.model
        model = copy.deepcopy(self.model).float()
        load_weights(model, weights)
        return model

    def save(self) -> None:
        """Write all that `resume` needs."""
        self._flush_losses()
        random = self.group.gather(self._random_state())
        if not self.group.is_main:
            return
        state = {
            "update": self.update,
            "train_seconds": self.train_seconds,
            "position": asdict(self.sampler.position),
            "history": self.history.state_dict(),
            "window": asdict(self.window),
            "skipped_in_a_row": self.skipped_in_a_row,
            "num_micro_batches": self.step.num_micro_batches,
            "random": random,
            **self.optimizer.state_dict(),
        }
        save_state(self.run.state, state, previous=self.run.previous_state)

    def _random_state(self) -> dict[str, Tensor]:
        states = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        if self.device.type == "mps":
            states["mps"] = torch.mps.get_rng_state()
        return states

    def resume(self) -> None:
        """Take up the state that the run was left in."""
        if not self.group.is_main:
            self.group.barrier()  # the first process may put the state before in the place of a damaged one
        state, damaged = last_state(self.run)
        if self.group.is_main:
            self.group.barrier()
        try:
            check_state(state, self.optimizer.master, self.optimizer.adam)
            self._load_state(state)
            self.history.remove(damaged)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise RunError(f"the training state does not fit this run ({error})", path=self.run.state) from error
        if not self.group.is_main:
            return
        self.metrics.forget_after(self.update)
        if self.history.checkpoints:
            self.history.write(self.run)
            self.history.delete_others(self.run)

    def _load_state(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)
        self.update, self.train_seconds = state["update"], state["train_seconds"]
        self.sampler.seek(DataPosition(**state["position"]))
        self.history, self.window = History(**state["history"]), Window(**state["window"])
        self.skipped_in_a_row = state["skipped_in_a_row"]
        self.step.num_micro_batches = state.get("num_micro_batches", 1)  # older states have none
        if len(state["random"]) == self.group.world_size:
            self._set_random_state(state["random"][self.group.rank])

    def _set_random_state(self, states: Mapping[str, Tensor]) -> None:
        torch.set_rng_state(states["cpu"])
        if self.device.type == "cuda" and "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"], self.device)
        if self.device.type == "mps" and "mps" in states:
            torch.mps.set_rng_state(states["mps"])


@dataclass
class Window:
    """Sums over the updates since the last line of the log."""

    loss_sum: float = 0.0
    norm_sum: float = 0.0
    num_tokens: int = 0
    num_updates: int = 0
    num_skipped: int = 0  # updates whose loss or gradient was not finite; not in the sums
    flops: float = 0.0
    seconds: float = 0.0
    reading_seconds: float = 0.0  # of them: the host reads batches

    def add(self, loss_sum: float, num_tokens: int, norm: float) -> bool:
        """Count one update in; returns whether its loss and gradient are finite, without which it is only counted."""
        if not (math.isfinite(loss_sum) and math.isfinite(norm)):
            self.num_skipped += 1
            return False
        self.loss_sum += loss_sum
        self.norm_sum += norm
        self.num_tokens += num_tokens
        self.num_updates += 1
        return True
