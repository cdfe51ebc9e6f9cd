"""The run directory: the only place that knows file names inside a run. One folder is one loadable model."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nmt.config import Config, dump_config, load_config
from nmt.data.corpus import SentencePair, read_lines
from nmt.errors import RunError
from nmt.files import write_atomically, write_text

FORMAT = 1  # of the run directory; a run says which one it is


class RunDir:
    """Paths and small JSON files of one run."""

    def __init__(self, path: Path):
        self.path = path
        self.config_file = path / "config.yaml"
        self.info_file = path / "run.json"
        self.report_file = path / "report.json"
        self.card = path / "README.md"
        self.tokenizer = path / "tokenizer"
        self.data = path / "data"
        self.checkpoints = path / "checkpoints"
        self.index_file = self.checkpoints / "index.json"
        self.state = path / "state" / "training.pt"
        self.metrics = path / "logs" / "metrics.jsonl"
        self.evaluations = path / "eval"

    def checkpoint(self, name: str) -> Path:
        """The weights called `name` (step-00000500, average)."""
        return self.checkpoints / f"{name}.safetensors"

    def config(self) -> Config:
        """The resolved configuration the run was trained with."""
        return load_config(self.config_file)

    def write_config(self, config: Config) -> None:
        """Write the resolved configuration."""
        write_text(self.config_file, dump_config(config))

    def read_json(self, path: Path) -> dict[str, Any]:
        """One of the run's JSON files."""
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read this file of the run ({error})", path=path) from error
        if not isinstance(value, dict):
            raise RunError("not a JSON object", path=path)
        return value

    def write_json(self, path: Path, value: dict[str, Any]) -> None:
        """Write one of the run's JSON files, atomically."""
        write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for training; RunError if another process does. The lock ends with the process."""
        self.state.parent.mkdir(parents=True, exist_ok=True)
        with open(self.state.parent / "lock", "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                mend = "wait for it, or stop it"
                raise RunError("another process is training this run", path=self.path, mend=mend) from None
            yield

    def index(self) -> dict[str, Any]:
        """Which checkpoints there are: {best, last, checkpoints: {name: scores}, …}; empty before the first."""
        return self.read_json(self.index_file) if self.index_file.exists() else {}

    def best_checkpoint(self) -> Path:
        """The weights to translate with."""
        best = self.index().get("best")
        if not isinstance(best, str) or Path(best).name != best:
            raise RunError("this run has no checkpoint yet", path=self.path, mend="train it first, or name another run")
        return self.checkpoint(best)

    def write_pairs(self, split: str, pairs: list[SentencePair]) -> None:
        """Keep the sentences of `split` (valid, test), one a line, as what the scores were measured on."""
        self.data.mkdir(parents=True, exist_ok=True)
        for side, texts in (("src", (pair.src for pair in pairs)), ("tgt", (pair.tgt for pair in pairs))):
            with write_atomically(self.data / f"{split}.{side}") as partial:
                partial.write_text("".join(text + "\n" for text in texts), encoding="utf-8", newline="\n")

    def read_pairs(self, split: str) -> tuple[list[str], list[str]]:
        """Sources and targets of `split`, as written by `write_pairs`."""
        src, tgt = self.data / f"{split}.src", self.data / f"{split}.tgt"
        return list(read_lines(src)), list(read_lines(tgt))


def find_run(model: str | None) -> RunDir:
    """The run to use: `model` (--model), else $NMT_MODEL, else the run under ./runs that was trained last.

    RunError if there is none, or it has no checkpoint.
    """
    named = model or os.environ.get("NMT_MODEL")
    if named:
        run = RunDir(Path(named))
        if not run.path.is_dir():
            raise RunError("no such run", path=run.path, mend="name a folder that `nmt train` made")
        if not run.config_file.is_file():
            raise RunError(
                "not a run: it has no config.yaml", path=run.path, mend="name a folder that `nmt train` made"
            )
        run.best_checkpoint()
        return run
    runs = [RunDir(path.parent.parent) for path in Path("runs").glob("[!.]*/checkpoints/index.json")]
    if not runs:
        raise RunError(
            "no trained run under ./runs",
            mend="train one (`nmt train --config configs/demo-en-zh.yaml`), or name one with --model or $NMT_MODEL",
        )
    return max(runs, key=lambda run: run.index_file.stat().st_mtime)


def refuse_existing(path: Path) -> None:
    """RunError if something is where a new run is to be."""
    if path.exists():
        mend = "go on with it by --resume, replace it by --overwrite, or choose another folder with --run"
        raise RunError("this run exists already", path=path, mend=mend)


def refuse_foreign(path: Path) -> None:
    """RunError if something that is not a run is where a run is to be overwritten."""
    if path.exists() and not (path / "config.yaml").is_file():
        raise RunError("not a run, so it is not overwritten", path=path, mend="choose another name with --run")


def put_in_place(made: Path, path: Path, *, overwrite: bool) -> None:
    """Give the run `made` its final name; an old run there is deleted only once the new one stands, and if asked."""
    if not overwrite:
        refuse_existing(path)
        os.rename(made, path)
        return
    refuse_foreign(path)
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    if path.exists():
        os.rename(path, old)
    os.rename(made, path)
    shutil.rmtree(old, ignore_errors=True)
