"""The training state: everything that a resumed run needs to continue as if it had never stopped.

Only this module knows the state's schema. On disk it is a safetensors file with a checksum. It contains the tensors
`counters` (JSON as bytes), `random.RANK.DEVICE`, and those of the optimizer: `weights.NAME`, after the first update
`adam.NAME.{step, exp_avg, exp_avg_sq}`, and in fp16 `loss_scale.{scale, num_finite}`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple, Self

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from torch import Tensor

from nmt.artifacts.checkpoint import read_tensors, write_tensors
from nmt.artifacts.rundir import RunDir
from nmt.base.checksum import find_corruption
from nmt.base.errors import RunError
from nmt.base.files import write_atomically
from nmt.config.base import first_fault
from nmt.training.batches import DataPosition
from nmt.training.checkpoints import CheckpointHistory
from nmt.training.metrics import Number, Window
from nmt.training.update.optimizer import Optimizer

log = logging.getLogger(__name__)

RandomState = dict[str, Tensor]
"""The random state of one rank, by type of device: cpu, and the one it trains on. uint8 [number of bytes]"""

_METRICS = ("loss", "perplexity", "bleu", "chrf")
_OF_OPTIMIZER = ("weights", "adam", "loss_scale")  # kinds of tensors
_WITH_RANDOM_STATE = ("cuda", "mps")  # beside the CPU's
_COUNTERS = "counters"  # the tensor with all values that are not tensors, as JSON


class Plan(BaseModel):
    """The updates that should fit into `training.max_minutes`, and the limits for which they were computed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ends: Annotated[tuple[Number, ...], Field(min_length=1, max_length=100)]  # update after which each stage ends
    lengths: Annotated[tuple[Number, ...], Field(max_length=100)]  # updates of each stage
    max_minutes: Annotated[float, Field(ge=0.0, le=1e7)]


class Counters(BaseModel):
    """The part of a training state that does not consist of tensors."""

    # The loss of a diverged model may be infinite; as null, it could not be read again.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    update: Number
    stage: Annotated[int, Field(ge=0, le=100)] = 0
    plan: Plan | None = None
    train_seconds: float = Field(ge=0.0, le=1e12)
    skipped_in_a_row: Number
    num_micro_batches: Annotated[int, Field(ge=1, le=1 << 40)]
    position: DataPosition
    window: Window
    history: CheckpointHistory

    @field_validator("history")
    @classmethod
    def _refuse_odd_history(cls, history: CheckpointHistory) -> CheckpointHistory:
        for name, scores in history.checkpoints.items():
            if not scores.keys() >= set(_METRICS) or not history.signatures.keys() >= {"bleu", "chrf"}:
                raise ValueError(f"{name} lacks one of the scores {', '.join(_METRICS)}")
        if (history.best is None) != (not history.checkpoints) or history.best not in {*history.checkpoints, None}:
            raise ValueError(f"best is {history.best!r}")
        return history


class TrainState(NamedTuple):
    """A snapshot of a training between two updates."""

    counters: Counters
    optimizer: dict[str, Tensor]  # as `tensors_of` names them
    random: list[RandomState]  # one for each rank

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the state as named tensors."""
        counters = self.counters.model_dump_json().encode()
        tensors = {_COUNTERS: torch.from_numpy(np.frombuffer(counters, dtype=np.uint8).copy()), **self.optimizer}
        for rank, states in enumerate(self.random):
            tensors |= {f"random.{rank}.{device}": tensor for device, tensor in states.items()}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Restore the state from the result of `to_tensors`. Raises ValueError if the tensors are not a valid state."""
        optimizer: dict[str, Tensor] = {}
        random: dict[int, RandomState] = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            rank, _, device = rest.rpartition(".")
            if kind in _OF_OPTIMIZER:
                optimizer[name] = tensor
            elif kind == "random" and rank.isdecimal():
                random.setdefault(int(rank), {})[device] = tensor
            elif name != _COUNTERS:
                raise ValueError(f"unknown tensor {name!r}")
        if sorted(random) != list(range(len(random))):
            raise ValueError("the random state of a rank is missing")
        return cls(_read_counters(tensors), optimizer, [random[rank] for rank in range(len(random))])

    def save(self, path: Path, previous: Path | None = None) -> None:
        """Write the state atomically; keep the old one at `path` as `previous`. OSError, for example on a full disk."""
        with write_atomically(path, keep_old_as=previous) as partial:
            write_tensors(partial, self.to_tensors())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a state. The file contains only numbers and JSON and runs no code. RunError if missing or damaged."""
        if not path.exists():
            raise RunError(
                "there is no training state to resume from",
                path=path,
                hint="start over with --overwrite, or start a new run from these weights with training.init_from",
            )
        if fault := find_corruption(path):
            raise RunError(f"the training state is {fault}", path=path)
        try:
            # Clone them, because the memory-mapped file may change.
            return cls.from_tensors({name: tensor.clone() for name, tensor in read_tensors(path).items()})
        except ValueError as error:
            raise RunError(f"the training state is damaged ({error})", path=path) from error

    @torch.no_grad()
    def restore(self, optimizer: Optimizer) -> None:
        """Copy the optimizer's tensors into `optimizer`.

        ValueError if one is missing, unknown, or has another shape or type, or if a value is impossible.
        """
        with_moments = [
            name.removeprefix("adam.").rpartition(".")[0] for name in self.optimizer if name.startswith("adam.")
        ]
        if unknown := {*with_moments} - optimizer.master.keys():
            raise ValueError(f"the optimizer state belongs to another model: {min(unknown)}")
        adam = optimizer.adam
        adam.state = {name: adam.initial_state(optimizer.master[name]) for name in with_moments}
        own = tensors_of(optimizer)
        if odd := sorted(own.keys() ^ self.optimizer.keys()):
            raise ValueError(f"{odd[0]}: {'missing' if odd[0] in own else 'unknown'}")
        for name, tensor in own.items():
            saved = self.optimizer[name]
            if saved.shape != tensor.shape or saved.dtype != tensor.dtype:
                raise ValueError(f"{name}: not {tensor.dtype} of shape {tuple(tensor.shape)}")
            if name.endswith(".step") and not 0 <= float(saved) <= self.counters.update:
                raise ValueError(f"{name} is {float(saved)}")
            tensor.copy_(saved)
        optimizer.round_into_model()
        for rank, states in enumerate(self.random):
            if "cpu" not in states or any(t.dtype != torch.uint8 or t.dim() != 1 for t in states.values()):
                raise ValueError(f"the random state of rank {rank} is invalid")


def tensors_of(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return all tensors of an optimizer that change from update to update, by their names on disk."""
    named = {f"weights.{name}": parameter.detach() for name, parameter in optimizer.master.items()}
    for name, moments in optimizer.adam.state.items():
        named |= {f"adam.{name}.{moment}": tensor for moment, tensor in moments.items()}
    if optimizer.loss_scale is not None:
        named |= {f"loss_scale.{name}": tensor for name, tensor in optimizer.loss_scale.state().items()}
    return named


def _read_counters(tensors: Mapping[str, Tensor]) -> Counters:
    if _COUNTERS not in tensors:
        raise ValueError(f"no tensor {_COUNTERS!r}")
    try:
        return Counters.model_validate_json(tensors[_COUNTERS].numpy().tobytes(), strict=True)
    except ValidationError as error:
        raise ValueError(first_fault(error)) from None


def newest_state(run: RunDir) -> tuple[TrainState, list[str]]:
    """Return the newest undamaged training state, and the names of its checkpoints that are damaged or missing.

    If the newest state is damaged or lacks a checkpoint, but the previous one is intact, return the previous one and
    log a warning: the updates since then are repeated. RunError if there is no usable state.
    """
    faults: list[RunError] = []
    found: list[tuple[Path, TrainState, list[str]]] = []
    for path in (run.state, run.previous_state):
        try:
            state = TrainState.load(path)
        except RunError as error:
            faults.append(error)
            continue
        names = state.counters.history.checkpoints
        damaged = {name: fault for name in names if (fault := find_corruption(run.checkpoint(name)))}
        faults += [RunError(f"these weights are {fault}", path=run.checkpoint(n)) for n, fault in damaged.items()]
        found.append((path, state, list(damaged)))
        if not damaged:
            break
    if not found:
        raise faults[0]
    path, state, lost = min(found, key=lambda each: bool(each[2]))  # the first that is intact, else the first
    for message in dict.fromkeys(map(str, faults)):
        log.warning(message)
    if lost:
        log.info(f"continuing without {', '.join(lost)}")
    elif path == run.previous_state:
        os.replace(path, run.state)
        log.info("continuing from the previous training state")
    return state, lost


def random_state(device: torch.device) -> RandomState:
    """Return the state of the random number generators used in training on `device`."""
    states = {"cpu": torch.get_rng_state()}
    if device.type in _WITH_RANDOM_STATE:
        states[device.type] = getattr(torch, device.type).get_rng_state()
    return states


def set_random_state(device: torch.device, states: RandomState) -> None:
    """Restore the result of `random_state`. Raises RuntimeError if it is invalid."""
    torch.set_rng_state(states["cpu"])
    if device.type in _WITH_RANDOM_STATE and device.type in states:
        getattr(torch, device.type).set_rng_state(states[device.type])
