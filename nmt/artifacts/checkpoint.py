"""Save, load and average weights (safetensors)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.numpy import save_file
from safetensors.torch import load_file
from torch import Tensor

from nmt.artifacts.rundir import RunDir
from nmt.base.checksum import NO_CHECKSUM, find_corruption, naming, tensor_shapes, write_checksum
from nmt.base.errors import RunError
from nmt.base.files import write_atomically
from nmt.config.model import ModelConfig
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.model.shapes import VOCABULARIES, Shapes, check_number_of_layers, check_shapes, parameter_shapes
from nmt.model.transformer import Transformer

Weights = dict[str, Tensor]


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write named tensors in fp32, with a checksum, atomically. Raises OSError, for example if the disk is full."""
    with write_atomically(path) as partial:
        write_tensors(partial, {name: tensor.detach().float() for name, tensor in weights.items()})


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] = NO_CHECKSUM) -> None:
    """Write named tensors with a checksum, for which `metadata` reserves space. Raises OSError, as above."""
    with naming(path):
        # As arrays: with torch's tensors, safetensors takes some hundred microseconds for each.
        arrays = {name: tensor.cpu().contiguous().numpy() for name, tensor in tensors.items()}
        save_file(arrays, path, metadata=dict(metadata))
    write_checksum(path)


def read_weights(path: Path) -> Weights:
    """Read named tensors; RunError if the file is missing or damaged."""
    if fault := find_corruption(path):
        raise RunError(f"these weights are {fault}", path=path, hint="copy the file again, or use another checkpoint")
    return read_tensors(path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read named tensors without verifying their checksum. RunError if the file cannot be read."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read these weights ({error})", path=path) from error


def check_weights(model: Transformer, weights: Mapping[str, Tensor], path: Path) -> None:
    """Raise RunError unless `weights` (from `path`) have exactly the model's parameter names and shapes."""
    check_shapes(_shapes_of(model.named_parameters()), _shapes_of(weights.items()), path)  # shared parameters once


def _shapes_of(tensors: Iterable[tuple[str, Tensor]]) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in tensors}


def with_rows_for_new_tokens(model: Transformer, weights: Weights, tokenizers: TokenizerPair) -> Weights:
    """Extend `weights`, from a model with a smaller vocabulary, with rows for the additional tokens of `model`.

    The new rows have the values that `model` was initialized with, those of characters added to the mean of all
    old rows: otherwise, they would take more of the probability of old tokens (Hewitt 2021, "Initializing New Word
    Embeddings for Pretrained Language Models"). All other values come from `weights`.
    """
    grown = dict(weights)
    fresh = dict(model.named_parameters())
    for name in (*VOCABULARIES, "output_proj.bias"):
        if name in weights and name in fresh and len(weights[name]) < len(fresh[name]):
            grown[name] = torch.cat([weights[name], fresh[name].detach()[len(weights[name]) :].float().cpu()])
            side = tokenizers.src if name.startswith("src") else tokenizers.tgt
            new = [i for i in range(len(weights[name]), side.vocab_size) if len(side.tokens([i])[0]) == 1]
            grown[name][new] += weights[name].mean(dim=0)
    return grown


def check_size(config: ModelConfig, tokenizers: TokenizerPair, path: Path) -> None:
    """Raise RunError unless a model with `config` has the same tensors as the weights in `path`; allocates neither."""
    shapes = tensor_shapes(path)
    check_number_of_layers(config, shapes, path)
    check_shapes(parameter_shapes(config, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size), shapes, path)


@torch.no_grad()
def load_weights(model: Transformer, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` into the model."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def average_weights(paths: Sequence[Path]) -> Weights:
    """Average the weights of several checkpoints of a run (Vaswani et al. 2017, section 6.1)."""
    total = {name: tensor.double() for name, tensor in read_weights(paths[0]).items()}
    for path in paths[1:]:
        for name, tensor in read_weights(path).items():
            total[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def load_model(run: RunDir, tokenizers: TokenizerPair, device: torch.device) -> Transformer:
    """Load the best undamaged weights of a run into a model on `device`, in evaluation mode."""
    path = run.usable_checkpoint()
    config = run.essentials().model
    check_size(config, tokenizers, path)
    model = Transformer(config, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    load_weights(model, read_tensors(path))
    return model.to(device).eval()
