"""A run from start to finish: prepare the data, train, write the model card."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nmt.checkpoint import read_weights
from nmt.config import Config
from nmt.data.prepare import Prepared, prepare
from nmt.device import choose_device
from nmt.errors import RunError
from nmt.files import remove_leftovers
from nmt.rundir import FORMAT, RunDir, clean_up_beside, find_run, put_in_place, refuse_existing, refuse_foreign
from nmt.training.card import write_card
from nmt.training.interrupt import Interrupt
from nmt.training.machine import changes, describe_machine, warning_of
from nmt.training.trainer import Trainer

Say = Callable[[str], None]

# What may differ when a run is resumed: none of it changes what the weights mean.
_MAY_CHANGE = {
    "training": {"max_updates", "patience", "log_every", "keep_checkpoints", "average_last", "threads", "device"},
    "decoding": {"batch_tokens", "max_len_factor", "max_len_offset"},
    "data": {"store_dir"},
}


def start_run(
    config: Config, path: Path, say: Say, *, overwrite: bool = False, interrupt: Interrupt | None = None
) -> bool:
    """Train a new run at `path`; returns whether it was finished (False: interrupted, state saved).

    The folder appears once its data is prepared, so a fault in the data leaves nothing behind
    and an old run as it was.
    """
    _clean_up(config, path)
    (refuse_foreign if overwrite else refuse_existing)(path)
    if config.training.init_from:
        _refuse_unfit_base(config, path)
    staging = RunDir(path.with_name(f".{path.name}.{os.getpid()}.partial"))
    try:
        staging.path.mkdir(parents=True)
        device, precision = _resolve(config)
        prepared = prepare(config, staging, _store_root(config, path), say)
        staging.write_config(config)
        staging.write_json(staging.info_file, _run_info(config, prepared, device, precision))
        put_in_place(staging.path, path, overwrite=overwrite)
    finally:
        shutil.rmtree(staging.path, ignore_errors=True)
    run = RunDir(path)
    with run.locked():
        trainer = Trainer(run, config, prepared, device, precision)
        trainer.start()
        trainer.save()  # so that a run with checkpoints always has a state
        return _train(trainer, prepared, precision, say, interrupt)


def resume_run(config: Config | None, path: Path, say: Say, interrupt: Interrupt | None = None) -> bool:
    """Go on with the run at `path`, with its own configuration, or with `config` where that differs harmlessly."""
    run = RunDir(path)
    clean_up_beside(path)
    if not run.config_file.is_file():
        raise RunError("there is no run to resume", path=path, mend="start it without --resume")
    run.check()
    with run.locked():
        old = run.config()
        config = config or old
        _clean_up(config, path)
        run.remove_leftovers()
        _refuse_changes(old, config, path)
        info = run.read_json(run.info_file)
        prepared = prepare(config, run, _store_root(config, path), say, expected=info["data_fingerprint"])
        device, _ = _resolve(config)
        trainer = Trainer(run, config, prepared, device, info["precision"])
        if any(path.exists() for path in (run.state, run.previous_state, run.old_state, run.index_file)):
            trainer.resume(say)
        else:  # stopped before anything was saved
            trainer.start()
            trainer.save()
        say(f"resuming {path} after update {trainer.update}")
        now = describe_machine(device)
        if differences := changes(info, now):
            say(warning_of(differences))
            info["resumed"] = [*info.get("resumed", []), {"after_update": trainer.update, "changed": differences}]
        run.write_config(config)
        run.write_json(run.info_file, {**info, **now, "format": FORMAT})
        return _train(trainer, prepared, info["precision"], say, interrupt)


def _clean_up(config: Config, path: Path) -> None:
    """Remove what killed trainings left beside the run and in the store."""
    clean_up_beside(path)
    remove_leftovers(_store_root(config, path))


def _train(trainer: Trainer, prepared: Prepared, precision: str, say: Say, interrupt: Interrupt | None) -> bool:
    size = f"{trainer.model.num_parameters() / 1e6:.1f}M parameters"
    say(f"model: {size}; device {trainer.device.type}, {precision}, {torch.get_num_threads()} threads")
    with interrupt or Interrupt() as asked:
        asked.defer()
        try:
            finished = trainer.train(asked)
        except OSError as error:  # such as a full disk
            go_on = f"nmt train --resume --run {shlex.quote(str(trainer.run.path))}"
            mend = f"what was saved before is kept; once there is room, go on with: {go_on}"
            raise RunError(f"cannot be written: {error.strerror or error}", path=error.filename, mend=mend) from error
    if finished:
        num_parameters = trainer.model.num_parameters()
        write_card(trainer.run, prepared.tokenizers, trainer.update, trainer.train_seconds, num_parameters)
    return finished


def _resolve(config: Config) -> tuple[torch.device, str]:
    """Device and precision, with each `auto` decided, and the number of CPU threads set."""
    torch.set_num_threads(config.training.threads or _num_cores())
    device = choose_device(config.training.device)
    if config.training.precision != "auto":
        return device, config.training.precision
    native_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return device, "bf16" if native_bf16 else "fp32"


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


def _run_info(config: Config, prepared: Prepared, device: torch.device, precision: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "command": sys.argv[1:],
        "seed": config.training.seed,
        "precision": precision,
        "data_fingerprint": prepared.fingerprint,
        **describe_machine(device),
    }
