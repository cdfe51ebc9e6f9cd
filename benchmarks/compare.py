"""Compare a new benchmark result with a stored one: the ratio of every figure that both contain.

    python benchmarks/compare.py NEW.json benchmarks/results/2026-11-21-train-multi30k.json [--limit 5] [--strict]

A ratio above 1 means faster, for rates and times alike. Warns about figures that are more than `--limit` percent
slower, and about different machines and versions, with which ratios say nothing about the code. With `--strict`, exit
code 1 if a figure is slower by more than the limit; exit code 2 if the two files have no figure in common.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from harness import say, table

RATES = ("rows", "bulk", "forced", "training", "decoding")  # tables of tokens per second: more is faster
TIMES = ("single", "cold", "file")  # tables of milliseconds or seconds: less is faster
FIGURES = ("median", "tokens_per_s", "p50_ms")  # compare the first of these that both rows have
SAME = ("processor", "cores_of_machine", "threads", "python", "torch")
COLUMNS = {"table": "table", "row": "row", "old": "stored", "new": "new", "ratio": "x faster", "remark": ""}

Row = dict[str, Any]
Key = tuple[str, ...]


class Comparison(NamedTuple):
    """One figure in both results; a `ratio` above 1 is faster, and `overlaps` tells if their ranges overlap."""

    table: str
    row: str
    old: float
    new: float
    ratio: float
    overlaps: bool


def keyed(result: dict[str, Any], name: str) -> dict[Key, Row]:
    """Return the rows of a table by system, precision and length, and by setting if rows differ only in that."""
    rows: list[Row] = result.get(name) or []
    fields = ("system", "precision", "length")
    short = [tuple(str(row.get(field, "")) for field in fields) for row in rows]
    copies = Counter(short)
    keys = (
        key if copies[key] == 1 else (*key, str(row.get("setting", ""))) for key, row in zip(short, rows, strict=True)
    )
    return dict(zip(keys, rows, strict=True))


def overlap(old: Row, new: Row) -> bool:
    """Return whether the ranges of two rows overlap; False if a row has no range."""
    if any(row.get(name) is None for row in (old, new) for name in ("min", "max")):
        return False
    return bool(old["min"] <= new["max"] and new["min"] <= old["max"])


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[Comparison]:
    """Return a comparison of each figure that both results have, in the order of the stored one."""
    comparisons = []
    for name in (*RATES, *TIMES):
        new_rows = keyed(new, name)
        for key, old_row in keyed(old, name).items():
            new_row = new_rows.get(key, {})
            figure = next((f for f in FIGURES if old_row.get(f) and new_row.get(f)), None)
            if figure is None:
                continue
            was, now = float(old_row[figure]), float(new_row[figure])
            ratio = now / was if name in RATES else was / now
            label = " ".join(part for part in key if part)
            comparisons.append(Comparison(name, label, was, now, round(ratio, 3), overlap(old_row, new_row)))
    return comparisons


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a line for each fact about machine and workload in which the two results differ."""
    machines = old.get("machine", {}), new.get("machine", {})
    lines = [
        f"{name}: {machines[0].get(name)} stored, {machines[1].get(name)} new"
        for name in SAME
        if machines[0].get(name) != machines[1].get(name)
    ]
    for name in ("workload", "config"):
        shared = old.get(name, {}).keys() & new.get(name, {}).keys()
        lines += [
            f"{name} {key}: {old[name][key]} stored, {new[name][key]} new"
            for key in sorted(shared)
            if old[name][key] != new[name][key]
        ]
    return lines


def read(path: Path) -> dict[str, Any]:
    """Return the result stored in a JSON file. SystemExit with a message if there is none."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise SystemExit(f"{path}: not JSON: {error}") from None
    if not isinstance(result, dict):
        raise SystemExit(f"{path}: not the result of a benchmark; write one with --json")
    return result


def main() -> int:
    """Print the ratios and the warnings, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("new", type=Path, help="the JSON that a benchmark wrote with --json")
    parser.add_argument("old", type=Path, help="the JSON to compare it with: benchmarks/results/*.json")
    parser.add_argument("--limit", type=float, default=5.0, help="warn about figures this many percent slower (5)")
    parser.add_argument("--strict", action="store_true", help="exit with code 1 if a figure is slower than that")
    options = parser.parse_args()
    old, new = read(options.old), read(options.new)
    comparisons = compare(old, new)
    if not comparisons:
        say(f"{options.new} and {options.old} have no figure in common: other benchmarks, systems or precisions")
        return 2
    slow = [each for each in comparisons if each.ratio < 1 - options.limit / 100]
    rows = [
        {
            **each._asdict(),
            "remark": ("slower" if each in slow else "") + (" (ranges overlap)" if each.overlaps else ""),
        }
        for each in comparisons
    ]
    sys.stdout.write(table(rows, COLUMNS))
    for line in differences(old, new):
        say(f"warning: {line}")
    for each in slow:
        say(f"warning: {each.table}, {each.row}: {(1 - each.ratio) * 100:.0f}% slower than stored")
    return 1 if slow and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
