"""A run from start to finish: prepare the data, train, write the model card."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

from nmt.checkpoint import read_weights
from nmt.config import Config, SearchOptions
from nmt.device import choose_device, choose_precision
from nmt.errors import RunError
from nmt.files import remove_leftovers
from nmt.machine import num_cores
from nmt.rundir import FORMAT, RunDir, find_run, new_run, restore_replaced
from nmt.training.card import write_card
from nmt.training.distributed import ProcessGroup, join_process_group, leave_process_group, local_world_size
from nmt.training.interrupt import Interrupt
from nmt.training.machine import changes, describe_machine, warning_of
from nmt.training.prepare import Prepared, open_prepared, prepare
from nmt.training.trainer import Trainer

log = logging.getLogger(__name__)


# What may differ when a run is resumed: none of it changes what the weights mean. Files may have been moved, but hold
# the same text: the fingerprint tells.
_MAY_CHANGE = {
    "training": {
        "max_updates",
        "early_stopping_patience",
        "log_every",
        "keep_checkpoints",
        "average_checkpoints",
        "threads",
        "device",
    },
    "decoding": set(SearchOptions.model_fields),
    "data": {"store_dir", "train", "valid", "test"},
}


def start_run(config: Config, path: Path, *, overwrite: bool = False, interrupt: Interrupt | None = None) -> bool:
    """Train a new run at `path`; returns whether it was finished (False: interrupted, state saved).

    The folder appears once its data is prepared, so a fault in the data leaves nothing behind
    and an old run as it was. Under torchrun every process calls this; the first one prepares.
    """
    with _together() as group:
        if group.is_main:
            _make_run(config, path, group, overwrite=overwrite)
        group.await_main()
        group.barrier()
        run = RunDir(path)
        with _held(run, group):
            trainer = _trainer(run, config, path, group)
            trainer.start()
            trainer.save()  # so that a run with checkpoints always has a state
            return _train(trainer, interrupt)


def resume_run(config: Config | None, path: Path, interrupt: Interrupt | None = None) -> bool:
    """Go on with the run at `path`, with its own configuration, or with `config` where that differs harmlessly."""
    run = RunDir(path)
    restore_replaced(path)
    if not run.config_file.is_file():
        raise RunError("there is no run to resume", path=path, hint="start it without --resume")
    run.check()
    with _together() as group, _held(run, group):
        old = run.config()
        config = config or old
        _refuse_changes(old, config, path)
        if group.is_main:
            _clean_up(config, path)
            run.remove_leftovers()
            prepare(config, run, _store_root(config, path), run.info().data_fingerprint)
        group.await_main()
        group.barrier()
        trainer = _trainer(run, config, path, group)
        if any(path.exists() for path in (run.state, run.previous_state, run.index_file)):
            trainer.resume()
        else:  # stopped before anything was saved
            trainer.start()
            trainer.save()
        group.barrier()
        if group.is_main:
            _note_resumption(trainer, config)
        return _train(trainer, interrupt)


def _note_resumption(trainer: Trainer, config: Config) -> None:
    """Say where the run goes on, and what is no longer promised; record both."""
    run = trainer.run
    log.info(f"resuming {run.path} after update {trainer.update}")
    info, now = (
        run.read_json(run.info_file),
        {**describe_machine(trainer.device), "world_size": trainer.group.world_size},
    )
    if differences := changes(info, now):
        log.warning(warning_of(differences))
        info["resumed"] = [*info.get("resumed", []), {"after_update": trainer.update, "changed": differences}]
    run.write_config(config)
    run.write_json(run.info_file, {**info, **now, "format": FORMAT})


def _clean_up(config: Config, path: Path) -> None:
    """Remove what killed trainings left beside the run and in the store."""
    remove_leftovers(path.parent, path.name)
    remove_leftovers(_store_root(config, path))


def _make_run(config: Config, path: Path, group: ProcessGroup, *, overwrite: bool) -> None:
    """Prepare the data and put a run with nothing trained in place."""
    _clean_up(config, path)
    with new_run(path, overwrite=overwrite) as run:
        if config.training.init_from:
            _refuse_unfit_base(config, path)
        _set_threads(config)
        device = choose_device(config.training.device)
        prepared = prepare(config, run, _store_root(config, path))
        precision = choose_precision(config.training.precision, device)
        run.write_config(config)
        run.write_json(run.info_file, _run_info(config, prepared, device, precision.name, group))


@contextmanager
def _together() -> Iterator[ProcessGroup]:
    """The processes of this training, joined; where one of them is lost, a RunError in the others."""
    group = join_process_group()
    try:
        yield group
    except (dist.DistError, RuntimeError) as error:
        if group.world_size == 1 or isinstance(error, torch.OutOfMemoryError):
            raise
        hint = "go on from the last checkpoint with --resume"
        raise RunError(f"another process of this training was lost ({error})", hint=hint) from error
    leave_process_group()


def _held(run: RunDir, group: ProcessGroup) -> AbstractContextManager[None]:
    return run.locked() if group.is_main else nullcontext()


def _trainer(run: RunDir, config: Config, path: Path, group: ProcessGroup) -> Trainer:
    """The trainer of a run that is prepared, on this process's device."""
    _set_threads(config)
    device = choose_device(config.training.device)
    info = run.info()
    prepared = open_prepared(run, _store_root(config, path), info.data_fingerprint)
    return Trainer(run, config, prepared, device, choose_precision(info.precision, device), group)


def _train(trainer: Trainer, interrupt: Interrupt | None) -> bool:
    if trainer.group.is_main:
        log.info(_describe(trainer))
    with interrupt or Interrupt() as asked:
        asked.defer()
        try:
            finished = trainer.train(asked)
        except OSError as error:  # such as a full disk
            go_on = f"nmt train --resume --run {shlex.quote(str(trainer.run.path))}"
            hint = f"what was saved before is kept; once there is room, go on with: {go_on}"
            raise RunError(f"cannot be written: {error.strerror or error}", path=error.filename, hint=hint) from error
        except RuntimeError as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            hint = "it needs a C++ compiler, and on a GPU Triton; or start the run with training.compile false"
            raise RunError(f"torch.compile failed: {reason}", hint=hint) from error
    if finished and trainer.group.is_main:
        write_card(
            trainer.run, trainer.tokenizers, trainer.update, trainer.train_seconds, trainer.model.num_parameters()
        )
    return finished


def _describe(trainer: Trainer) -> str:
    size, precision = f"{trainer.model.num_parameters() / 1e6:.1f}M parameters", trainer.precision
    peak = f"{precision.flops / 1e9:,.0f} GFLOP/s in a large product"
    many = f"{trainer.group.world_size} processes of " if trainer.group.world_size > 1 else ""
    threads = f"{many}{torch.get_num_threads()} threads"
    return f"model: {size}; device {trainer.device.type}, {precision.name} ({peak}), {threads}"


def _set_threads(config: Config) -> None:
    torch.set_num_threads(config.training.threads or max(1, num_cores() // local_world_size()))


def _store_root(config: Config, path: Path) -> Path:
    return Path(config.data.store_dir) if config.data.store_dir else Path(os.path.abspath(path)).parent / ".store"


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
                    hint=f"a resumed run may change {allowed}; start a new run for the rest",
                )


def _refuse_unfit_base(config: Config, path: Path) -> None:
    """RunError if the run to continue from is the one to be overwritten, or has weights of another shape."""
    base = find_run(config.training.init_from)
    if base.path.resolve() == path.resolve():
        raise RunError(
            "a run cannot be overwritten by one that continues from it", path=path, hint="name another --run"
        )
    before, after = base.config().model.model_dump(), config.model.model_dump()
    for key, value in after.items():
        if value != before[key] and not key.endswith("dropout"):
            raise RunError(
                f"model.{key} is {value!r} here and {before[key]!r} in the run to continue from",
                path=base.config_file,
                hint="training.init_from needs the same model section",
            )
    read_weights(base.best_checkpoint())  # damaged weights are told before anything is made


def _run_info(
    config: Config, prepared: Prepared, device: torch.device, precision: str, group: ProcessGroup
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "command": sys.argv[1:],
        "seed": config.training.seed,
        "precision": precision,
        "data_fingerprint": prepared.fingerprint,
        **describe_machine(device),
        "world_size": group.world_size,
    }
