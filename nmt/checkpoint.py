"""Weights to and from disk (safetensors), averaging, and the training state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.data.tokenizer import TokenizerPair
from nmt.errors import RunError
from nmt.files import write_atomically
from nmt.model.transformer import Transformer
from nmt.rundir import RunDir

Weights = dict[str, Tensor]


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write named tensors, in fp32, atomically."""
    with write_atomically(path) as partial:
        save_file({name: tensor.detach().float().cpu().contiguous() for name, tensor in weights.items()}, partial)


def read_weights(path: Path) -> Weights:
    """Read named tensors; RunError if the file is missing or damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read these weights ({error})", path=path) from error


def check_weights(model: Transformer, weights: Mapping[str, Tensor], path: Path) -> None:
    """RunError unless `weights` (from `path`) have the names and shapes of the model's, exactly."""
    parameters = dict(model.named_parameters())  # a shared one is there once
    odd = sorted(parameters.keys() ^ weights.keys())
    odd += [name for name in parameters.keys() & weights.keys() if parameters[name].shape != weights[name].shape]
    if odd:
        raise RunError(
            f"these weights belong to another model: {odd[0]} and {len(odd) - 1} more differ",
            path=path,
            mend="the model section of config.yaml must be the one the weights were trained with",
        )


@torch.no_grad()
def put_weights(model: Transformer, weights: Mapping[str, Tensor]) -> None:
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
    """The best model of a run, ready to translate on `device`."""
    path = run.best_checkpoint()
    model = Transformer(run.config().model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    weights = read_weights(path)
    check_weights(model, weights, path)
    put_weights(model, weights)
    return model.to(device).eval()


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write the training state, atomically."""
    with write_atomically(path) as partial:
        torch.save(state, partial)


def load_state(path: Path) -> dict[str, Any]:
    """Read a training state; tensors and plain values only, so that a file cannot run code."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        mend = "train anew with --overwrite, or use the run's weights in another one with training.init_from"
        raise RunError("there is no training state to resume from", path=path, mend=mend) from error
    except Exception as error:  # torch raises many kinds for a damaged file
        raise RunError(f"the training state is damaged ({type(error).__name__})", path=path) from error
