"""Measure `nmt data check`, `nmt data clean` and the filters of a training: `python benchmarks/data.py --pairs 1000`.

The corpus is generated, or a repetition of a real one (`--src`, `--tgt`) with a unique word in each pair, so that none
is a duplicate. Each command runs in separate processes, with one worker and with two, alternating. Prints pairs per
second of wall time, processor time per pair (over all processes: use this on a busy machine), and the peak resident
memory of the largest process, which grows by 8 bytes per pair and rule on duplicates.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from corpus import write_corpus
from harness import HERE, machine, say, table, use_cores, warn_of_load

COLUMNS = {
    "work": "work",
    "workers": "workers",
    "pairs": "pairs",
    "pairs_per_s": "pairs/s",
    "cpu_us": "processor time per pair, µs",
    "peak_mb": "peak memory, MB",
}
WORKS = ("check", "clean", "filter")


def repeated(src: Path, tgt: Path, num_pairs: int) -> Iterator[str]:
    """Repeat the lines of a corpus, tab-separated, with a unique word on both sides of each line."""
    pairs = [line.replace("\t", " ") for path in (src, tgt) for line in path.read_text(encoding="utf-8").splitlines()]
    half = len(pairs) // 2
    for number, (left, right) in enumerate(islice(cycle(zip(pairs[:half], pairs[half:], strict=True)), num_pairs)):
        word = "".join(chr(ord("a") + number // 26**place % 26) for place in range(5))
        yield f"{left} {word}\t{right} {word}\n"


def commands(work: str, corpus: Path, languages: list[str], workers: int, langid: bool) -> list[str]:
    """Return the command line for `work` on `corpus`."""
    if work == "filter":
        return [sys.executable, str(HERE / "data.py"), "--filter", str(corpus), *languages, str(workers), str(langid)]
    command = [sys.executable, "-m", "nmt", "data", work, "--corpus", str(corpus)]
    command += ["--src-lang", languages[0], "--tgt-lang", languages[1], "--set", f"training.threads={workers}"]
    command += ["--set", "data.filters.wrong_language=2"] if langid else []
    return command + (["-o", str(corpus.with_suffix(".kept")), "--overwrite"] if work == "clean" else [])


def find_dropped(corpus: str, src_lang: str, tgt_lang: str, workers: str, langid: str) -> None:
    """Find the pairs that the filters of `nmt config new` drop, as the preparation of a training does."""
    from nmt.config import Config
    from nmt.config.filters import SAFE_FILTERS
    from nmt.training.corpus.corpus import Corpus

    # Held-out sets in separate files, so that choosing sentences to hold out is not measured.
    held_out = Path(corpus).with_suffix(".held-out.tsv")
    held_out.write_text("eins\tone\n", encoding="utf-8")
    filters = SAFE_FILTERS.model_dump() | ({"wrong_language": 2.0} if langid == "True" else {})
    data = {"src_lang": src_lang, "tgt_lang": tgt_lang, "train": {"tsv": corpus}, "filters": filters}
    data |= {name: {"tsv": str(held_out)} for name in ("valid", "test")}
    config = Config.model_validate({"data": data, "training": {"threads": int(workers)}})
    sys.stdout.write(f"{len(Corpus(config).dropped)}\n")


def measure(command: list[str], num_pairs: int) -> dict[str, float]:
    """Run a command to its end and return its figures, including those of its workers."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status:
        raise SystemExit(f"exit status {os.waitstatus_to_exitcode(status)}: {' '.join(command)}")
    return {
        "pairs_per_s": num_pairs / seconds,
        "cpu_us": (usage.ru_utime + usage.ru_stime) / num_pairs * 1e6,
        "peak_mb": usage.ru_maxrss / 1024,
    }


def main() -> None:
    """Write the corpus, measure alternately, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--src", type=Path, help="repeat this corpus instead of generated text, with --tgt")
    parser.add_argument("--tgt", type=Path)
    parser.add_argument("--works", default=",".join(WORKS), help="of " + ", ".join(WORKS))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--langid", action="store_true", help="identify languages too")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each, alternating (3); prints medians")
    parser.add_argument("--folder", type=Path, default=Path("build/bench/data"))
    parser.add_argument("--json", type=Path, help="file for the result")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    corpus, languages = options.folder / f"{options.pairs}.tsv", ["en", "de"]
    if options.src:
        with corpus.open("w", encoding="utf-8") as file:
            file.writelines(repeated(options.src, options.tgt, options.pairs))
        languages = [options.src.suffix[1:], options.tgt.suffix[1:]]
    else:
        write_corpus(corpus, options.pairs)
    facts = machine(use_cores(0))
    warn_of_load(facts)
    cases = [(work, workers) for work in options.works.split(",") for workers in options.workers]
    results: dict[tuple[str, int], list[dict[str, float]]] = {case: [] for case in cases}
    for turn in range(options.repeats):
        for work, workers in cases:
            figures = measure(commands(work, corpus, languages, workers, options.langid), options.pairs)
            results[work, workers].append(figures)
            say(f"turn {turn + 1}: {work}, {workers} workers: {figures['cpu_us']:.1f} µs per pair")
    rows = [
        {"work": work, "workers": workers, "pairs": options.pairs}
        | {key: round(statistics.median(each[key] for each in figures), 1) for key in figures[0]}
        for (work, workers), figures in results.items()
    ]
    sys.stdout.write(table(rows, COLUMNS))
    if options.json:
        options.json.write_text(json.dumps({"machine": facts, "langid": options.langid, "rows": rows}, indent=2))


if __name__ == "__main__":
    find_dropped(*sys.argv[2:]) if sys.argv[1:2] == ["--filter"] else main()
