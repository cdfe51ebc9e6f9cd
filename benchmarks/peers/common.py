"""Shared by the programs of all peers, in any environment: job, token ids, batches, a line of JSON. No torch."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

UNK, PAD, BOS, EOS = 0, 1, 2, 3

Pair = tuple[list[int], list[int]]


def read_job() -> dict[str, Any]:
    """Return the job, which is the program's only argument, a JSON object."""
    return json.loads(sys.argv[1])


def report(packages: Sequence[str], **values: Any) -> None:
    """Print the result, with the versions of `packages`."""
    versions = {name: version(name) for name in packages}
    sys.stdout.write(json.dumps({**values, "versions": versions}) + "\n")


def report_forced(job: dict[str, Any], packages: Sequence[str], seconds: float) -> None:
    """Print the result of translating all sentences in `seconds`, each to an output of the job's `length`."""
    num_sentences = job["num_sentences"]
    rate = {"tokens_per_s": num_sentences * job["length"] / seconds, "seconds": seconds}
    report(packages, **rate, mean_ms=1000 * seconds / num_sentences)


def read_ids(path: str | Path) -> list[list[int]]:
    """Read token ids, one sentence per line."""
    with open(path, encoding="utf-8") as file:
        return [[int(token) for token in line.split()] for line in file]


def read_pairs(job: dict[str, Any]) -> list[Pair]:
    """Return the training pairs of the workload, without specials."""
    src, tgt = (read_ids(Path(job["workload"]) / f"train.{side}.ids") for side in ("src", "tgt"))
    return list(zip(src, tgt, strict=True))


def batches(pairs: list[Pair], batch_tokens: int, seed: int = 1) -> Iterator[list[Pair]]:
    """Yield batches of similar length with sentences x longest side (eos counted) <= `batch_tokens`, without end."""
    draw = random.Random(seed)
    ordered = sorted(pairs, key=lambda pair: (max(map(len, pair)), len(pair[1]), len(pair[0])))
    filled: list[list[Pair]] = []
    for pair in ordered:
        longest = max(map(len, pair)) + 1
        if not filled or (len(filled[-1]) + 1) * longest > batch_tokens:
            filled.append([])
        filled[-1].append(pair)
    while True:
        draw.shuffle(filled)
        yield from filled


def steady_rate(step: Callable[[], int], skip_seconds: float, seconds: float) -> dict[str, float]:
    """Return the tokens per second of `step`, whose calls return their number of tokens, after `skip_seconds`."""
    began = time.perf_counter()
    while True:
        step()
        if time.perf_counter() - began >= skip_seconds:
            break
    tokens, steps, began = 0, 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        tokens += step()
        steps += 1
    return {"tokens_per_s": tokens / passed, "tokens": tokens, "seconds": passed, "steps": steps}


def logged_rate(
    command: Sequence[str], read_tokens: Callable[[str, float], float | None], job: dict[str, Any]
) -> dict[str, float]:
    """Start a trainer with `command`, return the tokens per second in its log, and stop it after enough log lines.

    `read_tokens(line, seconds)` returns the target tokens reported in a log line, `seconds` after the previous report;
    None for other lines. Timing starts with the first report that is `skip_seconds` after the very first one.
    """
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    seen: list[str] = []
    tokens, reports, passed = 0.0, 0, 0.0
    first = before = start = None
    try:
        for line in process.stdout:
            now = time.perf_counter()
            found = read_tokens(line, now - (before or now))
            seen = [*seen[-15:], line]
            if found is None:
                continue
            first, before = first or now, now
            if start is None:
                start = now if now - first >= job["skip_seconds"] else None
                continue
            tokens, reports, passed = tokens + found, reports + 1, now - start
            if passed >= job["seconds"]:
                return {"tokens_per_s": tokens / passed, "tokens": tokens, "seconds": passed, "reports": reports}
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    sys.exit("the trainer ended too early; its output:\n" + "".join(seen))


def write_configuration(path: Path, values: dict[str, Any]) -> Path:
    """Write the configuration of a trainer as YAML."""
    import yaml  # not in every environment

    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


def log_figure(command: Sequence[str], pattern: re.Pattern[str], environment: dict[str, str]) -> float:
    """Run `command` to its end; return the last number in its output that `pattern` finds."""
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = pattern.findall(done.stdout)
    if done.returncode or not found:
        sys.exit(f"exit code {done.returncode}; output:\n{done.stdout[-3000:]}")
    return float(found[-1])


def head(path: Path, count: int, copy: Path) -> Path:
    """Write the first `count` lines of `path` to `copy`."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    copy.write_text("".join(lines[:count]), encoding="utf-8")
    return copy
