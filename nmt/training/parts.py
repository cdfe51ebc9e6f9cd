"""The parts of a training, built from a configuration, and their state."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nmt.artifacts.checkpoint import check_weights, read_weights, with_rows_for_new_tokens
from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError, counted
from nmt.config import Config
from nmt.data.store.redraw import Redraw
from nmt.model.flops import TrainingFlops
from nmt.model.transformer import Transformer
from nmt.training.batches import UpdateBatches
from nmt.training.checkpoints import CheckpointHistory
from nmt.training.corpus.prepare import Prepared
from nmt.training.environment import Setup
from nmt.training.memory import own_bytes
from nmt.training.monitor import Monitor
from nmt.training.stages import StageSpan, planned_ends, stage_lengths, stage_spans
from nmt.training.state import Counters, Plan, TrainState, newest_state, random_state, set_random_state
from nmt.training.update.moving_average import MovingAverage
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.step import Step
from nmt.training.validation import Validator

log = logging.getLogger(__name__)


ONLY_LATER_STAGES = (
    "only stages that have not begun, and max_updates of the present one, may change; start a new run for other changes"
)


class Training:
    """The training of one run on one rank: its parts, and everything that changes from update to update."""

    def __init__(self, run: RunDir, config: Config, prepared: Prepared, setup: Setup):
        self.bytes_before = own_bytes()
        self.run, self.config, self.settings, self.setup = run, config, config.training, setup
        self.tokenizers = prepared.tokenizers
        torch.manual_seed(self.settings.seed)
        vocab_sizes = (self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size)
        self.model = Transformer(config.model, *vocab_sizes).to(setup.device).train()
        self.optimizer = Optimizer(self.model, self.settings, setup.precision.dtype)
        self.ema = MovingAverage(self.optimizer.master, self.settings.ema) if self.settings.ema else None
        self.plan: Plan | None = None
        self.stages = stage_spans(config)
        self.stage = self.stages[0]
        smoothing = self.stage.config.training.label_smoothing
        self.step = Step(self.model, self.optimizer, setup.group, smoothing, self.settings.compile)
        if setup.group.rank:  # dropout differs between the ranks
            torch.manual_seed(self.settings.seed + setup.group.rank)
        self.store = prepared.store
        self.batches = self.batches_of(self.stage)
        sets = run.read_sets("valid", config.data.directions[0])
        self.validator = Validator(sets, self.tokenizers, config, setup.group, run.statistics())
        self.history = CheckpointHistory(self.settings.early_stopping_metric)
        self.monitor = Monitor(run, self.settings, setup, TrainingFlops(self.model, self.settings.num_passes))
        self.update = 0
        self._set_stage(0)

    @property
    def is_last_stage(self) -> bool:
        """True in the last stage, or without stages."""
        return self.stage is self.stages[-1]

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """The fp32 weights to validate and save: those in training, or their moving average."""
        return self.optimizer.master if self.ema is None else self.ema.weights

    @property
    def end(self) -> int:
        """The update after which training ends."""
        return self.stages[-1].end

    def plan_end(self) -> None:
        """With `training.max_minutes`: end at the update that can be reached in that time, at the speed so far.

        The learning-rate schedule ends there too, and stages become shorter in proportion. Every rank must call this,
        after the same update.
        """
        if not self.settings.max_minutes:
            return
        share = self.monitor.train_seconds / (60 * self.settings.max_minutes)
        expected = self.update if share >= 1 else min(self._unlimited_end, round(self.update / max(share, 1e-9)))
        last = self.setup.group.gather(max(self.update, expected))[0]
        is_first = self.plan is None
        self._follow(planned_ends(self.settings, self._finished_ends, self.update, last))
        if is_first and self.setup.group.is_main:
            self._warn_of_warmups()

    def warn_if_unplanned(self) -> None:
        """Warn if the time is over before there was a plan."""
        if self.plan is None and self.setup.group.is_main:
            log.warning(
                "time ran out before the first line of the log, so the schedule could not be planned, and the "
                "learning rate has not fallen as it should; lower training.log_every"
            )

    @property
    def is_shortened(self) -> bool:
        """True if `training.max_minutes` ends training, or will end it, before its last update."""
        return bool(self.settings.max_minutes) and self.end < self._unlimited_end

    @property
    def _finished_ends(self) -> list[int]:
        """The updates after which the finished stages ended."""
        has_ended = self.update == self.stage.end and not self.is_last_stage
        return [stage.end for stage in self.stages[: self.stage.number + has_ended]]

    @property
    def _unlimited_end(self) -> int:
        """The update after which training ends if the stages that are not finished have all their updates."""
        finished = self._finished_ends
        return sum(stage_lengths(self.settings)[len(finished) :], start=finished[-1] if finished else 0)

    def _warn_of_warmups(self) -> None:
        """Warn of the first stage that will end before its warmup."""
        for stage in self.stages[self.stage.number :]:
            own = stage.config.training
            if own.max_updates <= own.warmup_updates:
                place = f" of stage {stage.number + 1}" if self.settings.stages else ""
                log.warning(
                    f"{self.settings.max_minutes:g} minutes are enough for about {own.max_updates} updates{place}, but "
                    f"training.warmup_updates is {own.warmup_updates}: the learning rate will not reach its peak"
                )
                return

    def _follow(self, ends: Sequence[int]) -> None:
        """Plan to end the stages after the updates `ends`."""
        limits = {"max_updates": self.settings.max_updates, "max_minutes": self.settings.max_minutes}
        self.plan = Plan(ends=tuple(ends), lengths=stage_lengths(self.settings), **limits)
        self.stages = stage_spans(self.config, ends)
        self._set_stage(self.stage.number)
        self.monitor.expect(self.end)

    @property
    def is_out_of_time(self) -> bool:
        """True in every rank if one rank has spent `training.max_minutes` on updates."""
        seconds = 60 * self.settings.max_minutes
        return bool(seconds) and self.setup.group.any(self.monitor.train_seconds >= seconds)

    def enter_next_stage(self) -> None:
        """Switch to the data and settings of the next stage. Every rank must call this."""
        self.monitor.flush()
        self._set_stage(self.stage.number + 1)
        self.batches = self.batches_of(self.stage)
        self.step.num_micro_batches = 1
        self.history.validations_since_best = 0
        if self.stage.reset_optimizer:
            self.optimizer.forget_moments()
        self.plan_end()
        if self.setup.group.is_main:
            log.info(f"stage {self.stage.number + 1} of {len(self.stages)}, up to update {self.stage.end}")

    def _set_stage(self, number: int) -> None:
        self.stage = self.monitor.stage = self.stages[number]
        own = self.stage.config
        self.optimizer.config = own.training
        self.step.loss.label_smoothing = own.training.label_smoothing
        self.model.set_dropout(own.model)
        self.step.loss.r_drop = own.training.r_drop

    def batches_of(self, stage: StageSpan) -> UpdateBatches:
        """Return the batches of `stage`, from its first."""
        redraw = Redraw.from_config(stage.config, self.store, self.tokenizers)
        return UpdateBatches(self.store, stage.config, self.setup.group, redraw)

    def start(self) -> None:
        """Start at update 0, with the weights of `training.init_from` if it is set; save the state."""
        if self.settings.init_from:
            path = find_run(self.settings.init_from).best_checkpoint()
            weights = with_rows_for_new_tokens(self.model, read_weights(path))
            check_weights(self.model, weights, path)
            self.optimizer.load_weights(weights)
            if self.ema is not None:
                self.ema.load(self.optimizer.master)
        self.save()  # so that a run with checkpoints always has a state

    def save(self) -> None:
        """Write everything that `resume` needs. Every rank must call this."""
        self.monitor.flush()
        random = self.setup.group.gather(random_state(self.setup.device))
        if not self.setup.group.is_main:
            return
        counters = Counters(
            update=self.update,
            stage=self.stage.number,
            plan=self.plan,
            train_seconds=self.monitor.train_seconds,
            skipped_in_a_row=self.monitor.skipped_in_a_row,
            num_micro_batches=self.step.num_micro_batches,
            position=self.batches.sampler.position,
            window=self.monitor.window,
            history=self.history,
        )
        weights = {name: parameter.detach() for name, parameter in self.optimizer.master.items()}
        ema = {} if self.ema is None else self.ema.weights
        scale = {} if self.optimizer.loss_scale is None else self.optimizer.loss_scale.state()
        state = TrainState(counters, weights, self.optimizer.moments(), random, ema, scale)
        state.save(self.run.state, previous=self.run.previous_state)

    def resume(self) -> None:
        """Continue from the newest state of the run. RunError if it is damaged or of another model.

        Later results stay in the run until `tidy_up`, in case a check refuses to continue it.
        """
        group = self.setup.group
        if not group.is_main:
            group.barrier()  # rank 0 may replace a damaged state by the previous one
        state, damaged = newest_state(self.run)
        if group.is_main:
            group.barrier()
        try:
            self._load(state)
            self.history.remove(damaged)
        except (ValueError, RuntimeError) as error:
            raise RunError(f"the training state does not fit this run ({error})", path=self.run.state) from error

    def tidy_up(self) -> None:
        """Remove what the run has from after the present state: a resumed training makes it again."""
        if self.setup.group.is_main:
            self.run.card.unlink(missing_ok=True)  # first, because only a finished run has one
            self.monitor.forget_after(self.update)
            if self.history.checkpoints or self.run.index_file.exists():
                self.history.write_index(self.run)
                self.history.delete_unlisted(self.run)

    def _load(self, state: TrainState) -> None:
        state.check_fits(self.optimizer, self.ema)
        self.optimizer.load_weights(state.weights)
        self.optimizer.load_moments(state.moments)
        if self.ema is not None:
            self.ema.load(state.ema)
        if self.optimizer.loss_scale is not None:
            self.optimizer.loss_scale.load(state.loss_scale)
        counters = state.counters
        self.update, self.history = counters.update, counters.history
        if counters.stage >= len(self.stages):
            raise RunError(
                f"training.stages has {counted(len(self.stages), 'stage')}, but stage {counters.stage + 1} has begun",
                path=self.run.config_file,
                hint=ONLY_LATER_STAGES,
            )
        self._set_stage(counters.stage)
        if counters.stage:
            self.batches = self.batches_of(self.stage)
        self.batches.sampler.seek(counters.position)
        self.monitor.window, self.monitor.train_seconds = counters.window, counters.train_seconds
        self.monitor.skipped_in_a_row = counters.skipped_in_a_row
        self.step.num_micro_batches = counters.num_micro_batches
        self._resume_plan(counters.plan)
        if len(state.random) == self.setup.group.world_size:
            set_random_state(self.setup.device, state.random[self.setup.group.rank])

    def _resume_plan(self, plan: Plan | None) -> None:
        """Follow `plan`; if the limits have changed since, keep only the ends of finished stages, and plan anew."""
        if plan is None:
            return
        number, settings = self.stage.number, self.settings
        if len(plan.ends) <= number:
            raise ValueError(f"its plan has {len(plan.ends)} stages")
        has_same_stages = plan.lengths in ((), stage_lengths(settings)) and len(plan.ends) == len(self.stages)
        if has_same_stages and (plan.max_updates, plan.max_minutes) == (settings.max_updates, settings.max_minutes):
            self._follow(plan.ends)
            return
        number += self._has_just_ended(plan)
        finished = plan.ends[:number]
        unlimited = sum(stage_lengths(settings)[number:], start=finished[-1] if finished else 0)
        self._follow(planned_ends(settings, finished, self.update, max(self.update, unlimited)))
        if settings.max_minutes:
            self.plan = None
            self.plan_end()

    def _has_just_ended(self, plan: Plan) -> bool:
        """Return whether the present stage ended after this update as in `plan`, and not because the time was over."""
        number = self.stage.number
        if self.update != plan.ends[number] or self.is_last_stage:
            return False
        num_updates = self.update - (plan.ends[number - 1] if number else 0)
        return plan.ends[number] < plan.ends[-1] or num_updates >= stage_lengths(self.settings)[number]
