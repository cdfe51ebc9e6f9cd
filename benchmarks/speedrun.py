"""Train Multi30k de-en in many ways, and tabulate the minutes of updates to 36, 38, 38.7 and 40 BLEU.

    python benchmarks/speedrun.py                                   # all entries of benchmarks/speedrun.yaml
    python benchmarks/speedrun.py --only short,lr-2e-3 --seeds 1,2,3 --log docs/log/speedrun.md

BLEU is measured for every validated checkpoint on the configuration's test set (test2016), with greedy search in fp32.
Stopped trainings are resumed; finished ones are only read. Prints a Markdown table, and writes its rows into the table
between the marks on the page given by `--log`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from harness import HERE, ROOT, claim_machine, clean_environment, command_line, keep, say

from nmt.artifacts.rundir import RunDir
from nmt.config import SearchOptions, dump_config, load_config
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.native_engine import NativeEngine, arrays_in_order, read_arrays
from nmt.evaluation import score_sets
from nmt.evaluation.plots import read_metrics
from nmt.translation import LanguagePair, Translator

TARGETS = (36.0, 38.0, 38.7, 40.0)
BEGIN, END = "<!-- speedrun: begin -->\n", "<!-- speedrun: end -->\n"


@dataclass(frozen=True)
class Entry:
    """A way to train: the configuration with some keys changed, or another configuration."""

    name: str
    idea: str
    settings: dict[str, Any]
    seeds: tuple[int, ...] = (1,)
    config: Path | None = None  # instead of that of the command


@dataclass
class Curve:
    """The checkpoints of a training: updates, minutes of updates, BLEU on the test set; and where it was trained."""

    threads: int
    machine: str
    commit: str
    updates: list[int] = field(default_factory=list)
    minutes: list[float] = field(default_factory=list)
    bleu: list[float] = field(default_factory=list)

    def minutes_to(self, target: float) -> float | None:
        """Return the minutes after which a checkpoint first reached `target` BLEU; None if none did."""
        return next((m for m, bleu in zip(self.minutes, self.bleu, strict=True) if bleu >= target), None)


def read_entries(path: Path) -> dict[str, Entry]:
    """Return the entries of a YAML list by name, each including the settings of its base entries."""
    entries: dict[str, Entry] = {}
    for item in yaml.safe_load(path.read_text(encoding="utf-8")):
        if unknown := item.keys() - {"name", "idea", "base", "config", "set", "seeds"}:
            raise SystemExit(f"{path}: unknown key {min(unknown)!r} in entry {item.get('name')!r}")
        if item["name"] in entries or item.get("base") not in (None, *entries):
            raise SystemExit(f"{path}: {item['name']}: a name is used once, and `base` names an entry above")
        base = entries[item["base"]] if "base" in item else Entry("", "", {})
        config = ROOT / item["config"] if "config" in item else base.config
        settings, seeds = base.settings | item.get("set", {}), tuple(item.get("seeds", (1,)))
        entries[item["name"]] = Entry(item["name"], item["idea"], settings, seeds, config)
    return entries


def train(given: argparse.Namespace, entry: Entry, seed: int) -> RunDir:
    """Start, resume or find the training of `entry` with `seed`; each resolved configuration has its own folder."""
    settings = {
        **entry.settings,
        **dict(pair.split("=", 1) for pair in given.set),
        "training.seed": seed,
        "training.keep_checkpoints": 100_000,  # keep all, to score them
        "training.average_checkpoints": 0,
    }
    config = entry.config or given.config
    # YAML's 2e-3 is text here, and a number in nmt.
    pairs = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()]
    digest = hashlib.sha256(dump_config(load_config(config, pairs)).encode()).hexdigest()[:8]
    run = RunDir(given.folder.resolve() / f"{entry.name}-{seed}-{digest}")
    if run.card.exists():  # the last file of a finished training
        return run
    command = [sys.executable, "-m", "nmt", "train", "--run", str(run.path)]
    if run.config_file.is_file():
        command.append("--resume")
    else:
        command += ["--config", str(config.resolve()), *(part for pair in pairs for part in ("--set", pair))]
    say(f"{entry.name}, seed {seed}: {run.path}")
    if code := subprocess.run(command, env=clean_environment(), cwd=ROOT).returncode:
        raise SystemExit(code)
    return run


def read_curve(run: RunDir) -> Curve:
    """Score the checkpoints of a run on its test set; the scores are cached in the run."""
    path = run.path / "eval" / "speedrun.json"
    known: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    records = read_metrics(run.metrics)
    clock = [(r["update"], r["train_seconds"] / 60) for r in records if r["kind"] == "train"]
    info = run.info()
    curve = Curve(info.threads, f"{info.processor}, torch {info.torch}", (info.commit or "-")[:7])
    for name in run.index().checkpoints:
        if name not in known:
            known[name] = test_bleu(run, name)
            path.parent.mkdir(exist_ok=True)
            keep_scores(path, known)
        update = int(name.removeprefix("step-"))
        curve.updates.append(update)
        curve.minutes.append(float(np.interp(update, [u for u, _ in clock], [m for _, m in clock])))
        curve.bleu.append(known[name])
    return curve


def keep_scores(path: Path, known: dict[str, float]) -> None:
    """Write the scores atomically."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(known), encoding="utf-8")
    partial.replace(path)


def test_bleu(run: RunDir, name: str) -> float:
    """Return BLEU of a checkpoint on the test set, by greedy search in fp32."""
    config, tokenizers, path = run.config(), TokenizerPair.load(run.tokenizer), run.checkpoint(name)
    arrays = arrays_in_order(config.model, tokenizers, read_arrays(path), path)
    engine = NativeEngine(config.model, arrays, tokenizers, "fp32")
    sets = run.read_sets("test", config.data.directions[0])
    with Translator(tokenizers, engine, LanguagePair.from_config(config), SearchOptions(protect=False)) as translator:
        scores = score_sets(sets, lambda each: [t.text for t in translator.translate(each.sources)], ("bleu",))
    return scores.mean[0].value


def make_row(entry: Entry, curves: dict[int, Curve], changes: Sequence[str] = ()) -> str:
    """Return a table row: means over seeds, with minimum and maximum. `changes`: settings of the command line."""
    threads = ", ".join(sorted({str(curve.threads) for curve in curves.values()}))
    named = [change for change in changes if not change.startswith("training.threads=")]
    cells = [" ".join([entry.name, *named]), threads, entry.idea, ", ".join(map(str, curves))]
    cells += [_mean_and_range([curve.minutes_to(target) for curve in curves.values()], 1) for target in TARGETS]
    best = [max(range(len(curve.bleu)), key=curve.bleu.__getitem__) for curve in curves.values()]
    pairs = list(zip(curves.values(), best, strict=True))
    cells.append(_mean_and_range([curve.bleu[at] for curve, at in pairs], 2))
    cells.append(_mean_and_range([curve.minutes[at] for curve, at in pairs], 1))
    cells.append(_mean_and_range([curve.minutes[-1] for curve in curves.values()], 1))
    machines, commits = ({getattr(curve, name): None for curve in curves.values()} for name in ("machine", "commit"))
    cells.append(f"{'; '.join(machines)}, commit {', '.join(commits)}")
    return "| " + " | ".join(cells) + " |"


def _mean_and_range(values: list[float | None], digits: int) -> str:
    """Return "mean (lowest to highest)", or how many seeds have a value."""
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return f"{len(present)} of {len(values)}" if present else "-"
    mean = f"{statistics.mean(present):.{digits}f}"
    return mean if len(present) == 1 else f"{mean} ({min(present):.{digits}f} to {max(present):.{digits}f})"


def make_table(rows: list[str]) -> str:
    """Return the table in Markdown."""
    heads = ["entry", "threads", "idea", "seeds", *(f"{target:g} BLEU, min" for target in TARGETS)]
    heads += ["best BLEU", "after, min", "in all, min", "machine"]
    lines = ["| " + " | ".join(heads) + " |", "|---|---:|---|---|" + "---:|" * (len(heads) - 5) + "---|"]
    return "\n".join([*lines, *rows]) + "\n"


def write_log(page: Path, rows: list[str]) -> None:
    """Put the rows into the table between the marks of `page`.

    A row replaces those of the same entry and threads that have no other seeds.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    kept, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page}: the marks of the table are missing: {BEGIN.strip()} and {END.strip()}")
    known = [line for line in kept.splitlines() if line.startswith("| ")][1:]  # without the heads
    for row in rows:
        replaced = [number for number, other in enumerate(known) if _replaces(row, other)]
        place = replaced[0] if replaced else len(known)
        known[place:place] = [row]
        known = [other for other in known if other is row or not _replaces(row, other)]
    page.write_text(f"{before}{begin}\n{make_table(known)}\n{end}{after}", encoding="utf-8")


def _replaces(row: str, other: str) -> bool:
    """Return whether a table row is of the same entry and threads as the other, and of all its seeds."""
    (*key, _, seeds), (*other_key, _, other_seeds) = (line.split(" | ")[:4] for line in (row, other))
    return key == other_key and set(other_seeds.split(", ")) <= set(seeds.split(", "))


def main() -> None:
    """Train, score, and print the table after each training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=Path, default=HERE / "speedrun.yaml", help="YAML list of entries")
    parser.add_argument("--only", default="", help="comma-separated names of entries (all)")
    parser.add_argument("--seeds", default="", help="comma-separated seeds instead of those in the entries")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "multi30k-de-en.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting for all entries")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "speedrun", help="folder for the runs")
    parser.add_argument("--json", type=Path, help="file for the curves")
    parser.add_argument("--log", type=Path, help="page to write the table into")
    given = parser.parse_args()
    _, facts = claim_machine(0)
    entries = read_entries(given.entries)
    if unknown := set(filter(None, given.only.split(","))) - entries.keys():
        raise SystemExit(f"no entry {min(unknown)!r} in {given.entries}")
    results: dict[str, tuple[Entry, dict[int, Curve]]] = {}
    for name in given.only.split(",") if given.only else entries:
        entry, curves = entries[name], dict[int, Curve]()
        for seed in map(int, given.seeds.split(",")) if given.seeds else entry.seeds:
            curves[seed] = read_curve(train(given, entry, seed))
            results[name] = entry, curves
            rows = [make_row(*result, given.set) for result in results.values()]
            sys.stdout.write(make_table(rows) + "\n")
            sys.stdout.flush()
    curves_by_name = {name: {seed: vars(curve) for seed, curve in each.items()} for name, (_, each) in results.items()}
    keep(given.json, {"machine": facts, "command": command_line(), "curves": curves_by_name})
    if given.log:
        write_log(given.log, rows)


if __name__ == "__main__":
    main()
