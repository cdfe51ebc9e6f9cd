"""Measure how cost grows with the corpus: `python benchmarks/scale.py --src train.de --tgt train.en --run RUN`.

Makes corpora of each size from a real one: every pair joins two of its pairs, drawn at random. Measures, each in its
own process, `nmt data check`, the preparation of a training (`benchmarks/corpus.py`), updates of a training, and
`nmt translate`; then the sum of the gradients over processes, and training in processes.
Adds each figure to the JSON as it comes, once per size: the growth is wanted, not the last percent.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from harness import HERE, command_line, machine, names, say, use_cores

LINES = 100_000  # at most, of `nmt translate`
PARAMETERS = (5_000_000, 60_000_000)  # of a small model, and of Transformer base
PROCESSES = (1, 2, 4)


def joined(src: Path, tgt: Path, count: int) -> Iterator[str]:
    """Yield `count` pairs, tab-separated, each of two pairs of the corpus."""
    sides = [path.read_text(encoding="utf-8").replace("\t", " ").splitlines() for path in (src, tgt)]
    pairs = list(zip(*sides, strict=True))
    draw = random.Random(5)
    for _ in range(count):
        (left, right), (more_left, more_right) = draw.choice(pairs), draw.choice(pairs)
        yield f"{left} {more_left}\t{right} {more_right}\n"


def timed(command: Sequence[str | Path]) -> dict[str, Any]:
    """Run a command; return its seconds, those of processors, the peak memory of its largest process, its output."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"exit status {os.waitstatus_to_exitcode(status)}: {command}")
    seconds = round(time.perf_counter() - started, 2)
    cpu = round(usage.ru_utime + usage.ru_stime, 2)  # of its workers, too; a busy machine hardly changes it
    return {"seconds": seconds, "cpu_s": cpu, "peak_mb": usage.ru_maxrss >> 10, "printed": printed}


def check(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Check the corpus in one process."""
    languages = ["--src-lang", options.src.suffix[1:], "--tgt-lang", options.tgt.suffix[1:]]
    corpus = folder / "train.tsv"
    return timed(["-m", "nmt", "data", "check", "--corpus", corpus, *languages, "--workers", "1"])


def store(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train a tokenizer and tokenize the corpus."""
    result = timed([HERE / "corpus.py", "--measure", "--pairs", folder.name, "--folder", folder.parent])
    return result | json.loads(result["printed"])


def train(folder: Path, options: argparse.Namespace, processes: int = 1) -> dict[str, Any]:
    """Prepare the corpus with the tokenizer of the run, and train for some updates."""
    settings: dict[str, object] = {
        f"data.{part}": json.dumps({"tsv": str(folder / f"{part}.tsv")}) for part in ("train", "valid", "test")
    }
    settings |= {"tokenizer.path": options.run / "tokenizer", "training.max_updates": 60}
    settings |= {"training.warmup_updates": 20, "training.log_every": 20, "training.threads": 1}
    settings |= {"training.batch_tokens": 1024, "data.store_dir": folder / "stores"}
    run = folder / f"run-{processes}"
    command: list[str | Path] = ["-m", "nmt", "train", "--config", HERE.parent / "configs" / "multi30k-de-en.yaml"]
    command += ["--run", run, "--overwrite", "--num-processes", str(processes)]
    result = timed([*command, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))])
    lines = (run / "logs" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    last = [json.loads(line) for line in lines if '"kind": "train"' in line][-1]
    per_update = round(last["train_seconds"] / last["update"], 3)
    return result | {"s_per_update": per_update, "processes": processes}


def translate(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Translate the source side."""
    lines, output = folder / "lines.txt", folder / "lines.out"
    command = ["-m", "nmt", "translate", "--model", options.run, "-i", lines, "-o", output, "--device", "cpu"]
    return timed(command) | {"lines": int(folder.name)}


def exchange(rank: int, processes: int, address: str) -> None:
    """Print the milliseconds in which `processes` sum the gradients of models of `PARAMETERS`."""
    import torch  # here: on Linux, the peak memory of a process starts with that of its parent
    from torch import distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{address}", rank=rank, world_size=processes, timeout=timedelta(seconds=60)
    )
    for count in PARAMETERS:
        gradient = torch.zeros(count)
        dist.all_reduce(gradient)
        started = time.perf_counter()
        for _ in range(5):
            dist.all_reduce(gradient)
        if rank == 0:
            sys.stdout.write(f"{round(200 * (time.perf_counter() - started), 1)} ")
    dist.destroy_process_group()


def exchanged(folder: Path, processes: int) -> dict[str, Any]:
    """Sum gradients over processes of this machine."""
    address = folder / f"exchange-{processes}"
    address.unlink(missing_ok=True)
    shown: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, __file__, "--exchange", str(processes), str(address)]
    ranks = [subprocess.Popen([*command, str(rank)], **shown) for rank in range(processes)]
    milliseconds = [float(each) for each in ranks[0].communicate()[0].split()]
    if any(process.wait() for process in ranks):
        raise SystemExit("a process that sums gradients failed")
    return {"processes": processes, "ms": dict(zip(map(str, PARAMETERS), milliseconds, strict=True))}


def main() -> None:
    """Measure all sizes, smallest first; save after each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--src", type=Path, required=True, help="corpus whose pairs are joined, with --tgt")
    parser.add_argument("--tgt", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True, help="a trained run, for translating and its tokenizer")
    parser.add_argument(
        "--sizes", type=lambda text: [int(n) for n in names(text)], default=[10_000, 100_000, 1_000_000]
    )
    parser.add_argument("--works", type=names, default=["check", "store", "train", "translate", "processes"])
    parser.add_argument("--folder", type=Path, default=Path("build/bench/scale"))
    parser.add_argument("--json", type=Path, required=True, help="file for the result; kept figures are not repeated")
    options = parser.parse_args()
    result: dict[str, Any] = (
        json.loads(options.json.read_text()) if options.json.exists() else {"benchmark": "scale", "rows": []}
    )
    result |= {"command": command_line(), "machine": machine(use_cores(0))}

    def add(work: str, size: int, figures: dict[str, Any]) -> None:
        figures = {name: value for name, value in figures.items() if name not in ("printed", "said")}
        result["rows"].append({"work": work, "size": size, **figures})
        say(json.dumps(result["rows"][-1]))
        options.json.write_text(json.dumps(result, indent=1) + "\n")

    works: dict[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
        "check": check, "store": store, "train": train, "translate": translate,
    }  # fmt: skip
    for size in options.sizes:
        folder = options.folder.resolve() / str(size)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for part, count in (("train", size), ("valid", 100), ("test", 100)):
            with open(folder / f"{part}.tsv", "w", encoding="utf-8") as file:
                file.writelines(joined(options.src, options.tgt, count))
        with open(folder / "lines.txt", "w", encoding="utf-8") as file:
            file.writelines(line.partition("\t")[0] + "\n" for line in joined(options.src, options.tgt, size))
        for work in options.works:
            if work in works and (work != "translate" or size <= LINES):
                add(work, size, works[work](folder, options))
    folder = options.folder.resolve() / str(options.sizes[0])
    for count in PROCESSES:
        if "processes" in options.works:
            add("exchange", 0, exchanged(folder, count))
            add("processes", options.sizes[0], train(folder, options, count))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--exchange"]:
        exchange(int(sys.argv[4]), int(sys.argv[2]), sys.argv[3])
    else:
        main()
