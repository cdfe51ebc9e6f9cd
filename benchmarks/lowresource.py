"""Train what `nmt config new` suggests for a small corpus, and show first whether the model looks at its source.

    python benchmarks/lowresource.py mafand/fr-wol mafand/fr-bam --minutes 60
    python benchmarks/lowresource.py mafand/fr-wol --set model.dropout=0.4 --seeds 1,2,3 --json rows.json
    python benchmarks/lowresource.py mafand/fr-wol mafand/fr-bam --together

Each folder has the name of its languages, and `train.jsonl`, `dev.jsonl` and `test.jsonl`, one object a line:
{"translation": {"fr": …, "wol": …}}. Only train.jsonl is trained on. For each seed, prints chrF on the dev set beside
that with its sources permuted (where the two are near, the model ignores its source), the words written per word of
the reference, and BLEU (13a) and chrF on the test set with 95% confidence intervals. `--minutes` are of processor time,
on all threads: updates end with them. Those in the table include validation. With `--together`, one model learns all
of the corpora, and each row shows its minutes. Finished trainings are only read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import ROOT, claim_machine, clean_environment, command_line, keep, names, say, table

from nmt.artifacts.rundir import RunDir
from nmt.evaluation.scores import score
from nmt.evaluation.significance import Scorer, with_interval
from nmt.translation import Translator

COLUMNS = {
    "languages": "languages",
    "seed": "seed",
    "minutes": "minutes",
    "dev_chrf": "dev chrF",
    "permuted": "permuted",
    "length": "words per word",
    "bleu": "test BLEU",
    "chrf": "test chrF",
}
Pairs = tuple[list[str], list[str]]


def read_pairs(path: Path, languages: Sequence[str]) -> Pairs:
    """Return the sources and the references of a file."""
    with path.open(encoding="utf-8") as file:
        pairs = [json.loads(line)["translation"] for line in file]
    src, tgt = ([" ".join(pair[code].split()) for pair in pairs] for code in languages)
    return src, tgt


def train(given: argparse.Namespace, folders: Sequence[Path], threads: int, seed: str) -> tuple[RunDir, float]:
    """Train on the corpora in `folders`, or find that training; return it, and its minutes of processor time."""
    settings = [*given.set, f"training.seed={seed}", f"training.max_minutes={given.minutes / threads}"]
    suggest = ["config", "new"]
    for folder in folders:
        src, tgt = folder.name.split("-")
        suggest += ["--corpus", f"{folder.resolve() / 'train.jsonl'}#translation.{src},translation.{tgt}"]
    text = given.config.read_text(encoding="utf-8") if given.config else run_nmt(suggest)
    digest = hashlib.sha256("\n".join([text, *settings, str(threads)]).encode()).hexdigest()[:8]
    run = RunDir(given.folder.resolve() / f"{'+'.join(folder.name for folder in folders)}-{seed}-{digest}")
    spent = run.path.with_suffix(".minutes")
    if not (run.card.exists() and spent.exists()):
        config = run.path.with_suffix(".yaml")
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(text, encoding="utf-8")
        say(f"seed {seed}: {run.path}")
        before = processor_minutes()
        changes = [part for setting in settings for part in ("--set", setting)]
        run_nmt(["train", "--overwrite", "--config", str(config), "--run", str(run.path), *changes], threads)
        spent.write_text(str(processor_minutes() - before))
    return run, float(spent.read_text())


def run_nmt(arguments: Sequence[str], threads: int | None = None) -> str:
    """Run a command of nmt and return its output; its messages are shown. Exits with its exit status if it fails."""
    command = [sys.executable, "-m", "nmt", *arguments]
    done = subprocess.run(command, env=clean_environment(threads), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout


def processor_minutes() -> float:
    """Return the processor time of all commands that have ended, in minutes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) / 60


def measure(run: RunDir, dev: Pairs, test: Pairs, tgt_lang: str) -> dict[str, Any]:
    """Return the control, the length and the scores of a model."""
    with Translator.load([run]) as translator:
        on_dev, on_test = ([each.text for each in translator.translate(pairs[0], to=tgt_lang)] for pairs in (dev, test))
    measured = Scorer([test[1]], tgt_lang, ("bleu", "chrf")).measure(run.path.name, on_test).measured
    bleu, chrf = (with_interval(each) for each in measured)
    return {
        **control(on_dev, dev[1], tgt_lang),
        "bleu": f"{bleu.value:.1f} ± {bleu.interval.half_width:.1f}" if bleu.interval else bleu.value,
        "chrf": f"{chrf.value:.1f} ± {chrf.interval.half_width:.1f}" if chrf.interval else chrf.value,
        "signatures": [bleu.signature, chrf.signature],
    }


def control(outputs: list[str], references: list[str], tgt_lang: str) -> dict[str, float]:
    """Return chrF, chrF with the sources permuted (line n has the output of a line half the set away), and length."""
    half = len(outputs) // 2
    permuted = outputs[half:] + outputs[:half]
    (true,), (false,) = (score(lines, references, tgt_lang, ("chrf",)) for lines in (outputs, permuted))
    length = sum(len(line.split()) for line in outputs) / sum(len(line.split()) for line in references)
    return {"dev_chrf": round(true.value, 2), "permuted": round(false.value, 2), "length": round(length, 2)}


def main() -> None:
    """Train, score, and print the table after each training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", type=Path, help="folders such as fr-wol")
    parser.add_argument("--minutes", type=float, default=60, help="of processor time, for updates (60)")
    parser.add_argument("--config", type=Path, help="configuration instead of the suggested one")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting for all trainings")
    parser.add_argument("--seeds", type=names, default=["1"], help="comma-separated (1)")
    parser.add_argument("--threads", type=int, default=0, help="cores (0: all available)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "lowresource", help="folder for the runs")
    parser.add_argument("--together", action="store_true", help="one model of all corpora")
    parser.add_argument("--json", type=Path, help="file for the rows")
    given = parser.parse_args()
    threads, facts = claim_machine(given.threads)
    rows: list[dict[str, Any]] = []
    for folders in [given.corpora] if given.together else [[folder] for folder in given.corpora]:
        for seed in given.seeds:
            run, minutes = train(given, folders, threads, seed)
            for folder in folders:
                languages = folder.name.split("-")
                dev, test = (read_pairs(folder / f"{name}.jsonl", languages) for name in ("dev", "test"))
                row = {"languages": folder.name, "seed": seed, "minutes": round(minutes, 1)}
                rows.append(row | measure(run, dev, test, languages[1]))
            sys.stdout.write(table(rows, COLUMNS) + "\n")
            sys.stdout.flush()
    keep(given.json, {"machine": facts, "command": command_line(), "rows": rows})


if __name__ == "__main__":
    main()
