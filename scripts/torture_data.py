"""Kill jobs that read and write a corpus at random moments, and check that the next try gives the same result.

    python scripts/torture_data.py --kills 20

Runs four jobs on a generated corpus with faults: `nmt data check` (report and page), `nmt data clean`, and the
preparation of a training (tokenizer, store) with and without filters. Each job runs once without interruption. Then it
is ended by `kill -9` at a random moment: every file under its final name must be complete, and the processes that check
the corpus must end by themselves. Then it runs again in the same folder: every file must be bit-identical, and no other
files may be left. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import yaml

NUM_PAIRS = 40_000  # enough pairs that several processes check them
MODEL = {"d_model": 8, "num_heads": 1, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1}
TRAINING = {"max_updates": 1, "warmup_updates": 0, "batch_tokens": 256, "threads": 2, "device": "cpu"}
TRAINING |= {"precision": "fp32", "average_checkpoints": 0}
FILTERS = {"length_ratio": 4.5, "duplicate": True, "mojibake": True, "overlap": True}
WORKS: dict[str, list[str]] = {
    "check": ["data", "check", "--config", "filtered.yaml", "--json", "--set", "training.threads=2"],
    "clean": ["data", "clean", "--config", "filtered.yaml", "--output", "out/kept.tsv", "--rejected",
              "out/rejected.tsv.gz", "--set", "training.threads=2", "--overwrite"],
    "store": ["train", "--config", "plain.yaml", "--run", "out/run", "--resume"],
    "filtered store": ["train", "--config", "filtered.yaml", "--run", "out/run", "--resume"],
}  # fmt: skip
PATIENCE = 20  # seconds within which the workers of a killed process must end


class Whole(NamedTuple):
    """An uninterrupted job: its output, the hashes of its files, and its duration."""

    printed: bytes
    files: dict[str, str]
    seconds: float


def write_corpus(folder: Path) -> None:
    """Write pairs of random words with duplicates and wrong encodings, held-out sets, and two configurations."""
    draw = random.Random(7)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(2000)]
    rows: list[str] = []
    for _ in range(NUM_PAIRS):
        src = " ".join(draw.choices(words, k=draw.randint(2, 9)))
        rows.append(f"{src}\t{src[::-1]}")
        if draw.random() < 0.02:
            rows[-1] = draw.choice(rows)
        elif draw.random() < 0.02:
            rows[-1] = f"Ã¼ber {rows[-1]}"
    (folder / "train.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name in ("valid", "test"):
        (folder / f"{name}.tsv").write_text("\n".join(draw.sample(rows, 5)) + "\n", encoding="utf-8")
    data: dict[str, Any] = {"src_lang": "de", "tgt_lang": "en"}
    data |= {name: {"tsv": f"{name}.tsv", "header": False} for name in ("train", "valid", "test")}
    for name, filters in (("plain", {}), ("filtered", {"filters": FILTERS})):
        values = {"data": data | filters, "tokenizer": {"vocab_size": 400}, "model": MODEL, "training": TRAINING}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


def start(work: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a job in a separate process group; standard output and errors go to two files."""
    with (folder / "printed").open("wb") as printed, (folder / "said").open("ab") as said:
        command = [sys.executable, "-m", "nmt", *WORKS[work]]
        return subprocess.Popen(command, cwd=folder, stdout=printed, stderr=said, start_new_session=True)


def hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of the files in `folder/out`, including hidden ones, except files that contain clocks."""
    clocks = {"metrics.jsonl", "run.json", "index.json", "training.safetensors", "README.md"}
    found = {}
    for path in sorted((folder / "out").rglob("*")):
        if path.is_file() and path.name not in clocks:
            found[str(path.relative_to(folder / "out"))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def whole(work: str, folder: Path) -> Whole:
    """Run a job to its end."""
    started = time.perf_counter()
    code = start(work, folder).wait()
    if code:
        raise SystemExit(f"{work}: exit code {code}\n{(folder / 'said').read_text(errors='replace')[-2000:]}")
    return Whole((folder / "printed").read_bytes(), hashes(folder), time.perf_counter() - started)


def has_ended(group: int) -> bool:
    """Wait until no process of a group is left; return False if one remains."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def is_leftover(name: str) -> bool:
    """Return whether a file was left by a killed process under a temporary name."""
    return any(part.startswith(".") and part.endswith((".partial", ".old", ".lock")) for part in Path(name).parts)


def faults_of_kill(work: str, folder: Path, expected: Whole, moment: float) -> list[str]:
    """Kill a job after `moment` seconds, check its files, and run it again; return what is wrong."""
    process = start(work, folder)
    time.sleep(moment)
    process.kill()
    process.wait()
    faults = [] if has_ended(process.pid) else ["a process outlives the one that was killed"]
    for name, value in hashes(folder).items():
        if not is_leftover(name) and value != expected.files.get(name):
            faults.append(f"{name} is not whole")
    again = whole(work, folder)
    faults += [f"{name} differs" for name in again.files if again.files[name] != expected.files.get(name)]
    faults += [f"{name} is missing" for name in expected.files if name not in again.files]
    return faults + ([] if again.printed == expected.printed else ["it printed something else"])


def torture(kills: int, works: list[str], seed: int) -> int:
    """Kill each of the jobs `works` in turn; return the exit code."""
    draw, lost = random.Random(seed), 0
    with tempfile.TemporaryDirectory(prefix="torture-data-") as name:
        corpus = Path(name) / "corpus"
        corpus.mkdir()
        write_corpus(corpus)
        expected: dict[str, Whole] = {}
        for number in range(kills):
            work = works[number % len(works)]
            folder = Path(name) / f"kill-{number}"
            if work not in expected:
                shutil.copytree(corpus, Path(name) / work)
                expected[work] = whole(work, Path(name) / work)
            shutil.copytree(corpus, folder)
            moment = draw.uniform(0, expected[work].seconds)
            faults = faults_of_kill(work, folder, expected[work], moment)
            lost += bool(faults)
            sys.stdout.write(f"{work}, killed after {moment:.1f} s: {'; '.join(faults) or 'identical'}\n")
            sys.stdout.flush()
            shutil.rmtree(folder)
    sys.stdout.write(f"kills {kills}, identical {kills - lost}, lost {lost}\n")
    return 1 if lost else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=20, help="how many times to kill (20)")
    parser.add_argument("--works", nargs="*", default=list(WORKS), choices=list(WORKS), help="which (all)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed for the moments (from the clock)")
    given = parser.parse_args()
    sys.stdout.write(f"seed {given.seed}\n")
    sys.exit(torture(given.kills, given.works, given.seed))
