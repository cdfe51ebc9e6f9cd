"""Train a run from start to finish: prepare the data, train, compare int8 with fp32, write the model card."""

from __future__ import annotations

import hashlib
import logging
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import torch

import nmt
from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.find_model import find_run
from nmt.artifacts.run_records import Resumption, RunInfo
from nmt.artifacts.rundir import AVERAGE, RunDir, new_run, refuse_other_folder, run_path
from nmt.base.checksum import find_corruption
from nmt.base.device import choose_device, choose_precision, refuse_unfit_precision
from nmt.base.errors import NmtError, RunError, counted
from nmt.base.files import FULL_DISK, remove_leftovers, restore_replaced
from nmt.base.machine import bounded, num_cores
from nmt.config import Config, SearchOptions, dump_config, load_config
from nmt.decoding.engines.selection import prefers_fp32, prefers_phrases
from nmt.evaluation.evaluation import evaluate
from nmt.evaluation.model_card import write_card
from nmt.evaluation.render import render_evaluation
from nmt.training import loop
from nmt.training.batches import refuse_unfit_stages
from nmt.training.checkpoints import checkpoint_name
from nmt.training.confidence import record_confidence
from nmt.training.corpus.measure_text import measure_placeholders
from nmt.training.corpus.prepare import Prepared, find_store_root, prepare
from nmt.training.ending import has_ended, log_end, resume_plan
from nmt.training.environment import Setup, changes, describe_environment
from nmt.training.final_weights import check_int8
from nmt.training.interrupt import Interrupt
from nmt.training.memory_limits import fit_into_memory, refuse_stages_beyond_memory
from nmt.training.metrics import TrainRecord, ValidRecord
from nmt.training.parts import ONLY_LATER_STAGES, Training
from nmt.training.phrases import build_table, check_more_tgt
from nmt.training.processes import joined_process_group, local_world_size
from nmt.training.stages import stage_lengths, stage_spans
from nmt.training.update.distributed import ProcessGroup
from nmt.training.verdict import record_verdict, translate_by_default
from nmt.training.waiting import sleeping_if_crowded

log = logging.getLogger(__name__)

_MAX_UPDATES = "training.max_updates"
_OTHER_DEVICE = "resume it on a machine with a CUDA device, or start a new run from its weights with training.init_from"
# Keys that may change when a run is resumed, because none of them changes the meaning of the weights. Files may have
# moved if they contain the same text, which the fingerprint verifies.
_MAY_CHANGE = {
    "training": {
        *("max_updates", "max_minutes", "early_stopping_patience", "keep_checkpoints", "average_checkpoints"),
        *("log_every", "score_test", "threads", "device"),
    },
    "decoding": set(SearchOptions.model_fields),
    "data": {"store_dir", "train", "valid", "test", "mono_tgt"},
}

OnRecord = Callable[[TrainRecord | ValidRecord], None]
OnUpdate = Callable[[TrainRecord | ValidRecord], bool | None]  # True: stop


def start_run(config: Config, path: Path, *, overwrite: bool = False, interrupt: Interrupt | None = None) -> bool:
    """Train a new run at `path`; return whether it was finished (False: interrupted, state saved).

    The folder appears only after its data is prepared, so an error in the data leaves nothing behind and does not touch
    an old run. Under torchrun, every process calls this, and rank 0 prepares the data.
    """
    with joined_process_group() as group:
        _make_run(config, path, group, overwrite=overwrite)
        return _train_run(config, path, group, interrupt, resumes=False)


def resume_run(config: Config | None, path: Path, interrupt: Interrupt | None = None) -> bool:
    """Continue the run at `path` with its own configuration, or with `config` if it differs only in allowed keys.

    Returns the same as `start_run`.
    """
    restore_replaced(path)
    refuse_other_folder(path)
    if not RunDir(path).config_file.is_file():
        raise RunError("there is no run to resume", path=path, hint="start it without --resume")
    with joined_process_group() as group:
        return _train_run(config, path, group, interrupt, resumes=True)


def start_or_resume_run(
    config: Config, path: Path, interrupt: Interrupt | None = None, on_record: OnRecord | None = None
) -> bool:
    """Continue the run at `path` if it exists, else start it; for jobs that a cluster restarts.

    `on_record` is called in rank 0 with each record of the log. Returns the same as `start_run`.
    """
    restore_replaced(path)
    with joined_process_group() as group:
        # Rank 0 decides for all ranks, because it may create the run before another rank looks.
        exists = group.gather(RunDir(path).config_file.is_file())[0]
        if not exists:
            _make_run(config, path, group, overwrite=False)
        return _train_run(config, path, group, interrupt, on_record, resumes=exists)


class TrainResult(NamedTuple):
    """The result of `train`."""

    run: RunDir
    finished: bool  # False: interrupted; the state is saved, and another call continues
    scores: dict[str, float]  # of the best checkpoint on the validation set: loss, perplexity, bleu, chrf


def train(config: Config | str | Path, run: str | Path, *, on_update: OnUpdate | None = None) -> TrainResult:
    """Train the run at the path `run`, or continue it if it exists, like `nmt train --resume`.

    `config` is a configuration or the path of its YAML file. `on_update` is called with each record that is written
    into `logs/metrics.jsonl`: a TrainRecord every `training.log_every` updates, and a ValidRecord per validation. If it
    returns True, or at Ctrl-C, training finishes the update, saves the state and returns.
    Progress goes to Python's logging. NmtError for errors that the user can fix.
    """
    config = config if isinstance(config, Config) else load_config(config)
    path = run_path(run)
    interrupt = Interrupt()

    def watch(record: TrainRecord | ValidRecord) -> None:
        if on_update is not None and on_update(record) is True:
            interrupt.requested = signal.SIGINT

    finished = start_or_resume_run(config, path, interrupt, watch)
    index = RunDir(path).index()
    return TrainResult(RunDir(path), finished, {} if index.best is None else index.checkpoints[index.best])


def _make_run(config: Config, path: Path, group: ProcessGroup, *, overwrite: bool) -> None:
    """Prepare the data and create the untrained run, in rank 0; the others wait for it."""
    if not group.is_main:
        group.await_main()
        return
    _clean_up(config, path)
    with new_run(path, overwrite=overwrite) as run:
        if config.training.init_from:
            _refuse_unfit_base(config, path)
        _set_threads(config)
        device = choose_device(config.training.device)
        refuse_unfit_precision(config.training.precision, device)
        prepared = prepare(config, run, find_store_root(config, path))
        check_more_tgt(config, prepared, run)
        refuse_unfit_stages(stage_spans(config), config, prepared.store)
        precision = choose_precision(config.training.precision, device)
        run.write_config(config)
        facts = describe_environment(device, group.world_size).model_dump()
        facts |= {"command": sys.argv[1:], "seed": config.training.seed, "precision": precision.name}
        run.write_json(run.info_file, RunInfo.model_validate(facts | {"data_fingerprint": prepared.fingerprint}))
    group.await_main()


def _clean_up(config: Config, path: Path) -> None:
    """Remove the leftovers of killed training runs beside the run and in the store."""
    remove_leftovers(path.parent, path.name)
    remove_leftovers(find_store_root(config, path))


def _train_run(
    config: Config | None,
    path: Path,
    group: ProcessGroup,
    interrupt: Interrupt | None,
    on_record: OnRecord | None = None,
    *,
    resumes: bool,
) -> bool:
    """Train the new run that `_make_run` has made, or resume one, with its own configuration if `config` is None."""
    run = RunDir(path)
    old = None
    if resumes:
        run.check()
    with run.locked() if group.is_main else nullcontext():
        if resumes:
            old = run.config()
            config = config or old
            _refuse_changes(old, config, path)
            _prepare_resumed(run, config, group)
        assert config is not None
        _refuse_differing_ranks(run, config, group)
        training = _open_training(run, config, group)
        if on_record is not None:
            training.monitor.on_record = on_record
        if old is None or not any(file.exists() for file in (run.state, run.previous_state, run.index_file)):
            training.start()  # it is new, or was stopped before anything was saved
        else:
            training.resume()
            resume_plan(training, old)
        if old is not None:
            _refuse_changes_of_begun_stages(old, training)
            later = training.stages[training.stage.number + 1 :]  # they may have changed
            refuse_unfit_stages(later, config, training.store)
            if group.is_main:
                log.info(f"resuming {run.path} after update {training.update}")
        return _train(training, interrupt, resumed=old)


def _prepare_resumed(run: RunDir, config: Config, group: ProcessGroup) -> None:
    """Do for a run that is resumed what `_make_run` does for a new one: check the machine, find or prepare the data."""
    info = run.info()
    refuse_unfit_precision(info.precision, choose_device(config.training.device), hint=_OTHER_DEVICE)
    if group.is_main:
        _clean_up(config, run.path)
        run.remove_leftovers()
        prepare(config, run, find_store_root(config, run.path), info.data_fingerprint)
    group.await_main()


def _refuse_differing_ranks(run: RunDir, config: Config, group: ProcessGroup) -> None:
    """Raise RunError in every rank unless all have the same versions, configuration and run."""
    facts = {
        "nmt": nmt.__version__,
        "torch": torch.__version__,
        "the configuration's digest": hashlib.sha256(dump_config(config).encode()).hexdigest()[:12],
        "the run folder": "there" if run.config_file.is_file() else "missing",
    }
    first, *others = group.gather(facts)
    for rank, other in enumerate(others, 1):
        for name, value in first.items():
            if other[name] != value:
                message = f"{name} is {value} on rank 0 and {other[name]} on rank {rank}"
                raise RunError(
                    f"the processes of this training differ: {message}",
                    hint="all machines need the same versions, command, and files (a shared file system)",
                )


def _open_training(run: RunDir, config: Config, group: ProcessGroup) -> Training:
    """Build the parts of a training on this rank's device, from prepared data."""
    _set_threads(config)
    if (threads := config.training.threads) > (most := bounded(threads)):
        log.warning("training.threads is %d, but this machine has %s; using as many", threads, counted(most, "core"))
    device = choose_device(config.training.device)
    info = run.info()
    prepared = Prepared.open(run, find_store_root(config, run.path), info.data_fingerprint)
    return Training(run, config, prepared, Setup(device, choose_precision(info.precision, device), group))


def _train(training: Training, interrupt: Interrupt | None, resumed: Config | None) -> bool:
    """Train to the end or until `interrupt`; a run that is `resumed` had this configuration before."""
    group = training.setup.group
    if group.is_main:
        log.info(_describe(training))
    with sleeping_if_crowded(), interrupt or Interrupt() as entered, _explained_errors(training.run):
        entered.defer()
        fit_into_memory(training)
        refuse_stages_beyond_memory(training)
        # The run is changed only from here on, when no check of any rank can refuse to train it.
        is_finished = group.gather(group.is_main and resumed is not None and _is_finished(training, resumed))[0]
        if has_ended(training):
            log_end(training, 0)
        if not is_finished:
            training.tidy_up()
        if group.is_main:  # after it, or a kill between them would make results of the old settings look final
            _record(training, is_resumed=resumed is not None)
        if is_finished:
            return True
        finished = loop.train(training, entered)
        if finished and group.is_main:
            _judge(training)
            measure_placeholders(RunDir(training.run.path), training.config)
            finished = not entered.requested
            if finished:
                if training.settings.score_test:
                    _score_test_set(RunDir(training.run.path))
                _write_card(training)
    return finished


def _is_finished(training: Training, before: Config) -> bool:
    """Return whether the run was trained to its end with the same configuration, and all its results are there."""
    run = training.run
    if not has_ended(training) or training.config != before or not run.card.exists():
        return False
    try:
        index = run.index()
        is_current = index.last == training.history.last == checkpoint_name(training.update)
        is_known = index.checkpoints.keys() <= {*training.history.checkpoints, AVERAGE}
        has_table = index.phrases is None or run.phrases.is_file()
        return (
            is_current
            and is_known
            and has_table
            and not any(find_corruption(run.checkpoint(name)) for name in index.checkpoints)
        )
    except RunError:  # training writes a damaged index anew
        return False


def _record(training: Training, *, is_resumed: bool) -> None:
    """Write facts about this training into the run; warn if results may not be bit-identical after a resumption."""
    run = training.run
    info = run.info()
    facts = {"packed": training.in_blocks, "packed_reason": training.blocks_reason}
    if is_resumed:
        run.write_config(training.config)
        now = describe_environment(training.setup.device, training.setup.group.world_size)
        facts |= now.model_dump()
        if differences := changes(info, now):
            log.warning(
                f"{'; '.join(differences)}. Training continues normally, but the result will not be "
                "bit-identical to an uninterrupted run."
            )
            facts["resumed"] = [*info.resumed, Resumption(after_update=training.update, changed=differences)]
    run.write_json(run.info_file, info.model_copy(update=facts))


def _judge(training: Training) -> None:
    """Build the phrase table, choose between it and the network, and measure what translates; save all in the run."""
    run = RunDir(training.run.path)
    by_network = check_int8(training)
    by_table = build_table(training, by_network)
    by_better = by_table if prefers_phrases([run]) else by_network
    delivered = translate_by_default(training, by_better)
    if delivered is not None:
        record_confidence(training, delivered)
        record_verdict(training, {"phrase table": by_table, "network": by_network}, delivered)


def _score_test_set(run: RunDir) -> None:
    """Score the test set with the best checkpoint, as `nmt eval` does, unless that was done before.

    A failure is only a warning, because the training itself is complete.
    """
    try:
        if run.evaluation(run.index().best) is not None:
            return
        log.info("scoring the test set")
        for line in render_evaluation(evaluate(run)):
            log.info("test set: %s", line)
    except NmtError as error:
        log.warning("the test set was not scored: %s", error.message)


def _write_card(training: Training) -> None:
    write_card(
        training.run,
        training.config,
        training.tokenizers,
        num_updates=training.update,
        minutes=training.monitor.train_seconds / 60,
        cpu_precision="fp32" if prefers_fp32(training.run) else "int8",
    )


@contextmanager
def _explained_errors(run: RunDir) -> Iterator[None]:
    """Turn an error of the file system, such as a full disk, into a RunError."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in FULL_DISK
        what, remedy = ("written", "after freeing space, ") if is_full else ("read or written", "")
        resume = f"nmt train --resume --run {shlex.quote(str(run.path))}"
        raise RunError(
            f"cannot be {what}: {error.strerror or error}",
            path=error.filename,
            hint=f"everything saved before is kept; {remedy}continue with: {resume}",
        ) from error


def _describe(training: Training) -> str:
    size = f"{training.model.num_parameters() / 1e6:.1f}M parameters"
    device, precision, group = training.setup
    peak = f"{precision.flops / 1e9:,.0f} GFLOP/s in a large matrix product"
    processes = f"{group.world_size} processes of " if group.world_size > 1 else ""
    threads = f"{processes}{counted(torch.get_num_threads(), 'thread')}"
    return f"model: {size}; device {device.type}, {precision.name} ({peak}), {threads}"


def _set_threads(config: Config) -> None:
    torch.set_num_threads(bounded(config.training.threads) or max(1, num_cores() // local_world_size()))


def _refuse_changes(old: Config, new: Config, path: Path) -> None:
    """Raise RunError listing all differences if `new` differs from the run's configuration beyond `_MAY_CHANGE`."""
    before, after = _fixed_settings(old), _fixed_settings(new)
    differences = [
        f"{key} was {before[key]!r} when the run was started and is {value!r} now"
        for key, value in after.items()
        if value != before[key]
    ]
    if differences:
        keys = [f"{section}.{key}" for section, keys in _MAY_CHANGE.items() for key in sorted(keys)]
        if old.training.stages:
            keys[keys.index(_MAX_UPDATES)] = "training.stages that have not begun, max_updates of the present one"
        raise RunError(
            "; ".join(differences),
            path=path / "config.yaml",
            hint=f"a resumed run may only change {', '.join(keys)}; start a new run for other changes",
        )


def _fixed_settings(config: Config) -> dict[str, object]:
    """Return, by key, the settings that a resumed run must keep."""
    settings: dict[str, object] = {
        f"{section}.{key}": value
        for section, values in config.model_dump().items()
        for key, value in values.items()
        if key not in _MAY_CHANGE.get(section, ())
    }
    corpora = config.data.corpora("train")
    settings["weights of data.train"] = [files.weight for files in corpora]
    # Stages that have not begun may change.
    return settings | {"training.stages": "some" if config.training.stages else "none"}


def _refuse_changes_of_begun_stages(old: Config, training: Training) -> None:
    """Raise RunError if stages that have begun differ from those of `old`, or if there were more updates already."""
    settings = training.settings
    update = training.update
    present = training.stage
    for number, stage in enumerate(settings.stages[: present.number + 1]):
        before = old.training.stages[number]
        if number == present.number:  # it may become longer or shorter
            before = before.model_copy(update={"max_updates": stage.max_updates})
        if stage != before:
            raise RunError(
                f"training.stages: stage {number + 1} has begun, so it must stay as it was",
                path=training.run.config_file,
                hint=ONLY_LATER_STAGES,
            )
    length = stage_lengths(settings)[present.number]
    had = update - present.start
    if length < had:
        name = f"max_updates of stage {present.number + 1} of training.stages" if settings.stages else _MAX_UPDATES
        raise RunError(
            f"{name} is {length}, but there have been {had} updates already",
            path=training.run.config_file,
            hint=f"set it to {had} or more",
        )


def _refuse_unfit_base(config: Config, path: Path) -> None:
    """Raise RunError if the run to continue from would be overwritten, or has a different model."""
    base = find_run(config.training.init_from)
    if base.path.resolve() == path.resolve():
        raise RunError(
            "a run cannot be overwritten by one that continues from it", path=path, hint="choose another --run"
        )
    before = base.config().model.model_dump()
    after = config.model.model_dump()
    differences = [
        f"model.{key} is {value!r} here and {before[key]!r} in the run to continue from"
        for key, value in after.items()
        if value != before[key] and not key.endswith("dropout")
    ]
    if differences:
        raise RunError(
            "; ".join(differences), path=base.config_file, hint="training.init_from needs the same model section"
        )
    read_weights(base.best_checkpoint())  # so that damaged weights are reported before anything is created
