"""The teacher-forced training loop."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import torch

from nmt.checkpoint import average_weights, load_state, put_weights, read_weights, save_state, save_weights
from nmt.config import Config
from nmt.data.batching import Batch, Place, TokenBudgetSampler
from nmt.data.prepare import Prepared
from nmt.model.loss import projected_token_loss
from nmt.model.transformer import Transformer
from nmt.rundir import RunDir
from nmt.training.history import History
from nmt.training.interrupt import Interrupt
from nmt.training.metrics import MetricsLog, Progress
from nmt.training.optimiser import Optimiser, learning_rate
from nmt.training.validation import Validator

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Trainer:
    """One run in training: the model and all that changes from update to update."""

    def __init__(self, run: RunDir, config: Config, prepared: Prepared, device: torch.device, precision: str):
        self.run, self.config, self.settings = run, config, config.training
        self.device = device
        torch.manual_seed(self.settings.seed)
        tokenizers = prepared.tokenizers
        self.model = Transformer(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
        if self.settings.init_from:
            start = RunDir(Path(self.settings.init_from)).best_checkpoint()
            put_weights(self.model, read_weights(start), start)
        self.model.to(device, DTYPES[precision]).train()
        self.optimiser = Optimiser(self.model, self.settings)
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
        self.update = 0
        self.train_seconds = 0.0

    def train(self, interrupt: Interrupt) -> bool:
        """Train to the end, or until `interrupt`; returns whether the end was reached. Both ways the state is saved."""
        self.progress = Progress(self.settings.max_updates, self.update)
        window = _Window()
        while self.update < self.settings.max_updates and not self._out_of_patience():
            started = time.perf_counter()
            loss_sum, num_tokens, norm = self._step()
            seconds = time.perf_counter() - started
            window.add(loss_sum, num_tokens, norm, seconds)
            self.train_seconds += seconds
            self.progress.advance()
            if self.update % self.settings.log_every == 0 or self.update == self.settings.max_updates:
                self._log(window)
                window = _Window()
            if self.update % self.settings.validate_every == 0 or self.update == self.settings.max_updates:
                self._checkpoint()
            if interrupt.asked:
                self.save()
                self.progress.close()
                return False
        self._average()
        self.progress.close()
        return True

    def _out_of_patience(self) -> bool:
        return 0 < self.settings.patience <= self.history.without_better

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
        norm = self.optimiser.step(self.update)
        return float(loss_sum), num_tokens, float(norm)

    def _micro_batches(self) -> list[Batch]:
        """The batches of one update: one, or as many as reach `effective_tokens`."""
        batches = [self.sampler.next_batch()]
        while sum(batch.num_tgt_tokens for batch in batches) < self.settings.effective_tokens:
            batches.append(self.sampler.next_batch())
        return batches

    def _log(self, window: _Window) -> None:
        record = {
            "kind": "train",
            "update": self.update,
            "epoch": self.sampler.place.epoch,
            "loss": window.loss_sum / window.num_tokens,
            "lr": learning_rate(self.settings, self.update),
            "grad_norm": window.norm_sum / window.num_updates,
            "tokens_per_second": window.num_tokens / window.seconds,
            "train_seconds": self.train_seconds,
        }
        self.metrics.append(record)
        seconds_an_update = self.train_seconds / self.update
        self.progress.report(record, (self.settings.max_updates - self.update) * seconds_an_update)

    def _checkpoint(self) -> None:
        """Score the model, keep its weights, save the state."""
        started = time.perf_counter()
        scores = self.validate(self.model)
        name = f"step-{self.update:08d}"
        save_weights(self.run.checkpoint(name), self.optimiser.master)
        best = self.history.add(name, scores)
        self._record(name, scores._asdict(), best, time.perf_counter() - started)
        self.save()

    def _record(self, name: str, scores: dict[str, float], best: bool, seconds: float) -> None:
        self.metrics.append({"kind": "valid", "update": self.update, "checkpoint": name, **scores, "seconds": seconds})
        self.history.write(self.run, self.settings.keep_checkpoints)
        self.progress.say(
            f"valid {name}: loss {scores['loss']:.3f}  perplexity {scores['perplexity']:.2f}  "
            f"BLEU {scores['bleu']:.2f}  chrF {scores['chrf']:.2f}{'  (best)' if best else ''}  [{seconds:.0f} s]"
        )

    def _average(self) -> None:
        """Score the mean of the last checkpoints; it becomes the best if it is.

        It is not part of the saved state, so a run that is resumed with more updates averages anew.
        """
        names = self.history.newest(self.settings.average_last)
        if self.settings.average_last < 2 or len(names) < 2:
            return
        started = time.perf_counter()
        path = self.run.checkpoint("average")
        weights = average_weights([self.run.checkpoint(name) for name in names])
        put_weights(self.model, weights, path)
        scores = self.validate(self.model)
        save_weights(path, weights)
        last = self.history.last
        best = self.history.add("average", scores)
        self.history.last = last
        self._record("average", scores._asdict(), best, time.perf_counter() - started)

    def save(self) -> None:
        """Write all that `resume` needs."""
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.device)
        state = {
            "update": self.update,
            "train_seconds": self.train_seconds,
            "place": asdict(self.sampler.place),
            "history": self.history.state_dict(),
            "random": random,
            **self.optimiser.state_dict(),
        }
        save_state(self.run.state, state)

    def resume(self) -> None:
        """Take up the state that the run was left in."""
        state = load_state(self.run.state)
        self.optimiser.load_state_dict(state)
        self.update, self.train_seconds = state["update"], state["train_seconds"]
        self.sampler.seek(Place(**state["place"]))
        self.history = History(**state["history"])
        torch.set_rng_state(state["random"]["cpu"])
        if "cuda" in state["random"] and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random"]["cuda"], self.device)
        self.metrics.forget_after(self.update)
        if self.history.checkpoints:
            self.history.write(self.run, self.settings.keep_checkpoints)


class _Window:
    """Sums over the updates since the last line of the log."""

    def __init__(self) -> None:
        self.loss_sum, self.num_tokens, self.norm_sum, self.num_updates, self.seconds = 0.0, 0, 0.0, 0, 0.0

    def add(self, loss_sum: float, num_tokens: int, norm: float, seconds: float) -> None:
        self.loss_sum += loss_sum
        self.num_tokens += num_tokens
        self.norm_sum += norm
        self.num_updates += 1
        self.seconds += seconds
