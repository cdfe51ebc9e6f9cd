"""List the corpora, configurations and runs of a folder, and say what to do next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from nmt.apps.recipes.corpora import language_in
from nmt.apps.recipes.suggestion import summary
from nmt.artifacts.run_records import VALID_SCORES
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, counted
from nmt.base.files import read_at_most
from nmt.config import load_config
from nmt.data.read.lines import count_lines
from nmt.data.read.table_names import format_of
from nmt.evaluation.scorings import num_scorings

Found = dict[str, tuple[str, str]]  # by name: what is said of it, and the next command for it, if any
_MAX_BYTES = 10_000_000  # of a configuration


def describe_folder(folder: Path) -> dict[str, Any]:
    """Return the corpora, configurations and runs of a folder, by name, and the `next` command. Changes nothing."""
    parts = {"runs": _runs(folder), "configurations": _configurations(folder), "corpora": _corpora(folder)}
    steps = ["nmt train --src FILE --tgt FILE"]
    described: dict[str, Any] = {}
    for title, found in reversed(parts.items()):
        steps += [step for _, step in found.values() if step]
        described[title] = {name: said for name, (said, _) in found.items()}
    place = "" if folder == Path(".") else f"cd {shlex.quote(str(folder))} && "
    return {**described, "next": place + steps[-1]}


def _corpora(folder: Path) -> Found:
    """Find files in formats with both languages, and aligned files with as many lines; the largest comes last."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
    corpora = [[path] for path in files if format_of(path.name) and path.suffix != ".json"]
    languages = [(path.name.rpartition(f".{code}")[0], path) for path in files if (code := language_in(path.name))]
    for _, group in groupby(sorted(languages), key=itemgetter(0)):
        aligned = [path for _, path in group]
        with suppress(NmtError):  # it cannot be read
            first, *others = map(count_lines, aligned)
            if first and others and {first} == {*others}:
                corpora.append(aligned)
    sized = sorted((sum(path.stat().st_size for path in paths), paths) for paths in corpora)
    found: Found = {}
    for size, paths in sized:
        first_name, *other_names = (shlex.quote(path.name) for path in paths)
        options = f"--corpus {first_name} --src-lang LANG --tgt-lang LANG"
        if other_names:
            options = f"--src {first_name} --tgt {other_names[0]}"
        found[" + ".join(path.name for path in paths)] = f"{size / 1e3:,.0f} kB", f"nmt train {options}"
    return found


def _configurations(folder: Path) -> Found:
    """Find YAML files with a section `data`, the newest last; those that have no run of their name can be trained."""
    found: Found = {}
    for path in _by_age([*folder.glob("[!.]*.y*ml"), *folder.glob("configs/*.y*ml")]):
        name = path.relative_to(folder).as_posix()
        try:
            text = read_at_most(path, _MAX_BYTES)
        except (OSError, ValueError) as error:
            found[name] = f"cannot be read ({getattr(error, 'strerror', None) or error})", ""
            continue
        if not re.search(b"^data:", text, re.MULTILINE):
            continue
        try:
            step = "" if (folder / "runs" / path.stem).exists() else f"nmt train --config {shlex.quote(name)}"
            found[name] = summary(load_config(path)), step
        except NmtError:
            found[name] = "not valid", f"nmt config check --config {shlex.quote(name)}"
    return found


def _by_age(files: Iterable[Path]) -> list[Path]:
    """Return the regular files among `files`, the newest last: no folders, pipes, devices, or links to nothing."""
    times = {file: file.stat().st_mtime for file in files if file.is_file()}
    return sorted(times, key=times.__getitem__)


def _runs(folder: Path) -> Found:
    """Find runs in the folder and in its folder `runs`; the newest comes last."""
    found: Found = {}
    for file in _by_age([*folder.glob("[!.]*/run.json"), *folder.glob("runs/[!.]*/run.json")]):
        run = RunDir(file.parent)
        name = run.path.relative_to(folder).as_posix()
        try:
            index = run.index()
            tested = run.evaluation(index.best)
            state, step = state_of(run, name)
        except NmtError as error:
            found[name] = f"damaged: {error.message}", ""
            continue
        valid = index.scores_of(index.best)
        scores = [f"{score} {valid[key]:.2f}" for key, score in VALID_SCORES.items() if key in valid]
        if tested is not None:
            scores += [f"test {metric} {score.value:.2f}" for metric, score in tested.scores.items()]
        found[name] = ", ".join([*(scores or ["no checkpoint yet"]), *state]), step
    return found


def state_of(run: RunDir, name: str) -> tuple[list[str], str]:
    """Return what was done with the run called `name` and what was not, and the next command. RunError if damaged."""
    is_tested = run.evaluation(run.index().best) is not None
    quoted = shlex.quote(name)
    times = f"test set scored {counted(num_scorings(run.evaluations, 'test'), 'time')}"
    if not run.card.exists():
        return [times] * is_tested + ["not finished"], f"nmt train --resume --run {quoted}"
    step = f"nmt translate --model {quoted} 'text'" if is_tested else f"nmt eval --model {quoted}"
    return [times] * is_tested, step
