"""`nmt status`: what is in a folder, and what to do next."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from nmt.apps.commands.streams import print_text
from nmt.apps.recipes.corpora import language_in
from nmt.apps.recipes.suggestion import summary
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, counted, printable
from nmt.config import load_config
from nmt.data.read.lines import count_lines
from nmt.data.read.table_names import format_of
from nmt.evaluation.scorings import num_scorings

Found = dict[str, tuple[str, str]]  # by name: what is said of it, and the next command for it, if any
_METRICS = {"bleu": "BLEU", "chrf": "chrF2"}


def status(
    folder: Annotated[Path, typer.Argument(help="Folder to look into. Default: the current one.")] = Path("."),
) -> None:
    """List corpora and runs of a folder, and the next command.

    It changes nothing.
    """
    if not folder.is_dir():
        raise NmtError("no such folder", path=folder)
    if (folder / "run.json").is_file():
        raise NmtError("this folder is a run", path=folder, hint="describe it with `nmt info`")
    parts = {"runs": _runs(folder), "configurations": _configurations(folder), "corpora": _corpora(folder)}
    steps = ["nmt train --src FILE --tgt FILE"]
    for title, found in reversed(parts.items()):
        steps += [step for _, step in found.values() if step]
        rows = [printable(f"  {name}: {said}") for name, (said, _) in found.items()]
        print_text("\n".join([f"{title}:" if rows else f"{title}: none", *rows]))
    place = "" if folder == Path(".") else f"cd {shlex.quote(str(folder))} && "
    print_text(f"next: {place}{steps[-1]}")


def _corpora(folder: Path) -> Found:
    """Find files in formats with both languages, and aligned files with as many lines; the largest comes last."""
    sizes: dict[tuple[str, ...], int] = {}
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
    for path in files:
        if format_of(path.name) and path.suffix != ".json":
            sizes[(path.name,)] = path.stat().st_size
    languages = [(path.name.rpartition(f".{code}")[0], path) for path in files if (code := language_in(path.name))]
    for _, group in groupby(sorted(languages), key=lambda entry: entry[0]):
        aligned = [path for _, path in group]
        with suppress(NmtError):  # it cannot be read
            num_lines = set(map(count_lines, aligned))
            if len(aligned) > 1 and len(num_lines) == 1 and num_lines != {0}:
                sizes[tuple(path.name for path in aligned)] = sum(path.stat().st_size for path in aligned)
    found: Found = {}
    for names, size in sorted(sizes.items(), key=lambda entry: entry[1]):
        first, *others = map(shlex.quote, names)
        options = f"--src {first} --tgt {others[0]}" if others else f"--corpus {first} --src-lang LANG --tgt-lang LANG"
        found[" + ".join(names)] = f"{size / 1e3:,.0f} kB", f"nmt train {options}"
    return found


def _configurations(folder: Path) -> Found:
    """Find YAML files with a section `data`, the newest last; those that have no run of their name can be trained."""
    found: Found = {}
    files = [*folder.glob("[!.]*.y*ml"), *folder.glob("configs/*.y*ml")]
    for path in sorted(files, key=lambda file: file.stat().st_mtime):
        name = path.relative_to(folder).as_posix()
        if not re.search("^data:", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE):
            continue
        try:
            step = "" if (folder / "runs" / path.stem).exists() else f"nmt train --config {shlex.quote(name)}"
            found[name] = summary(load_config(path)), step
        except NmtError:
            found[name] = "not valid", f"nmt config check --config {shlex.quote(name)}"
    return found


def _runs(folder: Path) -> Found:
    """Find runs in the folder and in its folder `runs`; the newest comes last."""
    found: Found = {}
    files = [file for pattern in ("[!.]*", "runs/[!.]*") for file in folder.glob(f"{pattern}/run.json")]
    for run in (RunDir(file.parent) for file in sorted(files, key=lambda file: file.stat().st_mtime)):
        name = run.path.relative_to(folder).as_posix()
        try:
            index, is_done = run.index(), run.card.exists()
            tested = run.evaluation(index.best)
            valid = index.checkpoints.get(index.best or "", {})
        except NmtError as error:
            found[name] = f"damaged: {error.message}", ""
            continue
        scores = [f"valid {metric} {valid[key]:.2f}" for key, metric in _METRICS.items() if key in valid]
        if tested is not None:
            scores += [f"test {metric} {score.value:.2f}" for metric, score in tested.scores.items()]
        times = f"test set scored {counted(num_scorings(run.evaluations, 'test'), 'time')}"
        said = [
            *(scores or ["no checkpoint yet"]),
            *([times] if tested else []),
            *([] if is_done else ["not finished"]),
        ]
        quoted = shlex.quote(name)
        todo = f"eval --model {quoted}" if not tested else f"translate --model {quoted} 'text'"
        found[name] = ", ".join(said), f"nmt {todo if is_done else f'train --resume --run {quoted}'}"
    return found
