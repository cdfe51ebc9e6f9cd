"""Kill a training at random moments, damage its files, fill its disk, and check that the result is the same.

    python scripts/torture.py --kills 50

Trains a tiny model to the end without interruption, in five configurations, one of them with stages. Then repeats these
trainings, ends each by `kill -9` at a random moment, resumes it (and sometimes kills it again), and compares it with
the uninterrupted training bit for bit: weights, index, training state, and metrics except for their clocks. Then tries
other faults: SIGTERM, Ctrl-C, a flipped byte, a truncated file, a full disk. Exit code 1 if anything was lost or
differs.

Each training is a separate process, forked from one that has already imported torch: the kill is real, and the start is
cheap.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

from nmt.apps import cli
from nmt.artifacts.rundir import RunDir
from nmt.evaluation import score
from nmt.evaluation.plots import read_metrics
from nmt.training import run as training_run
from nmt.training.state import TrainState

assert training_run  # imported here once instead of by each child

CLOCKS = {
    "tokens_per_second",
    "flops_per_second",
    "utilization",
    "train_seconds",
    "seconds",
    "reading_share",
    "reading_seconds",
}
MODEL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1}
MODEL |= {"max_src_len": 16, "max_tgt_len": 16}
TRAINING: dict[str, Any] = {"batch_tokens": 128, "max_updates": 20, "warmup_updates": 4, "validate_every": 3}
TRAINING |= {"log_every": 2, "lr": 3e-3, "device": "cpu", "threads": 1, "keep_checkpoints": 2, "average_checkpoints": 2}
# `max_minutes` is enough for all updates; with less, the number of updates would depend on the clock.
VARIANTS: dict[str, dict[str, Any]] = {
    "fp32, accumulation": {
        "precision": "fp32",
        "tokens_per_update": 200,
    },
    # The learning rate grows until the loss rises, whatever the model has learned, so patience runs out.
    "bf16, patience": {
        "precision": "bf16",
        "early_stopping_patience": 2,
        "early_stopping_metric": "loss",
        "lr": 10.0,
        "warmup_updates": 19,
    },
    "stages": {
        "precision": "fp32",
        "max_minutes": 1000.0,
        "model": {"positions": "rotary", "tied_embeddings": "target"},
        "lexical_start": True,
        "stages": [
            {"max_updates": 4, "copy_targets": True, "warmup_updates": 2, "weights": [1, 0]},
            {"max_updates": 3, "weights": [1, 0], "both_directions": True, "schedule": "constant", "warmup_updates": 1},
            {"max_updates": 8, "weights": [1, 2], "lr": 1e-3, "schedule": "cosine"},
            {"max_updates": 5, "label_smoothing": 0.2},
        ],
    },
    "bf16": {"precision": "bf16"},
    "wsd, minutes": {
        "precision": "fp32",
        "schedule": "wsd",
        "max_minutes": 1000.0,
        "model": {"qk_norm": True, "activation": "relu2"},
    },
    "fp32, phrase table": {"precision": "fp32", "words": True},
}
WORDS = ["bufa", "dole", "fika", "gemo", "hilu", "kane", "lomi", "mute", "nora", "pasi", "rube", "savo"]


class Reference(NamedTuple):
    """An uninterrupted training: its configuration, its run, and its duration."""

    config: Path
    run: RunDir
    seconds: float


def say(line: str) -> None:
    """Print a line and flush it, even if the output is a file or a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write_corpus(folder: Path) -> None:
    """Write digits and their reverse: 150 pairs, so that a training has several epochs; 40 copied digits; and words."""
    draw = random.Random(7)
    for split, count in (("train", 150), ("valid", 8), ("test", 8), ("copies", 40)):
        rows = ["".join(draw.choices("0123456789", k=draw.randint(2, 6))) for _ in range(count)]
        pairs = [(row, row if split == "copies" else row[::-1]) for row in rows]
        (folder / f"{split}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    for split, count in (("train", 600), ("valid", 24), ("test", 8)):  # enough for a phrase table
        sentences = [draw.choices(WORDS, k=draw.randint(2, 5)) for _ in range(count)]
        lines = [f"{' '.join(words)}\t{' '.join(word[::-1] for word in words)}\n" for words in sentences]
        (folder / f"words-{split}.tsv").write_text("".join(lines), encoding="utf-8")


def write_config(folder: Path, name: str, training: dict[str, Any]) -> Path:
    """Write a configuration for the corpus in `folder`, and return its path."""
    has_words = training.get("words", False)
    prefix = "words-" if has_words else ""
    data: dict[str, Any] = {
        split: {"tsv": str(folder / f"{prefix}{split}.tsv")} for split in ("train", "valid", "test")
    }
    if "stages" in training:
        data["train"] = [data["train"], {"tsv": str(folder / "copies.tsv"), "tag": "<copy>"}]
    values = {
        "data": {"src_lang": "en", "tgt_lang": "en", **data},
        "tokenizer": {"type": "bpe" if has_words else "char", "vocab_size": 300},
        "model": MODEL | training.get("model", {}),
        "training": TRAINING | {key: value for key, value in training.items() if key not in ("model", "words")},
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def spawn(config: Path, run: Path) -> int:
    """Start or resume a training, by the command line, in a forked process; return its id."""
    arguments = ["train", "--config", str(config), "--run", str(run)]
    if (run / "config.yaml").is_file():
        arguments.append("--resume")
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        said = os.open(run.parent / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.argv = ["nmt", *arguments]
        cli.main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    finally:
        sys.stderr.flush()
        os._exit(code)  # without the cleanup of the parent process


def end_of(pid: int) -> int:
    """Wait for a process; return its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def differences(reference: RunDir, run: RunDir) -> list[str]:
    """Return the names of the parts that differ from the uninterrupted run."""
    found = []
    if reference.index_file.read_bytes() != run.index_file.read_bytes():
        found.append("index.json")
    for name in reference.index().checkpoints:
        path = run.checkpoint(name)
        if not path.exists() or path.read_bytes() != reference.checkpoint(name).read_bytes():
            found.append(path.name)
    tables = [each.phrases.read_bytes() if each.phrases.exists() else None for each in (reference, run)]
    if tables[0] != tables[1]:
        found.append("phrases.safetensors")
    if without_clocks(read_metrics(reference.metrics)) != without_clocks(read_metrics(run.metrics)):
        found.append("metrics.jsonl")
    if not same(state_of(reference), state_of(run)):
        found.append("the training state")
    found += [str(path) for path in run.path.parent.rglob(".*") if path.name.endswith((".partial", ".old", ".lock"))]
    return found


def state_of(run: RunDir) -> dict[str, Any]:
    """Return the training state without its clocks."""
    state = TrainState.load(run.state)
    tensors = {name: tensor for name, tensor in state.to_tensors().items() if name != "counters"}
    return {"counters": without_clocks(state.counters.model_dump()), "tensors": tensors}


def without_clocks(value: Any) -> Any:
    """Return `value` without the values that depend on the clock."""
    if isinstance(value, dict):
        return {key: without_clocks(item) for key, item in value.items() if key not in CLOCKS}
    return [without_clocks(item) for item in value] if isinstance(value, list | tuple) else value


def same(a: Any, b: Any) -> bool:
    """Return whether two values are equal; tensors must be bit-identical."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def wait_for_checkpoints(run: RunDir, pid: int, count: int) -> None:
    """Wait until the index lists `count` checkpoints, or the process has ended."""
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if run.index_file.exists() and len(json.loads(run.index_file.read_text())["checkpoints"]) >= count:
            return
        time.sleep(0.002)


def kill(run: RunDir, pid: int) -> int:
    """Kill the process with signal 9 once there are two checkpoints."""
    wait_for_checkpoints(run, pid, 2)
    os.kill(pid, signal.SIGKILL)
    return end_of(pid)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def halve(path: Path) -> None:
    """Truncate a file."""
    os.truncate(path, path.stat().st_size // 2)


def newest_weights(run: RunDir) -> Path:
    """Return the checkpoint that the index lists last."""
    return run.checkpoint(str(run.index().last))


def stopped_by(number: signal.Signals) -> Callable[[RunDir, int], int]:
    """Return a case that sends a signal during training, which ends it with a specific exit code."""

    def case(run: RunDir, pid: int) -> int:
        wait_for_checkpoints(run, pid, 1)
        os.kill(pid, number)
        return end_of(pid)

    return case


def damaged(what: Callable[[RunDir], Path], how: Callable[[Path], None]) -> Callable[[RunDir, int], int]:
    """Return a case that kills the training and then damages a file."""

    def case(run: RunDir, pid: int) -> int:
        code = kill(run, pid)
        how(what(run))
        return code

    return case


def full_disk(run: RunDir, pid: int) -> int:
    """Prevent files from growing after the first checkpoint, as on a full disk."""
    wait_for_checkpoints(run, pid, 1)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (2000, 2000))
    return end_of(pid)


CASES: dict[str, tuple[Callable[[RunDir, int], int], int, str]] = {
    "SIGTERM": (stopped_by(signal.SIGTERM), 143, "stopped; the state is saved. Resume with: nmt train --resume"),
    "Ctrl-C": (stopped_by(signal.SIGINT), 130, "stopped; the state is saved. Resume with: nmt train --resume"),
    "state, a flipped bit": (damaged(lambda run: run.state, flip), -9, "continuing from the previous training state"),
    "state, cut short": (damaged(lambda run: run.state, halve), -9, "continuing from the previous training state"),
    "weights, a flipped bit": (damaged(newest_weights, flip), -9, ""),
    "weights, cut short": (damaged(newest_weights, halve), -9, ""),
    "full disk": (full_disk, 1, "after freeing space, continue with: nmt train --resume"),
}


class Tally:
    """The outcomes of all cases so far."""

    def __init__(self) -> None:
        self.kills = self.resumed = self.identical = 0
        self.lost: list[str] = []

    def finish(self, name: str, reference: Reference, run: RunDir, kills: int = 0) -> str:
        """Resume to the end, compare, and count; return the fault, if any."""
        code = end_of(spawn(reference.config, run.path))
        fault = f"exit code {code}" if code else ", ".join(differences(reference.run, run))
        self.resumed += kills if code == 0 else 0
        self.identical += 0 if fault else kills
        if fault:
            said = (run.path.parent / "said.txt").read_text(encoding="utf-8", errors="replace")
            self.lost.append(f"{name}: {fault}\n{said[-2000:]}")
        return fault


def undisturbed(folder: Path, name: str, training: dict[str, Any]) -> Reference:
    """Train to the end, for comparison."""
    config = write_config(folder, name.replace(", ", "-"), training)
    place = folder / f"whole {name}"
    place.mkdir()
    started = time.perf_counter()
    code = end_of(spawn(config, place / "run"))
    assert code == 0, (place / "said.txt").read_text()
    run, seconds = RunDir(place / "run"), time.perf_counter() - started
    stopped_early = TrainState.load(run.state).counters.update < TRAINING["max_updates"]
    assert stopped_early == ("early_stopping_patience" in training), f"{name}: patience is not tried"
    return Reference(config, run, seconds)


def random_kills(references: list[Reference], folder: Path, wanted: int, draw: random.Random, tally: Tally) -> None:
    """Kill trainings, once or more, at moments drawn uniformly over their whole length."""
    trial = 0
    while tally.kills < wanted:
        trial += 1
        reference = references[trial % len(references)]
        place = folder / f"kill {trial}"
        place.mkdir()
        run, kills = RunDir(place / "run"), 0
        while kills == 0 or (tally.kills < wanted and draw.random() < 0.3):
            pid = spawn(reference.config, run.path)
            time.sleep(draw.uniform(0, reference.seconds))
            os.kill(pid, signal.SIGKILL)
            if end_of(pid) != -signal.SIGKILL:  # it ended before
                break
            kills += 1
            tally.kills += 1
        tally.finish(f"kill {trial}", reference, run, kills)
        shutil.rmtree(place)


def all_cases(references: list[Reference], folder: Path, names: list[str], tally: Tally) -> None:
    """Run all other cases of interruption and damage, and print each outcome."""
    for number, name in enumerate(names):
        case, expected, word = CASES[name]
        reference = references[number % len(references)]
        place = folder / f"case {number}"
        place.mkdir()
        run = RunDir(place / "run")
        code = case(run, spawn(reference.config, run.path))
        fault = tally.finish(name, reference, run)
        said = (place / "said.txt").read_text(encoding="utf-8")
        if code != expected or word not in said:
            fault = f"exit code {code}, not {expected}, or not said: {word}"
            tally.lost.append(f"{name}: {fault}\n{said[-2000:]}")
        say(f"{name}: exit code {code}, resumed, {fault or 'identical'}")
        shutil.rmtree(place)


def main(kills: int, cases: list[str], seed: int) -> int:
    """Return the exit code."""
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.zeros(1)])  # triggers imports that would take each child as long as its training
    score(["1"], ["1"], "en")
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        folder = Path(name)
        write_corpus(folder)
        references = [undisturbed(folder, variant, training) for variant, training in VARIANTS.items()]
        random_kills(references, folder, kills, random.Random(seed), tally)
        all_cases(references, folder, cases, tally)
    for fault in tally.lost:
        say(f"LOST: {fault}")
    say(f"kills {tally.kills}, resumed {tally.resumed}, identical {tally.identical}, lost {len(tally.lost)}")
    return 1 if tally.lost else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=50, help="how many times to kill (50)")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), help="other cases to run (all)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed for the moments (from the clock)")
    given = parser.parse_args()
    say(f"seed {given.seed}")
    sys.exit(main(given.kills, given.cases, given.seed))
