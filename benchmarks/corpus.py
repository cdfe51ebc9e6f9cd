"""Measure the preparation of a large corpus, up to the first batch: `python benchmarks/corpus.py --pairs 1000000`.

Writes a generated corpus, then prepares it twice, each time in a separate process: first with everything to build
(tokenizer, store), then with an existing store. Prints a line of JSON for each: seconds, peak resident memory, disk.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

WORDS = 50_000
BLOCK = 50_000
TOKENIZER_SENTENCES = 100_000  # per side, for training the tokenizer


def write_corpus(path: Path, num_pairs: int) -> None:
    """Write a TSV of pairs of 5 to 30 words per side, drawn by Zipf's law from words of random letters."""
    draw = np.random.default_rng(5)
    letters = np.array(list("etaoinshrdlcumwfgypbvk"))
    vocabularies = [["".join(draw.choice(letters, size=draw.integers(2, 11))) for _ in range(WORDS)] for _ in range(2)]
    with open(path, "w", encoding="utf-8") as file:
        for start in range(0, num_pairs, BLOCK):
            rows = [_sentences(draw, words, min(BLOCK, num_pairs - start)) for words in vocabularies]
            file.writelines(f"{src}\t{tgt}\n" for src, tgt in zip(*rows, strict=True))


def _sentences(draw: np.random.Generator, words: list[str], count: int) -> list[str]:
    lengths = draw.integers(5, 31, count)
    ranks = np.minimum(draw.zipf(1.2, int(lengths.sum())), WORDS) - 1
    ends = lengths.cumsum()
    return [" ".join(words[i] for i in ranks[end - n : end]) for n, end in zip(lengths, ends, strict=True)]


class Messages(logging.Handler):
    """Store every message of nmt with its time."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Store a message."""
        self.lines.append((time.perf_counter(), record.getMessage()))


def measure(corpus: Path, folder: Path) -> None:
    """Prepare `corpus` like `nmt train` and read the first batch; print the time and memory it took."""
    started = time.perf_counter()
    from nmt.artifacts.rundir import RunDir
    from nmt.config import Config
    from nmt.training.batches import UpdateBatches
    from nmt.training.corpus.prepare import prepare
    from nmt.training.update.distributed import ProcessGroup

    tsv = {name: {"tsv": str(corpus.with_name(f"{name}.tsv"))} for name in ("valid", "test")}
    data = {"src_lang": "en", "tgt_lang": "de", "train": {"tsv": str(corpus)}, **tsv}
    config = Config.model_validate({"data": data, "tokenizer": {"max_sentences": TOKENIZER_SENTENCES}})
    imported = time.perf_counter()
    messages = Messages()
    logging.getLogger("nmt").addHandler(messages)
    logging.getLogger("nmt").setLevel(logging.INFO)
    run = RunDir(folder / "run")
    prepared = prepare(config, run, folder / "store")
    UpdateBatches(prepared.store, config, ProcessGroup()).next_update()
    finished = time.perf_counter()
    building = [moment for moment, line in messages.lines if line.startswith("tokenizing")]
    figures = {
        "pairs": len(prepared.store),
        "import_s": round(imported - started, 2),
        "tokenizer_s": round(building[0] - imported, 1) if building else None,
        "store_s": round(finished - building[0], 1) if building else None,
        "to_first_batch_s": round(finished - imported, 2),
        "pairs_per_s": round(len(prepared.store) / (finished - building[0])) if building else None,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        # Of the process that trains the tokenizer; Linux reports at least what this process had when it started it.
        "tokenizer_peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10,
        "text_mb": corpus.stat().st_size >> 20,
        "store_mb": sum(path.stat().st_size for path in prepared.store.folder.iterdir()) >> 20,
        "said": [line for _, line in messages.lines if line.startswith("tokenizing")],
    }
    sys.stdout.write(json.dumps(figures) + "\n")


def main() -> None:
    """Write the corpus and measure it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("build/bench/corpus"))
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.folder / str(options.pairs)
    if options.measure:
        measure(folder / "train.tsv", folder)
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", options.pairs), ("valid", 1000), ("test", 1000)):
        if not (folder / f"{name}.tsv").exists():
            write_corpus(folder / f"{name}.tsv", count)
    for _ in range(2):
        subprocess.run([sys.executable, __file__, "--measure", *sys.argv[1:]], check=True)


if __name__ == "__main__":
    main()
