"""Print hashes of everything that a tiny training with a fixed seed produces, to show that a change is bit-identical.

    python scripts/fingerprint.py > before; ...change the code...; python scripts/fingerprint.py | diff before -

Trains on digit strings and their reverse for 200 updates in about twenty seconds, on one thread in fp32. Prints one
line each for the tokenizer, the losses, the weights of all checkpoints, and the translations by greedy search and beam
search with their scores. Use the hashes to compare two versions of the code on the same machine; other processors and
versions of torch give different hashes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIG = """
data: {src_lang: en, tgt_lang: en, train: {tsv: train.tsv}, valid: {tsv: valid.tsv}, test: {tsv: test.tsv}}
tokenizer: {type: char, vocab_size: 300}
model: {d_model: 48, num_heads: 3, d_ff: 96, encoder_layers: 2, decoder_layers: 2, max_src_len: 32, max_tgt_len: 32}
training: {batch_tokens: 512, tokens_per_update: 900, max_updates: 200, warmup_updates: 20, validate_every: 50,
  log_every: 5, lr: 3.0e-3, average_checkpoints: 2, seed: 1, device: cpu, precision: fp32, threads: 1}
"""
SEARCHES = {"greedy": [], "beam": ["--beam", "3", "--n-best", "3"]}


def nmt(*arguments: str, folder: Path, stdin: str = "") -> str:
    """Return the standard output of one `nmt` command run in `folder`; SystemExit with its message if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "nmt", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, input=stdin, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"nmt {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def write_inputs(folder: Path) -> None:
    """Write the configuration and a corpus of digit strings and their reverse."""
    draw = random.Random(7)
    for split, count in (("train", 3000), ("valid", 40), ("test", 40)):
        rows = ["".join(draw.choices("0123456789", k=draw.randint(3, 7))) for _ in range(count)]
        (folder / f"{split}.tsv").write_text("".join(f"{row}\t{row[::-1]}\n" for row in rows), encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")


def digest(parts: Iterable[bytes]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of all `parts`."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()[:16]


def losses(run: Path) -> list[float]:
    """Return every loss of the metrics log, of training and validation, in order."""
    lines = (run / "logs" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record["loss"] for record in map(json.loads, lines) if "loss" in record]


def weights(run: Path) -> Iterator[bytes]:
    """Yield the bytes of every tensor of every checkpoint, ordered by file and name."""
    from safetensors.numpy import load_file

    for path in sorted((run / "checkpoints").glob("*.safetensors")):
        for name, array in sorted(load_file(path).items()):
            yield name.encode()
            yield array.tobytes()


def fingerprint(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Train and translate in `folder`; yield (what was hashed, its hash, a readable remark)."""
    write_inputs(folder)
    nmt("train", "--config", "config.yaml", "--run", "run", "--overwrite", folder=folder)
    run = folder / "run"
    yield "tokenizer", digest(path.read_bytes() for path in sorted((run / "tokenizer").glob("*.model"))), ""
    values = losses(run)
    yield "losses", digest([json.dumps(values).encode()]), f"{len(values)} losses, the last is {values[-1]:.6f}"
    yield "weights", digest(weights(run)), ""
    sources = [line.split("\t")[0] for line in (folder / "test.tsv").read_text(encoding="utf-8").splitlines()]
    for name, options in SEARCHES.items():
        search = ["translate", "--model", "run", "--format", "jsonl", *options]
        output = nmt(*search, folder=folder, stdin="".join(f"{source}\n" for source in sources))
        yield name, digest([output.encode()]), output.partition("\n")[0][:70]


def main() -> None:
    """Print one line per hash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="keep the corpus and the run here (default: a temporary folder)")
    chosen = parser.parse_args().folder
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = (chosen or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name, value, remark in fingerprint(folder):
            sys.stdout.write(f"{name:<12} {value}  {remark}".rstrip() + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
