"""Check that fast settings train equally well: compare validation losses of trainings that differ in one setting.

    python scripts/quality.py --config configs/multi30k-de-en.yaml --seeds 1,2,3 --updates 1000

Compares fp32 with bf16 (weights and activations in bf16, an fp32 master copy), and our dropout with torch's. Trainings
with the same seed have the same initial weights and batches. Each uses one thread; `--jobs` of them run at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VARIANTS = {"fp32": "fp32", "torch-dropout": "fp32", "bf16": "bf16"}
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


def train(arguments: argparse.Namespace, variant: str, seed: int) -> float:
    """Return the validation loss at the end of one training; resume the run if it exists."""
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
    program = ["-c", WITH_TORCHS_DROPOUT] if variant == "torch-dropout" else ["-m", "nmt"]
    command = [sys.executable, *program, "train", "--config", str(arguments.config), "--run", str(run)]
    command += [item for key, value in settings.items() for item in ("--set", f"{key}={value}")]
    done = subprocess.run(command + ["--resume"] * run.exists(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    records = [json.loads(line) for line in (run / "logs" / "metrics.jsonl").read_text().splitlines()]
    loss = next(record["loss"] for record in reversed(records) if record["kind"] == "valid")
    sys.stderr.write(f"{variant}, seed {seed}: {loss:.4f}\n")
    return loss


def main() -> None:
    """Train them all; print a table of the losses and of the differences to fp32."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/multi30k-de-en.yaml"))
    parser.add_argument("--folder", type=Path, default=Path("build/quality"))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--batch-tokens", type=int, default=512)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    seeds, variants = [int(seed) for seed in arguments.seeds.split(",")], arguments.variants.split(",")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = {v: [pool.submit(train, arguments, v, seed) for seed in seeds] for v in variants}
        losses = {variant: [each.result() for each in results] for variant, results in found.items()}
    lines = ["| variant | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean | farthest from the first |"]
    lines.append("|---|" + "---|" * (len(seeds) + 2))
    for variant, row in losses.items():
        farthest = max(abs(mine - base) for mine, base in zip(row, losses[variants[0]], strict=True))
        cells = [f"{loss:.4f}" for loss in (*row, statistics.mean(row), farthest)]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
