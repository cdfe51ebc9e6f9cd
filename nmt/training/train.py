"""A run from start to finish: prepare the data, train, write the model card."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

import nmt
from nmt.checkpoint import read_weights
from nmt.config import Config, DecodingConfig
from nmt.data.prepare import Prepared, open_prepared, prepare
from nmt.device import choose_device, choose_precision
from nmt.errors import RunError
from nmt.machine import num_cores
from nmt.rundir import FORMAT, RunDir, find_run, put_in_place, refuse_existing, refuse_foreign
from nmt.training.card import write_card
from nmt.training.interrupt import Interrupt
from nmt.training.trainer import Trainer
from nmt.training.workers import Workers, join_workers, leave_workers, local_workers

Say = Callable[[str], None]

# What may differ when a run is resumed: none of it changes what the weights mean.
_MAY_CHANGE = {
    "training": {"max_updates", "patience", "log_every", "keep_checkpoints", "average_last", "threads", "device"},
    "decoding": set(DecodingConfig.model_fields),
    "data": {"store_dir"},
}


def start_run(config: Config, path: Path, say: Say, *, overwrite: bool = False) -> bool:
    """Train a new run at `path`; returns whether it was finished (False: interrupted, state saved).

    The folder appears once its data is prepared, so a fault in the data leaves nothing behind
    and an old run as it was. Under torchrun every process calls this; the first one prepares.
    """
    with _together() as workers:
        if workers.first:
            _make_run(config, path, say, workers, overwrite=overwrite)
        workers.barrier()
        run = RunDir(path)
        with _held(run, workers):
            trainer = _trainer(run, config, path, workers)
            trainer.start()
            return _train(trainer, say)


def resume_run(config: Config | None, path: Path, say: Say) -> bool:
    """Go on with the run at `path`, with its own configuration, or with `config` where that differs harmlessly."""
    run = RunDir(path)
    if not run.config_file.is_file():
        raise RunError("there is no run to resume", path=path, mend="start it without --resume")
    with _together() as workers, _held(run, workers):
        old = run.config()
        config = config or old
        _refuse_changes(old, config, path)
        if workers.first:
            prepare(config, run, _store_root(config, path), say, run.read_json(run.info_file)["data_fingerprint"])
        workers.barrier()
        trainer = _trainer(run, config, path, workers)
        if run.state.exists() or run.index_file.exists():
            trainer.resume()
        else:  # stopped before anything was saved
            trainer.start()
        if workers.first:
            say(f"resuming {path} after update {trainer.update}")
            run.write_config(config)
            run.write_json(run.info_file, {**run.read_json(run.info_file), **_machine(trainer.device, workers)})
        return _train(trainer, say)


def _make_run(config: Config, path: Path, say: Say, workers: Workers, *, overwrite: bool) -> None:
    """Prepare the data and put a run with nothing trained in place."""
    (refuse_foreign if overwrite else refuse_existing)(path)
    if config.training.init_from:
        _refuse_unfit_base(config, path)
    staging = RunDir(path.with_name(f".{path.name}.{os.getpid()}.partial"))
    try:
        staging.path.mkdir(parents=True)
        _set_threads(config)
        device = choose_device(config.training.device)
        prepared = prepare(config, staging, _store_root(config, path), say)
        precision = choose_precision(config.training.precision, device)
        staging.write_config(config)
        staging.write_json(staging.info_file, _run_info(config, prepared, device, precision.name, workers))
        put_in_place(staging.path, path, overwrite=overwrite)
    finally:
        shutil.rmtree(staging.path, ignore_errors=True)


@contextmanager
def _together() -> Iterator[Workers]:
    """The processes of this training, joined; where one of them is lost, a RunError in the others."""
    workers = join_workers()
    try:
        yield workers
    except (dist.DistError, RuntimeError) as error:
        if workers.count == 1 or isinstance(error, torch.OutOfMemoryError):
            raise
        mend = "go on from the last checkpoint with --resume"
        raise RunError(f"another process of this training was lost ({error})", mend=mend) from error
    leave_workers()


def _held(run: RunDir, workers: Workers) -> AbstractContextManager[None]:
    return run.locked() if workers.first else nullcontext()


def _trainer(run: RunDir, config: Config, path: Path, workers: Workers) -> Trainer:
    """The trainer of a run that is prepared, on this process's device."""
    _set_threads(config)
    device = choose_device(config.training.device)
    info = run.read_json(run.info_file)
    prepared = open_prepared(run, _store_root(config, path), info["data_fingerprint"])
    return Trainer(run, config, prepared, device, choose_precision(info["precision"], device), workers)


def _train(trainer: Trainer, say: Say) -> bool:
    if trainer.workers.first:
        say(_describe(trainer))
    with Interrupt() as interrupt:
        finished = trainer.train(interrupt)
    if finished and trainer.workers.first:
        write_card(
            trainer.run, trainer.tokenizers, trainer.update, trainer.train_seconds, trainer.model.num_parameters()
        )
    return finished


def _describe(trainer: Trainer) -> str:
    size, precision = f"{trainer.model.num_parameters() / 1e6:.1f}M parameters", trainer.precision
    peak = f"{precision.flops / 1e9:,.0f} GFLOP/s in a large product"
    many = f"{trainer.workers.count} processes of " if trainer.workers.count > 1 else ""
    threads = f"{many}{torch.get_num_threads()} threads"
    return f"model: {size}; device {trainer.device.type}, {precision.name} ({peak}), {threads}"


def _set_threads(config: Config) -> None:
    torch.set_num_threads(config.training.threads or max(1, num_cores() // local_workers()))


def _store_root(config: Config, path: Path) -> Path:
    return Path(config.data.store_dir) if config.data.store_dir else path.parent / ".store"


def _refuse_changes(old: Config, new: Config, path: Path) -> None:
    """RunError if `new` differs from the run's own configuration in more than `_MAY_CHANGE`."""
    before, after = old.model_dump(), new.model_dump()
    for section, values in after.items():
        for key, value in values.items():
            was = before[section][key]
            if value != was and key not in _MAY_CHANGE.get(section, ()):
                allowed = ", ".join(f"{s}.{k}" for s, keys in _MAY_CHANGE.items() for k in sorted(keys))
                raise RunError(
                    f"{section}.{key} was {was!r} when the run was started and is {value!r} now",
                    path=path / "config.yaml",
                    mend=f"a resumed run may change {allowed}; start a new run for the rest",
                )


def _refuse_unfit_base(config: Config, path: Path) -> None:
    """RunError if the run to continue from is the one to be overwritten, or has weights of another shape."""
    base = find_run(config.training.init_from)
    if base.path.resolve() == path.resolve():
        raise RunError(
            "a run cannot be overwritten by one that continues from it", path=path, mend="name another --run"
        )
    before, after = base.config().model.model_dump(), config.model.model_dump()
    for key, value in after.items():
        if value != before[key] and not key.endswith("dropout"):
            raise RunError(
                f"model.{key} is {value!r} here and {before[key]!r} in the run to continue from",
                path=base.config_file,
                mend="training.init_from needs the same model section",
            )
    read_weights(base.best_checkpoint())  # damaged weights are told before anything is made


def _run_info(
    config: Config, prepared: Prepared, device: torch.device, precision: str, workers: Workers
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "command": sys.argv[1:],
        "seed": config.training.seed,
        "precision": precision,
        "data_fingerprint": prepared.fingerprint,
        **_machine(device, workers),
    }


def _machine(device: torch.device, workers: Workers) -> dict[str, Any]:
    return {
        "nmt": nmt.__version__,
        "commit": _git_commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "device": device.type,
        "threads": torch.get_num_threads(),
        "workers": workers.count,
    }


def _git_commit() -> str | None:
    """The commit of the code that trains, where it runs from a checkout of its own."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=True, timeout=5)
        done = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
