"""Measure the cost of options of the model per update: processor time compared with a training without them.

    python benchmarks/options.py --batch-tokens 1024,4096 --options rotary,qk_norm --precision bf16

Uses a model with the sizes of configs/multi30k-de-en.yaml, random ids and one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from nmt.base.device import DTYPES
from nmt.config import ModelConfig, TrainingConfig
from nmt.data.store.batching import Batch
from nmt.model.transformer import Transformer
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.step import Step

MODEL: dict[str, dict[str, Any]] = {
    "rotary": {"positions": "rotary"},
    "qk_norm": {"qk_norm": True},
    "qk_norm self": {"qk_norm": "self"},
    "rms": {"norm": "rms"},
    "swiglu": {"activation": "swiglu"},
}
VOCAB_SIZE = 5000
LENGTH = 16


def make_update(option: str, batch: Batch, dtype: torch.dtype) -> Callable[[], object]:
    """Return a function that trains a model with `option` in `dtype` on `batch`."""
    torch.manual_seed(1)
    config = ModelConfig(
        d_model=256, num_heads=4, d_ff=512, dropout=0.25, embedding_dropout=0.25, **MODEL.get(option, {})
    )
    model = Transformer(config, VOCAB_SIZE, VOCAB_SIZE).train()
    optimizer = Optimizer(model, TrainingConfig(), dtype)
    step = Step(model, optimizer, ProcessGroup())
    return partial(step, [batch], batch.num_tgt_tokens, 1e-3, 0.1)


def main() -> None:
    """Print the milliseconds per update for each batch size and option, and the ratio to no option."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-tokens", default="1024,4096")
    parser.add_argument("--options", default=",".join(MODEL))
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--rounds", type=int, default=11)
    given = parser.parse_args()
    names = dict.fromkeys(["none", *given.options.split(",")])
    if unknown := names.keys() - {"none", *MODEL}:
        parser.error(f"no such option: {', '.join(sorted(unknown))}; choose from {', '.join(MODEL)}")
    torch.set_num_threads(1)
    for tokens in map(int, given.batch_tokens.split(",")):
        ids = torch.randint(4, VOCAB_SIZE, (tokens // LENGTH, LENGTH))
        batch = Batch.from_ids(ids, ids, ids)
        updates = {name: make_update(name, batch, DTYPES[given.precision]) for name in names}
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(given.rounds + 1):
            for name, update in updates.items():
                started = time.process_time()
                update()
                seconds[name].append(time.process_time() - started)
        for name, values in seconds.items():
            pairs = zip(values[1:], seconds["none"][1:], strict=True)  # the first round is a warm-up
            ratio, median = statistics.median(a / b for a, b in pairs), statistics.median(values[1:])
            sys.stdout.write(f"{tokens} tokens, {name:<8} {1000 * median:7.0f} ms  {ratio:.2f}\n")


if __name__ == "__main__":
    main()
