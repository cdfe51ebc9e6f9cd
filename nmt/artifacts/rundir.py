"""The run directory. One folder is one loadable model; only this module knows the names of files inside it."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import groupby
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import ValidationError

from nmt.artifacts.run_records import (
    FORMAT,
    CheckpointIndex,
    DirectionSize,
    Essentials,
    RunInfo,
    SavedEvaluation,
    SplitInfo,
    checkpoint_quality,
)
from nmt.base.checksum import find_corruption
from nmt.base.errors import NmtError, RunError, require_type
from nmt.base.files import (
    new_folder,
    read_json_object,
    refuse_special_files,
    remove_leftovers,
    short_sha256,
    try_lock,
    write_text,
)
from nmt.base.languages import Direction
from nmt.config.base import Section, first_fault
from nmt.data.read.lines import read_lines
from nmt.data.text.text_statistics import TextStatistics

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.read.pairs import SentencePair

HUB_PREFIX = "hf:"  # of the name of a model on the Hugging Face Hub
MAX_JSON_BYTES = 10_000_000
AVERAGE = "average"  # the checkpoint computed from others at the end of training; the training state does not list it
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

log = logging.getLogger(__name__)


class DirectedPairs(NamedTuple):
    """The sentences of a validation or test set in one direction."""

    direction: Direction
    sources: list[str]
    references: list[str]


Record = TypeVar("Record", bound=Section)


def run_path(run: str | Path) -> Path:
    """Return the path of a run that a caller names. NmtError if it is none."""
    require_type("run", run, (str, Path), "the path of a folder")
    return Path(run)


class RunDir:
    """Paths and small JSON files of one run."""

    def __init__(self, path: Path | str):
        self.path = path = Path(path)
        self.config_file = path / "config.yaml"
        self.essentials_file = path / "essentials.json"
        self.info_file = path / "run.json"
        self.report_file = path / "report.json"
        self.statistics_file = path / "statistics.json"
        self.card = path / "README.md"
        self.curves = path / "curves.svg"
        self.tokenizer = path / "tokenizer"
        self.shortlist = path / "shortlist.safetensors"
        self.lexicon = path / "lexicon.safetensors"
        self.phrases = path / "phrases.safetensors"
        self.data = path / "data"
        self.twins = self.data / "test.twins"
        self.checkpoints = path / "checkpoints"
        self.index_file = self.checkpoints / "index.json"
        self.state = path / "state" / "training.safetensors"
        self.previous_state = path / "state" / "previous.safetensors"
        self.metrics = path / "logs" / "metrics.jsonl"
        self.evaluations = path / "eval"
        self.evaluation_file = self.evaluations / "test.json"
        self.source = path  # what the user named: this folder, the packed model that it was unpacked from, or hf:NAME
        self.results = self.evaluations  # where `nmt eval` writes; outside the run if it was unpacked
        self.adaptation = path / "adaptation.json"
        self.distillation = path / "distillation.json"
        self._usable: Path | None = None
        self._verifying = Lock()
        self._config: Config | None = None
        self._essentials: Essentials | None = None

    def checkpoint(self, name: str) -> Path:
        """Return the path of the weights `name` (step-00000500, average). RunError if it could be outside the run."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise RunError(f"{name!r} is not the name of a checkpoint", path=self.index_file)
        return self.checkpoints / f"{name}.safetensors"

    def config(self) -> Config:
        """`check` the folder and return the run's resolved configuration, which is read once per object."""
        if self._config is None:
            from nmt.config.load import load_config  # only here: most texts are translated without

            self.check()
            self._config = load_config(self.config_file)
        return self._config

    def essentials(self) -> Essentials:
        """Return what translating needs of the configuration: from its file, if that is not older or damaged."""
        if self._essentials is None:
            self.check()
            with suppress(RunError, ValidationError, OSError):
                found = Essentials.model_validate(self.read_json(self.essentials_file))
                file = self.config_file  # that of a stranger may claim a terabyte
                if file.stat().st_size <= MAX_JSON_BYTES and found.config_sha256 == short_sha256(file):
                    self._essentials = found
        self._essentials = self._essentials or Essentials.of(self.config())
        return self._essentials

    def info(self) -> RunInfo:
        """Read run.json. RunError if it is missing, damaged, or not written by a training."""
        return self._read_record(self.info_file, RunInfo)

    def check(self) -> None:
        """Raise RunError if the folder contains links to outside it or special files, or has an unknown format."""
        refuse_special_files(self.path)
        if self.info_file.exists():
            number = self.read_json(self.info_file).get("format")
            if number != FORMAT:
                raise RunError(
                    f"the run has format {number!r}",
                    path=self.info_file,
                    hint=f"this version of nmt reads format {FORMAT}; a newer version may read it",
                )

    def write_config(self, config: Config) -> None:
        """Write the resolved configuration, and what translating needs of it."""
        from nmt.config.dump import dump_config

        self._config = self._essentials = None
        write_text(self.config_file, dump_config(config))
        checksum = short_sha256(self.config_file)
        self.write_json(self.essentials_file, Essentials.of(config).model_copy(update={"config_sha256": checksum}))

    def read_json(self, path: Path) -> dict[str, Any]:
        """Read one of the run's JSON files. RunError if it is missing, damaged, too large, or not an object."""
        return read_json_object(path, MAX_JSON_BYTES, "this file of the run")

    def write_json(self, path: Path, value: dict[str, Any] | Section) -> None:
        """Write one of the run's JSON files, atomically."""
        values = value.model_dump() if isinstance(value, Section) else value
        write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")

    def _read_record(self, path: Path, kind: type[Record]) -> Record:
        try:
            return kind.model_validate(self.read_json(path))
        except ValidationError as error:
            raise RunError(
                first_fault(error), path=path, hint="copy the file again from where the run was trained"
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run for training. RunError if another process holds the lock. The lock ends with the process."""
        self.state.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        lock = os.open(self.state.parent / "lock", flags, 0o666)
        is_free = True
        try:
            try:
                is_free = try_lock(lock)
            except OSError as error:
                reason = error.strerror or "no locks"
                log.warning("%s: cannot be locked here (%s); do not train it twice at once", self.path, reason)
            if not is_free:
                raise RunError("another process is training this run", path=self.path, hint="wait for it, or stop it")
            yield
        finally:
            os.close(lock)

    def index(self) -> CheckpointIndex:
        """Read index.json; return an empty index if there is none yet. RunError if it is damaged."""
        return self._read_record(self.index_file, CheckpointIndex) if self.index_file.exists() else CheckpointIndex()

    def statistics(self, *, confidence: bool = True) -> TextStatistics | None:
        """Read statistics.json; None for an imported model, which has none. RunError if the file is damaged.

        They do not contain the confidence of the model unless `confidence` is given.
        """
        if not self.statistics_file.exists():
            return None
        statistics = self._read_record(self.statistics_file, TextStatistics)
        return statistics if confidence else statistics.model_copy(update={"confidence": None})

    def evaluation(self, checkpoint: str | None, name: str = "test") -> SavedEvaluation | None:
        """Read the scores of the test set that `nmt eval` saved as `name`; None if there are none of `checkpoint`.

        RunError if the file is damaged.
        """
        path = self.evaluation_file.with_stem(name)
        if not path.is_file():
            return None
        evaluation = self._read_record(path, SavedEvaluation)
        return evaluation if evaluation.checkpoints == [checkpoint] else None

    def best_checkpoint(self) -> Path:
        """Return the path of the weights with the best score, according to the index. RunError if there are none."""
        best = self.index().best
        if best is None:
            raise RunError("this run has no checkpoint yet", path=self.path, hint="train it first, or use another run")
        return self.checkpoint(best)

    def usable_checkpoint(self) -> Path:
        """Return the path of the best undamaged weights, for translation.

        Logs a warning if these are not the best weights. RunError if all are damaged.
        """
        with self._verifying:
            if self._usable is None:
                best = self.best_checkpoint()
                fault = find_corruption(best)
                self._usable = best if not fault else self._next_best(best, fault)
            return self._usable

    def verify_ahead(self) -> None:
        """Begin to verify the weights in a thread; `usable_checkpoint` waits for it. Hashing needs no interpreter."""

        def verify() -> None:
            with suppress(NmtError, OSError):  # `usable_checkpoint` raises them where they can be handled
                self.usable_checkpoint()

        with suppress(RuntimeError):  # no thread can be started
            Thread(target=verify, daemon=True).start()

    def use_checkpoint(self, name: str) -> None:
        """Make `usable_checkpoint` return the weights called `name`. RunError if they are missing or damaged."""
        path = self.checkpoint(name)
        if not path.exists():
            names = ", ".join(sorted(other.stem for other in self.checkpoints.glob("*.safetensors")))
            raise RunError(f"this run has no checkpoint {name!r}", path=self.path, hint=f"it has {names or 'none'}")
        if fault := find_corruption(path):
            raise RunError(f"these weights are {fault}", path=path, hint="choose another checkpoint")
        self._usable = path

    def _next_best(self, best: Path, fault: str) -> Path:
        index = self.index()
        others = {name: scores for name, scores in index.checkpoints.items() if name != best.stem}
        metric = index.early_stopping_metric
        for name in sorted(others, key=lambda name: checkpoint_quality(others[name], metric), reverse=True):
            path = self.checkpoint(name)
            if not find_corruption(path):
                log.warning("%s: these weights are %s; using %s instead", best, fault, name)
                return path
        raise RunError(
            f"these weights are {fault}",
            path=best,
            hint="copy it again from where it was trained; the run has no other undamaged checkpoint",
        )

    def remove_leftovers(self) -> None:
        """Remove files that killed processes left half-written in the run."""
        for folder in (self.path, *(path for path in self.path.iterdir() if path.is_dir())):
            remove_leftovers(folder)

    def write_pairs(self, split: str, pairs: list[SentencePair], directions: Sequence[Direction] = ()) -> None:
        """Save the sentences of `split` (valid, test), one per line: the sentences that scores are measured on.

        If there are several directions, `directions` has the direction of each pair, grouped by direction.
        """
        self.data.mkdir(parents=True, exist_ok=True)
        if directions:
            sizes = [(direction, len(list(group))) for direction, group in groupby(directions)]
            listed = tuple(DirectionSize(src=src, tgt=tgt, pairs=size) for (src, tgt), size in sizes)
            self.write_json(self.data / f"{split}.json", SplitInfo(directions=listed))
        for side, texts in (("src", (pair.src for pair in pairs)), ("tgt", (pair.tgt for pair in pairs))):
            write_text(self.data / f"{split}.{side}", "".join(text + "\n" for text in texts))

    def read_pairs(self, split: str) -> tuple[list[str], list[str]]:
        """Return the sources and targets of `split`, as written by `write_pairs`. RunError if a line is missing."""
        src, tgt = self.data / f"{split}.src", self.data / f"{split}.tgt"
        sources, targets = list(read_lines(src)), list(read_lines(tgt))
        if len(sources) != len(targets):
            raise RunError(
                f"{len(targets):,} lines, but {src.name} has {len(sources):,}",
                path=tgt,
                hint="copy both files again from where the run was trained",
            )
        return sources, targets

    def sources_with_twins(self) -> set[str]:
        """Return the sources of the test set that have a near-twin in the training data; none if that is not known."""
        text = self.twins.read_text(encoding="utf-8", errors="replace") if self.twins.is_file() else ""
        return set(filter(None, text.split("\n")))

    def read_sets(self, split: str, only: Direction) -> list[DirectedPairs]:
        """Return `split` by direction. A saved set with a single direction does not name it; it is then `only`.

        RunError if the run has no such set, because its model was imported or packed.
        """
        if not self.data.is_dir():
            raise RunError(
                f"this model was imported or packed, so it has no {split} set",
                path=self.path.name,
                hint="pass sentences with --src and --ref, or with --tsv",
            )
        sources, references = self.read_pairs(split)
        path = self.data / f"{split}.json"
        if not path.exists():
            return [DirectedPairs(only, sources, references)]
        sets = []
        start = 0
        for src, tgt, size in (each.model_dump().values() for each in self._read_record(path, SplitInfo).directions):
            here = slice(start, start + size)
            sets.append(DirectedPairs(Direction(src, tgt), sources[here], references[here]))
            start += size
        if start != len(sources):
            raise RunError(
                f"{start} pairs in all, but {split}.src has {len(sources)} lines",
                path=path,
                hint="copy the file again from where the run was trained",
            )
        return sets


def checksums_of_weights(models: Sequence[RunDir]) -> tuple[str, ...]:
    """Return a checksum of the weights of each model."""
    return tuple(short_sha256(run.usable_checkpoint()) for run in models)


def refuse_existing(path: Path) -> None:
    """Raise RunError if there is anything but an empty folder at `path`, where a new run is to be created."""
    refuse_other_folder(path)
    if RunDir(path).config_file.exists():
        raise RunError(
            "this run already exists",
            path=path,
            hint="continue it with --resume, replace it with --overwrite, or choose another folder with --run",
        )


def refuse_other_folder(path: Path) -> None:
    """Raise RunError if there is something at `path` that is neither a run nor an empty folder."""
    if path.exists() and not RunDir(path).config_file.is_file() and not _is_empty_folder(path):
        what = "folder" if path.is_dir() else "file"
        raise RunError(f"this {what} is not a run", path=path, hint="choose another --run")


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and next(path.iterdir(), None) is None


@contextmanager
def new_run(path: Path, *, overwrite: bool) -> Iterator[RunDir]:
    """Yield a run in an empty folder beside `path`; on success flush its files to disk and rename it to `path`.

    If the block raises, the folder is removed and `path` stays unchanged. RunError if `path` exists, unless it is an
    empty folder, or a run that is not being trained and `overwrite` is given.
    """

    def refuse(existing: Path) -> AbstractContextManager[None] | None:
        if not overwrite:
            refuse_existing(existing)
        if _is_empty_folder(existing):
            return None
        refuse_other_folder(existing)
        return RunDir(existing).locked()

    with new_folder(path, replace=refuse) as folder:
        yield RunDir(folder)
        with suppress(OSError):  # remove an empty folder; unlike a rename, this spares a run that has just appeared
            Path(os.path.realpath(path)).rmdir()
