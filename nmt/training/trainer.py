"""The teacher-forced training loop."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from nmt.checkpoint import (
    average_weights,
    check_weights,
    load_state,
    put_weights,
    read_weights,
    save_state,
    save_weights,
)
from nmt.config import Config
from nmt.data.batching import Place, Rows, TokenBudgetSampler, read_batch
from nmt.data.prepare import Prepared
from nmt.device import Precision
from nmt.model.flops import TrainingFlops
from nmt.model.transformer import Transformer
from nmt.rundir import RunDir
from nmt.training.history import History
from nmt.training.interrupt import Interrupt
from nmt.training.metrics import MetricsLog, Progress
from nmt.training.optimiser import Optimiser, learning_rate
from nmt.training.step import Step
from nmt.training.validation import Validator
from nmt.training.workers import Workers


class Trainer:
    """One run in training: the model and all that changes from update to update."""

    def __init__(
        self,
        run: RunDir,
        config: Config,
        prepared: Prepared,
        device: torch.device,
        precision: Precision,
        workers: Workers | None = None,
    ):
        self.run, self.config, self.settings = run, config, config.training
        self.device, self.workers = device, workers or Workers()
        self.precision = precision
        torch.manual_seed(self.settings.seed)
        self.tokenizers = tokenizers = prepared.tokenizers
        self.model = Transformer(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size).to(device).train()
        self.optimiser = Optimiser(self.model, self.settings, precision.dtype)
        self.step = Step(self.model, self.optimiser, self.workers, self.settings.label_smoothing)
        if self.workers.rank:  # dropout differs between the processes
            torch.manual_seed(self.settings.seed + self.workers.rank)
        self.flops = TrainingFlops(self.model)
        self.store = prepared.store
        self.sampler = TokenBudgetSampler(
            prepared.store,
            batch_tokens=self.settings.batch_tokens,
            max_src_len=config.model.max_src_len,
            max_tgt_len=config.model.max_tgt_len,
            seed=self.settings.seed,
            drop_too_long=config.data.too_long == "drop",
        )
        self.validate = Validator(*run.read_pairs("valid"), tokenizers, config, self.workers)
        self.history = History(self.settings.best_by)
        self.metrics = MetricsLog(run.metrics)
        self.window = Window()
        self.unsettled: list[tuple[Tensor, Tensor]] = []  # loss and norm of updates that are not in the window yet
        self.update = 0
        self.train_seconds = 0.0

    def start(self) -> None:
        """Begin at update 0, with the weights of `training.init_from` where that is named."""
        if self.workers.first:
            self.metrics.forget_after(0)
        if self.settings.init_from:
            path = RunDir(Path(self.settings.init_from)).best_checkpoint()
            weights = read_weights(path)
            check_weights(self.model, weights, path)
            self.optimiser.put_weights(weights)

    def train(self, interrupt: Interrupt) -> bool:
        """Train to the end, or until `interrupt`; returns whether the end was reached. Both ways the state is saved."""
        self.progress = Progress(self.settings.max_updates, self.update, silent=not self.workers.first)
        while self.update < self.settings.max_updates and not self._out_of_patience():
            self._timed_step()
            if self.update % self.settings.log_every == 0 or self.update == self.settings.max_updates:
                self._log()
            if self.update % self.settings.validate_every == 0:
                self._checkpoint()
            if self.workers.any(bool(interrupt.asked)):
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
        all_rows = self._rows_of_an_update()
        num_tokens = sum(rows.num_tgt_tokens for rows in all_rows)
        share = [rows.share(self.workers.rank, self.workers.count) for rows in all_rows]
        self.update += 1
        loss_sum, norm = self.step([read_batch(self.store, rows) for rows in share], num_tokens, self.update)
        flops = sum(self.flops(rows.src_len, rows.tgt_len) for rows in all_rows)
        seconds = time.perf_counter() - started
        self.unsettled.append((loss_sum, norm))
        self.window.add(num_tokens, flops, seconds)
        self.train_seconds += seconds
        self.progress.advance()

    def _rows_of_an_update(self) -> list[Rows]:
        """One batch, or as many as reach `effective_tokens`."""
        batches = [self.sampler.next_rows()]
        while sum(rows.num_tgt_tokens for rows in batches) < self.settings.effective_tokens:
            batches.append(self.sampler.next_rows())
        return batches

    def _log(self) -> None:
        self._settle()
        window, self.window = self.window, Window()
        flops = window.flops / window.seconds
        record = {
            "kind": "train",
            "update": self.update,
            "epoch": self.sampler.place.epoch,
            "loss": window.loss_sum / window.num_tokens,
            "lr": learning_rate(self.settings, self.update),
            "grad_norm": window.norm_sum / window.num_updates,
            "tokens_per_second": window.num_tokens / window.seconds,
            "flops_per_second": flops,
            "utilisation": flops / (self.precision.flops * self.workers.count),
            "train_seconds": self.train_seconds,
        }
        seconds_an_update = self.train_seconds / self.update
        if self.workers.first:
            self.metrics.append(record)
            self.progress.report(record, (self.settings.max_updates - self.update) * seconds_an_update)

    def _settle(self) -> None:
        """Bring losses and norms to the host. Only here is the device waited for, and the sum over processes made."""
        if not self.unsettled:
            return
        started = time.perf_counter()
        losses, norms = (torch.stack(column).double().cpu() for column in zip(*self.unsettled, strict=True))
        # One by one, so that the sum does not depend on when it is made.
        for loss_sum, norm in zip(self.workers.sum(losses).tolist(), norms.tolist(), strict=True):
            self.window.loss_sum += loss_sum
            self.window.norm_sum += norm
        self.unsettled = []
        seconds = time.perf_counter() - started
        self.window.seconds += seconds
        self.train_seconds += seconds

    def _checkpoint_name(self) -> str:
        return f"step-{self.update:08d}"

    def _checkpoint(self) -> None:
        """Score the model, keep its weights, save the state."""
        name = self._checkpoint_name()
        self._score_and_keep(name, self.optimiser.master)
        # In this order a crash at any point leaves a state whose checkpoints are all there.
        self.save()
        if self.workers.first:
            self.history.delete_others(self.run)

    def _average(self) -> None:
        """Score the mean of the last checkpoints; it becomes the best if it is.

        It is not part of the saved state, so a run that is resumed with more updates averages anew.
        """
        names = self.history.newest(self.settings.average_last)
        self.workers.barrier()  # the first process has written the last of them
        if len(names) > 1:
            self._score_and_keep("average", average_weights([self.run.checkpoint(name) for name in names]))

    def _score_and_keep(self, name: str, weights: Mapping[str, Tensor]) -> None:
        """Validate fp32 `weights`, as they will be loaded, and enter them into the history, the index and the log."""
        started = time.perf_counter()
        scores = self.validate(self._fp32_model(weights))
        best = self.history.add(name, scores)
        self.history.forget(self.settings.keep_checkpoints)
        if not self.workers.first:
            return
        save_weights(self.run.checkpoint(name), weights)
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
        self._settle()
        random = self.workers.gather(self._random_state())
        if not self.workers.first:
            return
        state = {
            "update": self.update,
            "train_seconds": self.train_seconds,
            "place": asdict(self.sampler.place),
            "history": self.history.state_dict(),
            "window": asdict(self.window),
            "random": random,
            **self.optimiser.state_dict(),
        }
        save_state(self.run.state, state)

    def _random_state(self) -> dict[str, Tensor]:
        states = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        if self.device.type == "mps":
            states["mps"] = torch.mps.get_rng_state()
        return states

    def resume(self) -> None:
        """Take up the state that the run was left in."""
        state = load_state(self.run.state)
        self.optimiser.load_state_dict(state)
        self.update, self.train_seconds = state["update"], state["train_seconds"]
        self.sampler.seek(Place(**state["place"]))
        self.history, self.window = History(**state["history"]), Window(**state["window"])
        if len(state["random"]) == self.workers.count:
            self._set_random_state(state["random"][self.workers.rank])
        if self.workers.first:
            self.metrics.forget_after(self.update)
            if self.history.checkpoints:
                self.history.write(self.run)
                self.history.delete_others(self.run)

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
    flops: float = 0.0
    seconds: float = 0.0

    def add(self, num_tokens: int, flops: float, seconds: float) -> None:
        """Count one update in."""
        self.num_tokens += num_tokens
        self.num_updates += 1
        self.flops += flops
        self.seconds += seconds
