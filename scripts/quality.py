"""Check that fast settings train equally well: compare validation losses of trainings that differ in one setting.

    python scripts/quality.py --config configs/multi30k-de-en.yaml --seeds 1,2,3 --updates 1000

Compares fp32 with bf16 (weights and activations in bf16, an fp32 master copy), our dropout with torch's, and batches of
one length with batches of mixed lengths, as many per epoch (`--variants bf16,mixed-lengths`). Trainings with the same
seed have the same initial weights, and but for mixed lengths the same batches. Each uses one thread; `--jobs` of them
run at once. A stopped comparison goes on if it is started again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VARIANTS = {"fp32": "fp32", "torch-dropout": "fp32", "bf16": "bf16", "mixed-lengths": "bf16"}
WITH_TORCHS_DROPOUT = """
from torch.nn import functional as F
from nmt.model import layers
from nmt.model.kernels.dropout import Dropout
Dropout.forward = lambda self, states: F.dropout(states, self.rate, self.training)
layers.add_dropped = lambda states, branch, dropout: states + dropout(branch)
layers.dropped_relu = lambda hidden, dropout: dropout(F.relu(hidden))
from nmt.apps.cli import main
main()
"""
WITH_MIXED_LENGTHS = """
import numpy as np
from nmt.data.store.batching import BatchIndices
from nmt.training.batches import UpdateBatches
cut_by_length = UpdateBatches.make_pool
def make_pool(self, position):
    batches = cut_by_length(self, position)
    indices, *others = (np.concatenate([getattr(b, field) for b in batches]) for field in BatchIndices._fields[1:])
    shuffled = np.random.default_rng((self.order.seed, position.epoch)).permutation(len(indices))
    pool = BatchIndices(batches[0].sides, indices, *others).select(shuffled)
    # As many batches as before, each with the same number of tokens.
    tokens = np.maximum(pool.src_len, pool.tgt_len).cumsum()
    ends = np.searchsorted(tokens, np.arange(1, len(batches)) * tokens[-1] / len(batches))
    return [pool.select(rows) for rows in np.split(np.arange(len(indices)), ends)]
UpdateBatches.make_pool = make_pool
from nmt.apps.cli import main
main()
"""
PROGRAMS = {"torch-dropout": WITH_TORCHS_DROPOUT, "mixed-lengths": WITH_MIXED_LENGTHS}


def train(arguments: argparse.Namespace, variant: str, seed: int) -> tuple[float, float]:
    """Return the validation loss and BLEU at the end of one training; resume the run if it exists."""
    run = arguments.folder / f"{variant}-{seed}"
    settings = {
        "training.seed": seed,
        "training.precision": VARIANTS[variant],
        "training.threads": 1,
        "training.max_updates": arguments.updates,
        "training.warmup_updates": arguments.updates // 5,
        "training.validate_every": arguments.updates,
        "training.batch_tokens": arguments.batch_tokens,
        "training.average_checkpoints": 0,
    }
    program = ["-c", PROGRAMS[variant]] if variant in PROGRAMS else ["-m", "nmt"]
    command = [sys.executable, *program, "train", "--config", str(arguments.config), "--run", str(run)]
    pairs = [*(f"{key}={value}" for key, value in settings.items()), *arguments.set]
    command += [item for pair in pairs for item in ("--set", pair)]
    done = subprocess.run(command + ["--resume"] * run.exists(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    records = [json.loads(line) for line in (run / "logs" / "metrics.jsonl").read_text().splitlines()]
    last = next(record for record in reversed(records) if record["kind"] == "valid")
    sys.stderr.write(f"{variant}, seed {seed}: loss {last['loss']:.4f}, BLEU {last['bleu']:.2f}\n")
    return last["loss"], last["bleu"]


def main() -> None:
    """Train them all; print tables of the losses and BLEU, with the differences to the first variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/multi30k-de-en.yaml"))
    parser.add_argument("--folder", type=Path, default=Path("build/quality"))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--batch-tokens", type=int, default=512)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting for all trainings")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    seeds, variants = [int(seed) for seed in arguments.seeds.split(",")], arguments.variants.split(",")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = {v: [pool.submit(train, arguments, v, seed) for seed in seeds] for v in variants}
        pairs = {variant: [each.result() for each in results] for variant, results in found.items()}
    for part, name in enumerate(("loss", "BLEU")):
        scores = {variant: [pair[part] for pair in row] for variant, row in pairs.items()}
        sys.stdout.write(table(name, seeds, scores) + "\n")


def table(name: str, seeds: list[int], scores: dict[str, list[float]]) -> str:
    """Return a table of a score of each variant and seed."""
    lines = [f"| {name} | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean | farthest from the first |"]
    lines.append("|---|" + "---|" * (len(seeds) + 2))
    first = next(iter(scores.values()))
    for variant, row in scores.items():
        farthest = max(abs(mine - base) for mine, base in zip(row, first, strict=True))
        cells = [f"{score:.4f}" for score in (*row, statistics.mean(row), farthest)]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
