"""Compare the translation speed of nmt with its peers: same weights if they can be exported; alternating; medians.

    .venv/bin/python benchmarks/translate.py --systems nmt,ctranslate2,hf-marian --json OUT

Measures translation in bulk, one sentence at a time, with forced output lengths, from a cold start, and of a whole file
by one command. docs/how-to/benchmark.md explains what is measured, and what the figures of each system mean.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from harness import (
    Contender,
    WorkerError,
    claim_machine,
    command_line,
    keep,
    make_parser,
    measure_once,
    names,
    ratio,
    say,
    show_faults,
    spread,
    table,
    tail,
    take_turns,
)
from translation import FORCED_BATCH, ONE_LENGTH, OURS, PRECISIONS, SAME_WEIGHTS, Bench, Job, make_bench

from nmt.evaluation import score

# The baselines for ratios, if they were measured.
BASES = (("ctranslate2", "fp32"), ("ctranslate2", "int8"), ("hf-marian", "fp32"))
MEASURES = ("bulk", "single", "forced", "cold", "file")
# Beyond this length, Joey NMT, which has no cache, would take hours, and Marian half an hour.
LONGEST_FORCED = {"joeynmt": 64, "hf-marian": 256}
SENTENCE = "I am from China"
MIN_BLEU = 15.0
"""Outputs of weaker models are no workload."""

NAMES = {"system": "system", "precision": "precision", "setting": "setting"}
SPREAD = {"median": "median", "min": "min", "max": "max"}

Row = dict[str, Any]


def main() -> None:
    """Measure, print the tables, save the JSON. Exit code 1 if a requested measurement failed."""
    options = read_options()
    threads, facts = claim_machine(options.threads)
    bench = make_bench(options, threads)
    measures: dict[str, Callable[[Bench], list[Row]]] = {
        "bulk": measure_bulk,
        "single": measure_single,
        "forced": measure_forced,
        "cold": measure_cold,
        "file": measure_file,
    }
    tables = {}
    for name in MEASURES:
        if name in options.measures:
            say(f"== {name}")
            tables[name] = measures[name](bench)
    for note in bench.notes:
        sys.stdout.write(f"note: {note}\n")
    show_faults(bench.faults)
    result = {"benchmark": "translate", "command": command_line(), "machine": facts, "run": str(bench.run.path)}
    asked = {
        "repeats": options.repeats,
        "sentences": bench.num_sentences,
        "kernel": options.kernel,
        "model": bench.run.config().model.model_dump(),
    }
    keep(options.json, {**result, "config": asked, **tables, "notes": bench.notes, "faults": bench.faults})
    sys.exit(1 if bench.faults else 0)


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = make_parser(__doc__, PRECISIONS)
    default = ["nmt", "ctranslate2", "hf-marian"]
    every = ["auto", "fp32", "bf16", "int8"]
    parser.add_argument("--precisions", type=names, default=every, help="of " + ", ".join(every))
    parser.add_argument("--measures", type=names, default=list(MEASURES), help="of " + ", ".join(MEASURES))
    parser.add_argument("--run", type=Path, help="a trained run; default: train one and keep it in CACHE")
    parser.add_argument("--kernel", help="kernel of the native engine: avx2, portable, ... (the fastest available)")
    parser.add_argument("--train-updates", type=int, help="updates of that training (600)")
    options = parser.parse_args()
    options.systems = options.systems or (["nmt"] if options.quick else default)
    options.repeats = options.repeats or (1 if options.quick else 3)
    options.train_updates = options.train_updates or (20 if options.quick else 600)
    options.envs = options.envs or options.cache / "envs"
    for given, known in ((options.systems, PRECISIONS), (options.measures, MEASURES), (options.precisions, every)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return options


def settings(system: str, threads: int) -> list[Job]:
    """Return the settings of `system` to try in bulk, on `threads` cores."""
    if system == "ctranslate2":
        shares = sorted({(threads, 1), (1, threads)})
        return [{"workers": w, "threads": t, "batch": b} for w, t in shares for b in (32, 64, 128)]
    if system in ONE_LENGTH:
        return [{"threads": threads, "batch": FORCED_BATCH}]
    if system == "nmt":  # the native engine forms no batches
        return [{}]
    sizes = (1024, 4096, 16384) if system in OURS else (32, 64, 128)  # source tokens; sentences
    own: list[Job] = [{}] if system in OURS else []
    return own + [{"threads": t, "batch": b} for t in sorted({1, threads}) for b in sizes]


def measure_bulk(bench: Bench) -> list[Row]:
    """Measure all sentences at once, each system with the fastest setting in a trial."""
    chosen, tried_rows = [], []
    for system, precision in bench.systems():
        output = str(bench.folder / f"{system}-{precision}.hyp")
        tried = [bench.contender(system, precision, "bulk", s, output=output) for s in grid(bench, system)]
        best, rows = try_settings(bench, tried, "tokens_per_s")
        tried_rows += rows
        if best is not None:
            bench.best[system, precision] = best.setting
            chosen.append(best)
    sys.stdout.write("\nbulk: settings tried once each\n")
    sys.stdout.write(table(tried_rows, {**NAMES, "tokens_per_s": "tokens/s"}))
    take_turns(chosen, bench.options.repeats)
    rows = finish(bench, chosen, "tokens_per_s")
    for row in rows:
        row["tokens_per_sentence"], row["bleu"] = bulk_quality(bench, row)
    show(
        f"bulk, {bench.num_sentences} sentences, tokens/s",
        rows,
        {"tokens_per_sentence": "tokens/sentence", "bleu": "BLEU"},
    )
    return rows


def grid(bench: Bench, system: str) -> list[Job]:
    """Return the settings to try; only two with --quick."""
    return settings(system, bench.threads)[: 2 if bench.options.quick else None]


def bulk_quality(bench: Bench, row: Row) -> tuple[float, float | None]:
    """Return tokens per sentence, and BLEU of the outputs if the weights are the run's."""
    lengths = row.pop("last").get("lengths")
    if row["system"] not in SAME_WEIGHTS:
        return sum(bench.lengths) / len(bench.lengths), None
    hypotheses = (bench.folder / f"{row['system']}-{row['precision']}.hyp").read_text(encoding="utf-8").split("\n")[:-1]
    references = bench.run.read_pairs("test")[1][: bench.num_sentences]
    bleu = score(hypotheses, references, bench.run.config().data.tgt_lang, ["bleu"])[0]
    if row["system"] == "nmt" and bleu.value < MIN_BLEU and not bench.options.quick:
        raise SystemExit(
            f"error: this model has {bleu.value:.1f} BLEU; the outputs of a weak model differ in length between "
            f"engines, so no ratio means anything: give one of {MIN_BLEU:g} BLEU or more (--run, --train-updates)"
        )
    row["bleu_signature"] = bleu.signature
    return sum(lengths) / len(lengths), bleu.value


def measure_single(bench: Bench) -> list[Row]:
    """Measure one sentence at a time: median and 95th percentile, each system with its fastest number of threads."""
    chosen = []
    count = min(bench.num_sentences, 20 if bench.options.quick else 300)
    for system, precision in bench.systems():
        choices: list[Job] = [{"threads": t} for t in sorted({1, bench.threads})]
        choices = [{}, *choices] if system in OURS and not bench.options.quick else choices
        tried = [bench.contender(system, precision, "single", s, batch=1, num_sentences=count) for s in choices]
        best, _ = try_settings(bench, tried, "mean_ms")
        if best is not None:
            chosen.append(best)
    take_turns(chosen, bench.options.repeats)
    rows = finish(bench, chosen, "mean_ms")
    for row, contender in zip(rows, (c for c in chosen if not c.fault), strict=True):
        del row["last"]
        for name in ("p50_ms", "p95_ms"):
            values = [result[name] for result in contender.results if name in result]
            row[name] = spread(values, 2)["median"] if values else None
    show(
        f"one at a time, {count} sentences, ms (ratios: of the mean, less is better)",
        rows,
        {"p50_ms": "p50", "p95_ms": "p95"},
    )
    return rows


def measure_forced(bench: Bench) -> list[Row]:
    """Measure tokens per second with forced output lengths, in batches of 64, with the best bulk setting."""
    every = []
    for length, count in bench.forced.items():
        chosen = []
        for system, precision in bench.systems():
            if length > LONGEST_FORCED.get(system, length):
                continue
            setting = {**bench.best.get((system, precision), settings(system, bench.threads)[0]), "batch": FORCED_BATCH}
            count = min(count, bench.num_sentences)
            values = {"length": length, "num_sentences": count}
            chosen.append(bench.contender(system, precision, "forced", setting, **values))
        take_turns(chosen, bench.options.repeats)
        rows = finish(bench, chosen, "tokens_per_s")
        for row in rows:
            del row["last"]
            row["length"] = length
        show(f"outputs of {length} tokens, {count} sentences in batches of {FORCED_BATCH}, tokens/s", rows, {})
        every += rows
    return every


def measure_cold(bench: Bench) -> list[Row]:
    """Measure the seconds of a program that translates one sentence, compared with `import torch`."""
    rows = measure_programs(bench, [SENTENCE], 1, {("import torch", "-"): [sys.executable, "-c", "import torch"]})
    base = next((row["median"] for row in rows if row["system"] == "import torch"), None)
    for row in rows:
        row["to_import_torch"] = ratio(row["median"], base)
    sys.stdout.write("\ncold start, one sentence, seconds\n")
    sys.stdout.write(table(rows, {**NAMES, **SPREAD, "to_import_torch": "x import torch"}))
    return rows


def measure_file(bench: Bench) -> list[Row]:
    """Measure the seconds of a program that translates a file of all sentences."""
    lines = (bench.run.data / "test.src").read_text(encoding="utf-8").split("\n")[: bench.num_sentences]
    path = bench.folder / "file.src"
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    rows = measure_programs(bench, ["--input", path], bench.num_sentences, {})
    show(f"a file of {bench.num_sentences} sentences, whole program, seconds (ratios: less is better)", rows, {})
    return rows


def measure_programs(
    bench: Bench, arguments: list[str | Path], num_sentences: int, others: dict[tuple[str, str], list[str | Path]]
) -> list[Row]:
    """Measure the seconds of whole programs: `nmt translate` with `arguments`, each peer's program, and `others`."""
    nmt = [sys.executable, "-m", "nmt", "translate", *arguments, "--model"]
    commands: dict[tuple[str, str], tuple[list[str | Path], str]] = {key: (c, "nmt") for key, c in others.items()}
    for system, precision in bench.systems():
        if system in OURS:
            asked = ["--precision", precision, "--engine", "torch" if system == "nmt-torch" else "auto"]
            commands[f"{system} translate, run", precision] = ([*nmt, bench.run.path, *asked], "nmt")
            continue
        if system not in ONE_LENGTH:
            setting = bench.best.get((system, precision), {})
            job = bench.job(system, precision, "program", **{**setting, "num_sentences": num_sentences})
            commands[f"{system} script", precision] = (bench.command(system, job), system)
    contenders = []
    for (name, precision), (command, system) in commands.items():
        environment = bench.environment(system, bench.threads)
        contenders.append(Contender(name, precision, partial(wall_seconds, command, environment)))
    for contender in contenders if not bench.options.quick else []:  # to fill the disk cache; not counted
        measure_once(contender)
        contender.results.clear()
    take_turns([c for c in contenders if not c.fault], bench.options.repeats)
    rows = finish(bench, contenders, "seconds")
    for row in rows:
        del row["last"]
    add_ratios(rows, tuple((f"{system} script", precision) for system, precision in BASES))
    return rows


def wall_seconds(command: list[str | Path], environment: dict[str, str]) -> dict[str, Any]:
    """Time one run of `command`; WorkerError if it fails."""
    began = time.perf_counter()
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise WorkerError(tail(done.stderr) or f"exit code {done.returncode}")
    return {"seconds": time.perf_counter() - began, "versions": {}}


def try_settings(bench: Bench, tried: list[Contender], figure: str) -> tuple[Contender | None, list[Row]]:
    """Measure each once; return the best (high rate or low time), with its result cleared, and a row for each."""
    for contender in tried if len(tried) > 1 else []:
        measure_once(contender)
    rows = [{**head_of(contender), figure: contender.results[0][figure]} for contender in tried if contender.results]
    working = [contender for contender in tried if contender.results] if len(tried) > 1 else tried
    if not working:
        bench.faults[f"{tried[0].system} {tried[0].precision}"] = tried[0].fault
        return None, rows
    best = working[0]
    if len(tried) > 1:
        pick = max if figure == "tokens_per_s" else min
        best = pick(working, key=lambda contender: contender.results[0][figure])
        best.results.clear()
    return best, rows


def head_of(contender: Contender) -> Row:
    """Return the first columns of a table."""
    return {"system": contender.system, "precision": contender.precision, "setting": contender.setting}


def finish(bench: Bench, contenders: list[Contender], figure: str) -> list[Row]:
    """Return a row for each measured contender, with its ratio to each of BASES; record the others as faults."""
    rows = []
    for contender in contenders:
        if contender.fault:
            bench.faults[contender.name] = contender.fault
            continue
        values = spread([result[figure] for result in contender.results], 3 if figure == "seconds" else 2)
        last = contender.results[-1]
        rows.append({**head_of(contender), **values, "versions": last["versions"], "last": last})
    add_ratios(rows, BASES)
    return rows


def add_ratios(rows: list[Row], bases: tuple[tuple[str, str], ...]) -> None:
    """Add to each row the ratio of its median to that of each of BASES; `bases` are their names in `rows`."""
    for (system, precision), name in zip(BASES, bases, strict=True):
        base = next((r["median"] for r in rows if (r["system"], r["precision"]) == name), None)
        for row in rows:
            row[f"to {system} {precision}"] = ratio(row["median"], base)


def show(title: str, rows: list[Row], columns: dict[str, str]) -> None:
    """Print a table with medians, ranges, `columns` and the available ratios."""
    ratios = {f"to {s} {p}": f"x {s} {p}" for s, p in BASES if any(row[f"to {s} {p}"] is not None for row in rows)}
    sys.stdout.write(f"\n{title}\n")
    sys.stdout.write(table(rows, {**NAMES, **SPREAD, **columns, **ratios}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
