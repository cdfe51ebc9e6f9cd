"""The parts of a training, built from a configuration, and their state."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nmt.artifacts.checkpoint import check_weights, read_weights, with_rows_for_new_tokens
from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError, counted
from nmt.base.machine import own_bytes
from nmt.config import Config
from nmt.data.store.redraw import Redraw
from nmt.model.transformer import Transformer
from nmt.training.batches import UpdateBatches
from nmt.training.checkpoints import CheckpointHistory
from nmt.training.corpus.lexical_start import start_lexically
from nmt.training.corpus.prepare import Prepared
from nmt.training.environment import Setup, choose_blocks
from nmt.training.monitor import Monitor, TrainingFlops
from nmt.training.stages import StageSpan, stage_lengths, stage_spans
from nmt.training.state import Counters, Plan, TrainState, newest_state, random_state, set_random_state, tensors_of
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.step import Step
from nmt.training.validation import Validator

ONLY_LATER_STAGES = (
    "only stages that have not begun, and max_updates of the present one, may change; start a new run for other changes"
)


class Training:
    """The training of one run on one rank: its parts, and everything that changes from update to update."""

    def __init__(self, run: RunDir, config: Config, prepared: Prepared, setup: Setup):
        self.bytes_before = own_bytes()  # memory of this process without the training
        self.run = run
        self.config = config
        self.settings = config.training
        self.setup = setup
        self.tokenizers = prepared.tokenizers
        torch.manual_seed(self.settings.seed)
        vocab_sizes = (self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size)
        self.model = Transformer(config.model, *vocab_sizes).to(setup.device).train()
        self.optimizer = Optimizer(self.model, self.settings, setup.precision.dtype)
        self.plan: Plan | None = None  # with training.max_minutes
        self.stages = stage_spans(config)
        self.stage = self.stages[0]
        self.in_blocks, self.blocks_reason = choose_blocks(self.model)
        self.step = Step(self.model, self.optimizer, setup.group)
        if setup.group.rank:  # dropout differs between the ranks
            torch.manual_seed(self.settings.seed + setup.group.rank)
        self.store = prepared.store
        sets = run.read_sets("valid", config.data.directions[0])
        self.validator = Validator(sets, self.tokenizers, config, setup.group, run.statistics())
        self.history = CheckpointHistory(self.settings.early_stopping_metric)
        self.monitor = Monitor(run, setup, TrainingFlops(self.model))
        self._begin_stage(0)
        self.update = 0

    @property
    def is_last_stage(self) -> bool:
        """True in the last stage, or without stages."""
        return self.stage is self.stages[-1]

    @property
    def end(self) -> int:
        """The update after which training ends."""
        return self.stages[-1].end

    @property
    def stage_number(self) -> int | None:
        """The number of the present stage, from 1; None without stages."""
        return self.stage.number + 1 if self.settings.stages else None

    def follow(self, ends: Sequence[int]) -> None:
        """Plan to end the stages at these updates."""
        lengths = stage_lengths(self.settings)
        max_minutes = self.settings.max_minutes
        self.plan = Plan(ends=tuple(ends), lengths=lengths, max_minutes=max_minutes)
        self.stages = stage_spans(self.config, ends)
        self.stage = self.stages[self.stage.number]

    def enter_next_stage(self) -> None:
        """Switch to the data and settings of the next stage. Every rank must call this."""
        self.monitor.flush()
        self._begin_stage(self.stage.number + 1)
        self.step.num_micro_batches = 1
        self.history.validations_since_best = 0

    def _begin_stage(self, number: int) -> None:
        self.stage = self.stages[number]
        self.model.set_dropout(self.stage.config.model)
        self.batches = self.batches_of(self.stage)

    def batches_of(self, stage: StageSpan) -> UpdateBatches:
        """Return the batches of `stage`, from its first."""
        store = self.store.of_copies() if stage.config.training.copy_targets else self.store
        redraw = Redraw.from_config(stage.config, store, self.tokenizers)
        return UpdateBatches(store, stage.config, self.setup.group, redraw)

    def start(self) -> None:
        """Start at update 0, with the weights of `training.init_from` or a lexicon if they are set; save the state."""
        if self.settings.init_from:
            path = find_run(self.settings.init_from).best_checkpoint()
            weights = with_rows_for_new_tokens(self.model, read_weights(path), self.tokenizers)
            check_weights(self.model, weights, path)
            self.optimizer.load_weights(weights)
        elif self.settings.lexical_start:
            weights = dict(self.optimizer.master)
            start_lexically(weights, self.store, joint=self.tokenizers.joint)
            self.optimizer.load_weights(weights)
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
            position=self.batches.position,
            window=self.monitor.window,
            history=self.history,
        )
        state = TrainState(counters, tensors_of(self.optimizer), random)
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
        state.restore(self.optimizer)
        counters = state.counters
        self.update = counters.update
        self.history = counters.history
        if counters.stage >= len(self.stages):
            fault = f"has {counted(len(self.stages), 'stage')}, but stage {counters.stage + 1} has begun"
            raise RunError(f"training.stages {fault}", path=self.run.config_file, hint=ONLY_LATER_STAGES)
        plan = self.plan = counters.plan
        if plan is not None and not counters.stage < len(plan.ends) == len(plan.lengths):
            raise ValueError(f"its plan has {len(plan.ends)} stages")
        if counters.stage:
            self._begin_stage(counters.stage)
        self.batches.seek(counters.position)
        self.monitor.window = counters.window
        self.monitor.train_seconds = counters.train_seconds
        self.monitor.skipped_in_a_row = counters.skipped_in_a_row
        self.step.num_micro_batches = counters.num_micro_batches
        if len(state.random) == self.setup.group.world_size:
            set_random_state(self.setup.device, state.random[self.setup.group.rank])
