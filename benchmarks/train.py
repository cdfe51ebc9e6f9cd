"""Compare the training speed of nmt with its peers: same data, model and threads; alternating runs; medians.

    .venv/bin/python benchmarks/train.py --systems nmt,hf-marian,nn-transformer --seconds 60 --repeats 3 --json OUT

Measures target tokens per second, eos included, padding excluded, after the first seconds. See
docs/how-to/benchmark.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from environments import python_of
from harness import (
    HERE,
    Contender,
    WorkerError,
    claim_machine,
    clean_environment,
    command_line,
    foreign_environment,
    keep,
    make_parser,
    measure_once,
    names,
    ratio,
    run_worker,
    say,
    show_faults,
    spread,
    table,
    tail,
    take_turns,
)
from workload import Workload, prepare, write_config

from nmt.artifacts.rundir import RunDir
from nmt.data.tokens.tokenizer import TokenizerPair

# The precisions of each system; `auto` is nmt's default.
PRECISIONS = {
    "nmt": ("auto", "fp32", "bf16"),
    "hf-marian": ("fp32", "bf16"),
    "nn-transformer": ("fp32", "bf16"),
    "opennmt-py": ("fp32",),
    "joeynmt": ("fp32",),
}
# Settings to try once each; the fastest is measured.
SETTINGS: dict[str, list[dict[str, Any]]] = {"hf-marian": [{"attention": "sdpa"}, {"attention": "eager"}]}
COLUMNS = {
    "system": "system",
    "precision": "precision",
    "setting": "setting",
    "tokens_per_s": "tokens/s",
    "min": "min",
    "max": "max",
    "to_best_fp32_peer": "x best fp32 peer",
    "to_best_peer": "x best peer",
}


def main() -> None:
    """Measure, print the table, save the JSON. Exit code 1 if a system could not be measured."""
    options = read_options()
    threads, facts = claim_machine(options.threads)
    workload = prepare(options.cache / "work", options.quick)
    contenders = [
        contender
        for system in options.systems
        for precision in PRECISIONS[system]
        if precision in options.precisions
        for contender in [make_contender(system, precision, workload, threads, options)]
    ]
    take_turns(contenders, options.repeats)
    rows = make_rows(contenders)
    faults = {contender.name: contender.fault for contender in contenders if contender.fault}
    sys.stdout.write(table(rows, COLUMNS))
    show_faults(faults)
    asked = {name: getattr(options, name) for name in ("seconds", "skip_seconds", "repeats", "num_processes")}
    keep(
        options.json,
        {
            "benchmark": "train",
            "command": command_line(),
            "machine": facts,
            "workload": workload.facts(),
            "config": asked,
            "rows": rows,
            "faults": faults,
        },
    )
    sys.exit(1 if faults else 0)


def read_options() -> argparse.Namespace:
    """Parse the command line; `--quick` changes the default values."""
    parser = make_parser(__doc__, PRECISIONS)
    parser.add_argument("--precisions", type=names, help="comma-separated: auto, fp32, bf16 (all)")
    parser.add_argument("--seconds", type=float, help="seconds of training in each measurement (60)")
    parser.add_argument("--skip-seconds", type=float, help="seconds of training before each measurement (5)")
    parser.add_argument("--num-processes", type=int, help="for nmt train --num-processes (its default)")
    options = parser.parse_args()
    full = {"systems": ["nmt", "hf-marian", "nn-transformer"], "seconds": 60.0, "skip_seconds": 5.0, "repeats": 3}
    quick = {"systems": ["nmt", "nn-transformer"], "seconds": 0.5, "skip_seconds": 0.1, "repeats": 1}
    full["precisions"], quick["precisions"] = ["auto", "fp32", "bf16"], ["auto", "fp32"]
    for name, value in (quick if options.quick else full).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.envs = options.envs or options.cache / "envs"
    if unknown := set(options.systems) - PRECISIONS.keys():
        parser.error(f"no such system: {', '.join(sorted(unknown))}; there are {', '.join(PRECISIONS)}")
    return options


def make_contender(
    system: str, precision: str, workload: Workload, threads: int, options: argparse.Namespace
) -> Contender:
    """Return `system` in `precision`, at the fastest of its settings."""
    scratch = options.cache.resolve() / "train" / f"{system}-{precision}"
    if system == "nmt":
        return Contender(system, precision, lambda: measure_nmt(precision, workload, scratch, options))
    try:
        python = Path(sys.executable) if options.quick else python_of(system, options.envs)
    except WorkerError as error:
        return Contender(system, precision, dict, fault=f"pip could not install it:\n{error}")
    tried = []
    for setting in SETTINGS.get(system, [{}]):
        job = make_job(precision, workload, threads, options) | {"scratch": str(scratch)} | setting

        def measure(job: dict[str, Any] = job) -> dict[str, Any]:
            program = HERE / "peers" / f"{system.replace('-', '_')}_train.py"
            limit = 4 * (job["seconds"] + job["skip_seconds"]) + 300
            return run_worker([python, program, json.dumps(job)], foreign_environment(threads), limit)

        tried.append(Contender(system, precision, measure, setting))
    return fastest(tried) if len(tried) > 1 else tried[0]


def fastest(tried: list[Contender]) -> Contender:
    """Measure each of `tried` once and return the fastest; that measurement is not counted."""
    say(f"trying the settings of {tried[0].system} {tried[0].precision}")
    for contender in tried:
        measure_once(contender)
        if contender.results:
            say(f"    {contender.results[0]['tokens_per_s']:,.0f} tokens/s")
    working = [contender for contender in tried if contender.results]
    if not working:
        return tried[0]
    best = max(working, key=lambda contender: contender.results[0]["tokens_per_s"])
    best.results.clear()
    return best


def make_job(precision: str, workload: Workload, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the job description of a peer's program."""
    size = {name: value for name, value in workload.facts().items() if name != "corpus"}
    return {
        **size,
        "vocab_size": TokenizerPair.load(workload.tokenizer).src.vocab_size,
        "workload": str(workload.folder),
        "precision": precision,
        "threads": threads,
        "seconds": options.seconds,
        "skip_seconds": options.skip_seconds,
    }


def measure_nmt(precision: str, workload: Workload, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run `nmt train` until its log covers the requested time; return the rate in the log."""
    endless = {"max_updates": 10_000_000, "validate_every": 10_000_000, "log_every": 2, "lr": 1e-3}
    scratch.mkdir(parents=True, exist_ok=True)
    config = write_config(scratch / "config.yaml", workload.config(endless))
    run = RunDir(scratch / "run")
    shutil.rmtree(run.path, ignore_errors=True)
    command = [sys.executable, "-m", "nmt", "train", "--config", str(config), "--run", str(run.path)]
    if precision != "auto":
        command += ["--set", f"training.precision={precision}"]
    if options.num_processes is not None:
        command += ["--num-processes", str(options.num_processes)]
    with open(scratch / "log.txt", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, env=clean_environment(), stdout=log, stderr=log, start_new_session=True)
        try:
            rate = watch(process, run.metrics, options)
        except WorkerError as error:
            raise WorkerError(f"{error}; it wrote:\n{tail((scratch / 'log.txt').read_text())}") from None
        finally:
            stop(process)
    info = run.read_json(run.info_file)
    versions = {name: info[name] for name in ("nmt", "torch")}
    return {**rate, "precision": info["precision"], "threads": info["threads"], "versions": versions}


def watch(process: subprocess.Popen[bytes], metrics: Path, options: argparse.Namespace) -> dict[str, float]:
    """Wait until the run's log covers the requested seconds. WorkerError if the run ends, or is silent for too long."""
    deadline = time.monotonic() + 4 * (options.seconds + options.skip_seconds) + 300
    while time.monotonic() < deadline:
        rate = steady_rate(metrics, options.skip_seconds)
        if rate["seconds"] >= options.seconds:
            return rate
        if process.poll() is not None:
            raise WorkerError(f"nmt train ended with exit code {process.returncode}")
        time.sleep(0.2)
    raise WorkerError("nmt train took too long")


def steady_rate(metrics: Path, skip_seconds: float) -> dict[str, float]:
    """Return target tokens per second of training from `metrics.jsonl`, without the first `skip_seconds`."""
    text = metrics.read_text(encoding="utf-8") if metrics.exists() else ""
    whole = text[: text.rfind("\n") + 1].splitlines()  # the last line may be incomplete
    tokens = seconds = before = 0.0
    for record in map(json.loads, whole):
        if record["kind"] != "train":
            continue
        passed = record["train_seconds"] - before
        if before >= skip_seconds:
            tokens += record["tokens_per_second"] * passed
            seconds += passed
        before = record["train_seconds"]
    return {"tokens_per_s": tokens / seconds if seconds else 0.0, "tokens": round(tokens), "seconds": seconds}


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the run with all its workers: politely, then by force."""
    for sign, patience in ((signal.SIGINT, 30), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, sign)
            process.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def make_rows(contenders: list[Contender]) -> list[dict[str, Any]]:
    """Return a row per measured contender, with its ratio to the fastest peer, in fp32 and in any precision."""
    rows = []
    for contender in contenders:
        if contender.fault or not contender.results:
            continue
        last = contender.results[-1]
        figures = spread([result["tokens_per_s"] for result in contender.results])
        precision = f"auto ({last['precision']})" if contender.precision == "auto" else contender.precision
        rows.append(
            {
                "system": contender.system,
                "precision": precision,
                "setting": contender.setting,
                "tokens_per_s": figures["median"],
                **figures,
                "versions": last["versions"],
            }
        )
    peers = [row for row in rows if row["system"] != "nmt"]
    in_any = max((row["tokens_per_s"] for row in peers), default=None)
    in_fp32 = max((row["tokens_per_s"] for row in peers if row["precision"] == "fp32"), default=None)
    for row in rows:
        row["to_best_fp32_peer"] = ratio(row["tokens_per_s"], in_fp32)
        row["to_best_peer"] = ratio(row["tokens_per_s"], in_any)
    return rows


if __name__ == "__main__":
    main()
