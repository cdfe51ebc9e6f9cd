"""Weights to and from disk (safetensors), averaging, and the training state."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.checksum import NO_CHECKSUM, find_corruption, write_checksum
from nmt.config.sections import ModelConfig
from nmt.data.tokenizer import TokenizerPair
from nmt.errors import RunError
from nmt.files import write_atomically
from nmt.model.transformer import Transformer
from nmt.rundir import RunDir

log = logging.getLogger(__name__)

Weights = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]

_VOCABULARIES = ("src_embedding.tokens.weight", "tgt_embedding.tokens.weight", "output_proj.weight")
_PLAIN = "plain values"  # the tensor of a state that holds what is no tensor, as JSON


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write named tensors, in fp32, with a checksum, atomically. Raises OSError, as for a full disk."""
    with write_atomically(path) as partial:
        _write(partial, {name: tensor.detach().float() for name, tensor in weights.items()})


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    try:
        save_file({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, path, metadata=NO_CHECKSUM)
    except SafetensorError as error:
        number = re.search(r"os error ([0-9]+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
    write_checksum(path)


def read_weights(path: Path) -> Weights:
    """Read named tensors; RunError if the file is missing or damaged."""
    if fault := find_corruption(path):
        raise RunError(f"these weights are {fault}", path=path, hint="copy the file again, or use another checkpoint")
    return _read(path)


def _read(path: Path) -> Weights:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read these weights ({error})", path=path) from error


def shapes_in(path: Path) -> Shapes:
    """The name and shape of each tensor in a file, of which the header alone is read."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read these weights ({error})", path=path) from error


def check_weights(model: Transformer, weights: Mapping[str, Tensor], path: Path) -> None:
    """RunError unless `weights` (from `path`) have the names and shapes of the model's, exactly."""
    check_shapes(model, {name: tuple(tensor.shape) for name, tensor in weights.items()}, path)


def check_shapes(model: Transformer, shapes: Shapes, path: Path) -> None:
    """RunError unless `shapes` (of the weights in `path`) are those of the model's, by name."""
    own = {name: tuple(p.shape) for name, p in model.named_parameters()}  # a shared one is there once
    for name in _VOCABULARIES:
        if name in own and name in shapes and own[name][:1] != shapes[name][:1] and own[name][1:] == shapes[name][1:]:
            raise RunError(
                f"the tokenizer has {own[name][0]:,} tokens, and these weights were trained with {shapes[name][0]:,}",
                path=path,
                hint="tokenizer and weights of a run belong together; copy the whole run again",
            )
    odd = sorted(name for name in own.keys() | shapes.keys() if own.get(name) != shapes.get(name))
    if odd:
        raise _of_another_model(f"{odd[0]} and {len(odd) - 1} more differ", path)


def _of_another_model(difference: str, path: Path) -> RunError:
    hint = "the model section of config.yaml must be the one the weights were trained with"
    return RunError(f"these weights belong to another model: {difference}", path=path, hint=hint)


def check_size(config: ModelConfig, tokenizers: TokenizerPair, path: Path) -> None:
    """RunError unless a model of `config` has the tensors of the weights in `path`; allocates neither."""
    shapes = shapes_in(path)
    num_layers = config.encoder_layers + config.decoder_layers
    if num_layers > len(shapes):
        raise _of_another_model(f"{num_layers:,} layers, but {len(shapes):,} tensors", path)
    with torch.device("meta"):
        model = Transformer(config, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    check_shapes(model, shapes, path)


@torch.no_grad()
def load_weights(model: Transformer, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` into the model."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def average_weights(paths: Sequence[Path]) -> Weights:
    """The mean of several checkpoints of one run (Vaswani et al. 2017, section 6.1)."""
    total = {name: tensor.double() for name, tensor in read_weights(paths[0]).items()}
    for path in paths[1:]:
        for name, tensor in read_weights(path).items():
            total[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def load_model(run: RunDir, tokenizers: TokenizerPair, device: torch.device) -> Transformer:
    """The best model of a run whose weights are whole, ready to translate on `device`."""
    path, config = run.usable_checkpoint(), run.config().model
    check_size(config, tokenizers, path)
    model = Transformer(config, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    load_weights(model, _read(path))
    return model.to(device).eval()


def save_state(path: Path, state: dict[str, Any], previous: Path | None = None) -> None:
    """Write the training state, atomically; the one that was there is kept as `previous`.

    `state` holds tensors and plain values, nested in dicts, lists and tuples. Raises OSError, as for a full disk.
    """
    tensors: Weights = {}
    plain = json.dumps(_packed(state, tensors)).encode()
    tensors[_PLAIN] = torch.from_numpy(np.frombuffer(plain, dtype=np.uint8).copy())
    with write_atomically(path, keep_old_as=previous) as partial:
        _write(partial, tensors)


def load_state(path: Path) -> dict[str, Any]:
    """Read what `save_state` wrote. The file holds numbers and JSON, so it cannot run code. RunError if damaged."""
    if not path.exists():
        hint = "train anew with --overwrite, or use the run's weights in another one with training.init_from"
        raise RunError("there is no training state to resume from", path=path, hint=hint)
    if fault := find_corruption(path):
        raise RunError(f"the training state is {fault}", path=path)
    tensors = {name: tensor.clone() for name, tensor in _read(path).items()}  # not mapped from a file that changes
    try:
        state = _unpacked(json.loads(tensors.pop(_PLAIN).numpy().tobytes()), tensors)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(f"the training state is damaged ({error})", path=path) from error
    if not isinstance(state, dict):
        raise RunError("the training state is damaged", path=path)
    return state


def _packed(value: Any, tensors: Weights, name: str = "state") -> Any:
    """`value` as JSON takes it, its tensors moved into `tensors` under the path that leads to them."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _packed(item, tensors, f"{name}.{key}")] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        items = [_packed(item, tensors, f"{name}.{i}") for i, item in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    return value


def _unpacked(value: Any, tensors: Weights) -> Any:
    """What `_packed` was given. Raises KeyError, TypeError or ValueError for what it did not make."""
    if isinstance(value, list):
        return [_unpacked(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "tensor":
        return tensors[held]
    items = [(key, _unpacked(item, tensors)) for key, item in held] if kind == "dict" else _unpacked(held, tensors)
    return dict(items) if kind == "dict" else tuple(items)


def last_state(run: RunDir) -> tuple[dict[str, Any], list[str]]:
    """The newest training state that is whole, and which of its checkpoints are not.

    Where the newest is damaged, or lacks a checkpoint, and the one before it does not, that one takes its place, and
    a warning says so: what was trained since is trained again. RunError where there is none.
    """
    faults: list[RunError] = []
    partly: tuple[dict[str, Any], list[str]] | None = None
    for path in (run.state, run.previous_state):
        try:
            state = load_state(path)
        except RunError as error:
            faults.append(error)
            continue
        damaged = _damaged_checkpoints(run, state)
        faults += [RunError(f"these weights are {fault}", path=run.checkpoint(n)) for n, fault in damaged.items()]
        if not damaged:
            _warn_of(faults)
            if path == run.previous_state:
                os.replace(path, run.state)
                log.info("going on from the training state that was saved before")
            return state, []
        partly = partly or (state, list(damaged))
    if partly is None:
        raise faults[0]
    _warn_of(faults)
    log.info(f"going on without {', '.join(partly[1])}")
    return partly


def _warn_of(faults: Sequence[RunError]) -> None:
    for fault in dict.fromkeys(map(str, faults)):
        log.warning(fault)


def _damaged_checkpoints(run: RunDir, state: dict[str, Any]) -> dict[str, str]:
    """The checkpoints of a state whose weights are not whole, and why."""
    history = state.get("history")
    names = list(history.get("checkpoints", ())) if isinstance(history, dict) else []
    return {name: fault for name in names if (fault := find_corruption(run.checkpoint(name)))}


def check_state(state: Mapping[str, Any], weights: Mapping[str, Tensor], adam: torch.optim.Optimizer) -> None:
    """ValueError unless a training state has the tensors (names, shapes, types) and numbers that training needs.

    KeyError, TypeError or AttributeError where it is nothing like one. `weights` are the fp32 ones in training,
    `adam` is their optimizer.
    """
    _check_tensors("weights", state["weights"], weights)
    parameters = [parameter for group in adam.param_groups for parameter in group["params"]]
    moments = state["adam"]["state"]
    if moments.keys() - set(range(len(parameters))):
        raise ValueError("the optimizer's state is of another model")
    for index, found in moments.items():
        like = {"step": torch.zeros(()), "exp_avg": parameters[index], "exp_avg_sq": parameters[index]}
        _check_tensors(f"adam {index}", found, like)
    counts = [
        state["update"],
        state["skipped_in_a_row"],
        state["history"]["without_better"],
        *state["position"].values(),
    ]
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise ValueError("a count or a place that is no number")
    scores = [value for values in state["history"]["checkpoints"].values() for value in values.values()]
    if not all(
        isinstance(value, int | float) for value in [state["train_seconds"], *scores, *state["window"].values()]
    ):
        raise ValueError("a score that is no number")
    for name, tensor in ((name, tensor) for states in state["random"] for name, tensor in states.items()):
        if not isinstance(tensor, Tensor) or tensor.dtype != torch.uint8 or tensor.dim() != 1:
            raise ValueError(f"random {name}: not a random state")


def _check_tensors(what: str, found: Mapping[str, Any], like: Mapping[str, Tensor]) -> None:
    if found.keys() != like.keys():
        raise ValueError(f"{what}: other names than {', '.join(sorted(like)[:3])}, …")
    for name, tensor in like.items():
        other = found[name]
        if not isinstance(other, Tensor) or other.shape != tensor.shape or other.dtype != torch.float32:
            raise ValueError(f"{what} {name}: not a tensor of fp32 of the shape {tuple(tensor.shape)}")
