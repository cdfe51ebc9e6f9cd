"""The teacher-forced training loop."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
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
    put_weights,
    read_weights,
    save_state,
    save_weights,
)
from nmt.config import Config
from nmt.data.batching import Batch, Place, TokenBudgetSampler
from nmt.data.prepare import Prepared
from nmt.errors import RunError
from nmt.model.loss import projected_token_loss
from nmt.model.transformer import Transformer
from nmt.rundir import RunDir
from nmt.training.history import History
from nmt.training.interrupt import Interrupt
from nmt.training.metrics import MetricsLog, Progress
from nmt.training.optimiser import Optimiser, learning_rate
from nmt.training.validation import Validator

MAX_SKIPPED_IN_A_ROW = 5

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Trainer:
    """One run in training: the model and all that changes from update to update."""

    def __init__(self, run: RunDir, config: Config, prepared: Prepared, device: torch.device, precision: str):
        self.run, self.config, self.settings = run, config, config.training
        self.device = device
        torch.manual_seed(self.settings.seed)
        tokenizers = prepared.tokenizers
        self.model = Transformer(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size).to(device).train()
        self.optimiser = Optimiser(self.model, self.settings, DTYPES[precision])
        self.sampler = TokenBudgetSampler(
            prepared.store,
            batch_tokens=self.settings.batch_tokens,
            max_src_len=config.model.max_src_len,
            max_tgt_len=config.model.max_tgt_len,
            seed=self.settings.seed,
            drop_too_long=config.data.too_long == "drop",
        )
        self.validate = Validator(*run.read_pairs("valid"), tokenizers, config)
        self.history = History(self.settings.best_by)
        self.metrics = MetricsLog(run.metrics)
        self.window = Window()
        self.update = 0
        self.train_seconds = 0.0
        self.skipped_in_a_row = 0

    def start(self) -> None:
        """Begin at update 0, with the weights of `training.init_from` where that is named."""
        self.metrics.forget_after(0)
        if self.settings.init_from:
            path = RunDir(Path(self.settings.init_from)).best_checkpoint()
            weights = read_weights(path)
            check_weights(self.model, weights, path)
            self.optimiser.put_weights(weights)

    def train(self, interrupt: Interrupt) -> bool:
        """Train to the end, or until `interrupt`; returns whether the end was reached. Both ways the state is saved."""
        self.progress = Progress(self.settings.max_updates, self.update)
        while self.update < self.settings.max_updates and not self._out_of_patience():
            self._timed_step()
            if self.update % self.settings.log_every == 0 or self.update == self.settings.max_updates:
                self._log()
            if self.update % self.settings.validate_every == 0:
                self._checkpoint()
            if interrupt.asked:
                self.save()
                self.progress.close()
                return False
        if self.history.last != self._checkpoint_name():
            self._checkpoint()
        self._average()
        self.progress.close()
        return True

    def _out_of_patience(self) -> bool:
        return 0 < self.settings.patience <= self.history.without_better

    def _timed_step(self) -> None:
        started = time.perf_counter()
        loss_sum, num_tokens, norm = self._step()
        seconds = time.perf_counter() - started
        self.window.add(loss_sum, num_tokens, norm, seconds)
        self.train_seconds += seconds
        self.progress.advance()
        self._count_skipped(math.isfinite(loss_sum) and math.isfinite(norm))

    def _count_skipped(self, finite: bool) -> None:
        """RunError after `MAX_SKIPPED_IN_A_ROW` updates without a finite loss and gradient, which change nothing."""
        self.skipped_in_a_row = 0 if finite else self.skipped_in_a_row + 1
        if finite:
            return
        self.progress.say(f"warning: update {self.update} skipped: its loss or gradient is not finite")
        if self.skipped_in_a_row == MAX_SKIPPED_IN_A_ROW:
            self.progress.close()
            kept = self.history.last
            raise RunError(
                f"the loss or the gradient was not finite in {MAX_SKIPPED_IN_A_ROW} updates in a row, "
                f"up to update {self.update}",
                path=self.run.path,
                mend="lower training.lr, raise training.warmup_updates, or set training.precision to fp32; "
                + (f"the checkpoint {kept} is kept" if kept else "there is no checkpoint yet"),
            )

    def _step(self) -> tuple[float, int, float]:
        """One update; returns (sum of the loss in nats, real target tokens, norm of the gradient)."""
        batches = self._micro_batches()
        num_tokens = sum(batch.num_tgt_tokens for batch in batches)
        loss_sum = torch.zeros((), device=self.device)
        for batch in batches:
            on_device = batch.to(self.device)
            memory = self.model.encode(on_device.src)
            states = self.model.decode_states(on_device.tgt_in, self.model.start_cache(memory))
            weight = self.model.output_proj.weight
            loss, _ = projected_token_loss(states, weight, on_device.tgt_out, self.settings.label_smoothing)
            # Divided by the real tokens of the whole update: the mean of micro-batch means is not the token mean.
            (loss / num_tokens).backward()
            self.optimiser.collect()
            loss_sum += loss.detach()
        self.update += 1
        norm = self.optimiser.step(self.update, loss_sum)
        return float(loss_sum), num_tokens, float(norm)

    def _micro_batches(self) -> list[Batch]:
        """The batches of one update: one, or as many as reach `effective_tokens`."""
        batches = [self.sampler.next_batch()]
        while sum(batch.num_tgt_tokens for batch in batches) < self.settings.effective_tokens:
            batches.append(self.sampler.next_batch())
        return batches

    def _log(self) -> None:
        record = {
            "kind": "train",
            "update": self.update,
            "epoch": self.sampler.place.epoch,
            "loss": self.window.loss_sum / self.window.num_tokens if self.window.num_tokens else None,
            "lr": learning_rate(self.settings, self.update),
            "grad_norm": self.window.norm_sum / self.window.num_updates if self.window.num_updates else None,
            "skipped": self.window.num_skipped,
            "tokens_per_second": self.window.num_tokens / self.window.seconds,
            "train_seconds": self.train_seconds,
        }
        self.window = Window()
        self.metrics.append(record)
        seconds_an_update = self.train_seconds / self.update
        self.progress.report(record, (self.settings.max_updates - self.update) * seconds_an_update)

    def _checkpoint_name(self) -> str:
        return f"step-{self.update:08d}"

    def _checkpoint(self) -> None:
        """Score the model, keep its weights, save the state."""
        name = self._checkpoint_name()
        self._score_and_keep(name, self.optimiser.master)
        # In this order a crash at any point leaves a state whose checkpoints are all there.
        self.save()
        self.history.delete_others(self.run)

    def _average(self) -> None:
        """Score the mean of the last checkpoints; it becomes the best if it is.

        It is not part of the saved state, so a run that is resumed with more updates averages anew.
        """
        names = self.history.newest(self.settings.average_last)
        if len(names) > 1:
            self._score_and_keep("average", average_weights([self.run.checkpoint(name) for name in names]))

    def _score_and_keep(self, name: str, weights: Mapping[str, Tensor]) -> None:
        """Validate fp32 `weights`, as they will be loaded, and enter them into the history, the index and the log."""
        started = time.perf_counter()
        scores = self.validate(self._fp32_model(weights))
        save_weights(self.run.checkpoint(name), weights)
        best = self.history.add(name, scores)
        self.history.forget(self.settings.keep_checkpoints)
        self.history.write(self.run)
        seconds = time.perf_counter() - started
        record = {"kind": "valid", "update": self.update, "checkpoint": name, **scores.values(), "seconds": seconds}
        self.metrics.append(record)
        self.progress.say(
            f"valid {name}: loss {scores.loss:.3f}  perplexity {scores.perplexity:.2f}  BLEU {scores.bleu:.2f}  "
            f"chrF {scores.chrf:.2f}{'  (best)' if best else ''}  [{seconds:.0f} s]"
        )

    def _fp32_model(self, weights: Mapping[str, Tensor]) -> Transformer:
        """A model in fp32 that holds `weights`; the one in training, where it does already."""
        if weights is self.optimiser.model_parameters:
            return self.model
        model = copy.deepcopy(self.model).float()
        put_weights(model, weights)
        return model

    def save(self) -> None:
        """Write all that `resume` needs."""
        state = {
            "update": self.update,
            "train_seconds": self.train_seconds,
            "place": asdict(self.sampler.place),
            "history": self.history.state_dict(),
            "window": asdict(self.window),
            "skipped_in_a_row": self.skipped_in_a_row,
            "random": self._random_state(),
            **self.optimiser.state_dict(),
        }
        save_state(self.run.state, state, previous=self.run.previous_state)

    def _random_state(self) -> dict[str, Tensor]:
        states = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        if self.device.type == "mps":
            states["mps"] = torch.mps.get_rng_state()
        return states

    def resume(self, say: Callable[[str], None]) -> None:
        """Take up the state that the run was left in; `say` is told where a damaged file changes which that is."""
        state, damaged = last_state(self.run, say)
        try:
            check_state(state, self.optimiser.master, self.optimiser.adam)
            self._take_up(state)
            self.history.drop(damaged)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise RunError(f"the training state does not fit this run ({error})", path=self.run.state) from error
        self.metrics.forget_after(self.update)
        if self.history.checkpoints:
            self.history.write(self.run)
            self.history.delete_others(self.run)

    def _take_up(self, state: dict[str, Any]) -> None:
        self.optimiser.load_state_dict(state)
        self.update, self.train_seconds = state["update"], state["train_seconds"]
        self.sampler.seek(Place(**state["place"]))
        self.history, self.window = History(**state["history"]), Window(**state["window"])
        self.skipped_in_a_row = state["skipped_in_a_row"]
        torch.set_rng_state(state["random"]["cpu"])
        if self.device.type == "cuda" and "cuda" in state["random"]:
            torch.cuda.set_rng_state(state["random"]["cuda"], self.device)
        if self.device.type == "mps" and "mps" in state["random"]:
            torch.mps.set_rng_state(state["random"]["mps"])


@dataclass
class Window:
    """Sums over the updates since the last line of the log."""

    loss_sum: float = 0.0
    num_tokens: int = 0
    norm_sum: float = 0.0
    num_updates: int = 0
    num_skipped: int = 0  # updates whose loss or gradient was not finite; not in the sums
    seconds: float = 0.0

    def add(self, loss_sum: float, num_tokens: int, norm: float, seconds: float) -> None:
        """Count one update in."""
        self.seconds += seconds
        if not (math.isfinite(loss_sum) and math.isfinite(norm)):
            self.num_skipped += 1
            return
        self.loss_sum += loss_sum
        self.num_tokens += num_tokens
        self.norm_sum += norm
        self.num_updates += 1
