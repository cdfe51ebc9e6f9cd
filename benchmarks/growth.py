"""Measure how training cost grows with layers, width, batch and sentence length: `python benchmarks/growth.py`.

Measures whole updates on random sentences of equal length, without a data loader: target tokens per second, FLOPs per
token by the formulas, and the resulting FLOP rate. Changes one thing at a time. Models alternate; prints medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, field, replace

import torch
from harness import machine as describe
from harness import say, table, use_cores, warn_of_load

from nmt.base.special_tokens import BOS_ID, EOS_ID
from nmt.config.model import ModelConfig
from nmt.config.training import TrainingConfig
from nmt.data.store.batching import Batch
from nmt.model.transformer import Transformer
from nmt.training.monitor import TrainingFlops
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.step import Step

VOCAB_SIZE = 8000
COLUMNS = {
    "layers": "layers",
    "d_model": "d_model",
    "batch": "batch, tokens",
    "length": "length",
    "tokens_per_s": "tokens/s",
    "to_base": "x base",
    "mflop": "MFLOP/token",
    "gflops": "GFLOP/s",
}


@dataclass(frozen=True)
class Case:
    """A model and its batches: encoder and decoder have `layers` each; each side has `length` tokens, eos included."""

    layers: int = 3
    d_model: int = 256
    batch: int = 4096
    length: int = 16

    def model(self) -> Transformer:
        """Build a model with heads of 64, d_ff = 4 d_model, and all embeddings tied."""
        config = ModelConfig(
            d_model=self.d_model,
            num_heads=max(1, self.d_model // 64),
            d_ff=4 * self.d_model,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            max_src_len=max(2, self.length),
            max_tgt_len=max(2, self.length),
        )
        return Transformer(config, VOCAB_SIZE, VOCAB_SIZE).train()


BASE = Case()
GROWTH = [
    *(replace(BASE, layers=layers) for layers in (1, 6, 12)),
    *(replace(BASE, d_model=width) for width in (64, 128, 512)),
    *(replace(BASE, batch=tokens) for tokens in (256, 1024, 16384)),
    *(replace(BASE, length=length) for length in (4, 64, 256, 1024)),
]


@dataclass
class Measured:
    """A case in training, and the seconds that its updates took."""

    case: Case
    seconds: list[float] = field(default_factory=list)

    def measure(self, least_seconds: float) -> None:
        """Run updates for `least_seconds` after a warm-up; their mean is one measurement."""
        torch.manual_seed(1)
        model = self.case.model()
        step = Step(model, Optimizer(model, TrainingConfig(), torch.float32), ProcessGroup())
        batch = random_batch(self.tokens // self.case.length, self.case.length, VOCAB_SIZE)
        step([batch], batch.num_tgt_tokens, 1e-3, 0.1)
        updates, started = 0, time.perf_counter()
        while time.perf_counter() - started < least_seconds:
            step([batch], batch.num_tgt_tokens, 1e-3, 0.1)
            updates += 1
        self.seconds.append((time.perf_counter() - started) / updates)

    @property
    def rate(self) -> float:
        """Return the median tokens per second."""
        return self.tokens / statistics.median(self.seconds)

    def row(self, base: Measured) -> dict[str, object]:
        """Return the figures of this case, relative to those of `base`."""
        lengths = torch.full((self.tokens // self.case.length,), self.case.length).numpy()
        flops = TrainingFlops(self.case.model())(lengths, lengths) / self.tokens
        return {
            **vars(self.case),
            "tokens_per_s": round(self.rate),
            "to_base": round(self.rate / base.rate, 2),
            "mflop": round(flops / 1e6, 1),
            "gflops": round(self.rate * flops / 1e9),
        }

    @property
    def tokens(self) -> int:
        """The number of target tokens in an update."""
        return max(1, self.case.batch // self.case.length) * self.case.length


def random_batch(rows: int, length: int, vocab_size: int) -> Batch:
    """Return sentences of random tokens, all of the same length, on the host."""
    src, tgt = torch.randint(EOS_ID + 1, vocab_size, (2, rows, length))
    src[:, -1] = tgt[:, -1] = EOS_ID
    return Batch.from_ids(src, torch.cat([torch.full((rows, 1), BOS_ID), tgt[:, :-1]], 1), tgt)


def main() -> None:
    """Measure all cases alternately; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=4.0, help="duration of each measurement (4)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each, alternating (3)")
    parser.add_argument("--threads", type=int, default=0, help="number of cores (0: all available)")
    options = parser.parse_args()
    torch.set_num_threads(use_cores(options.threads))
    warn_of_load(describe(torch.get_num_threads()))
    measured = [Measured(case) for case in (BASE, *GROWTH)]
    for turn in range(options.repeats):
        for each in measured:
            each.measure(options.seconds)
            say(f"turn {turn + 1}: {each.case}: {each.tokens / each.seconds[-1]:,.0f} tokens/s")
    sys.stdout.write(table([each.row(measured[0]) for each in measured], COLUMNS))


if __name__ == "__main__":
    main()
