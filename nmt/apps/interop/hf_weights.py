"""Convert weights of Marian, Pegasus and M2M-100 models (of `transformers`) to and from nmt's, by one table of names.

Marian's sinusoidal positions, which are Pegasus' too, have all sines before all cosines; nmt's alternate. A model works
the same whatever the order of the numbers in its states, so the weights are permuted instead: number i of D in a state
of nmt is number `state_order(D)[i]` in a state of Marian. M2M-100's sinusoids have other frequencies and become learned
positions.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nmt.apps.interop.hf_folder import HfConfig, HfFolder, M2M100Config, PegasusConfig
from nmt.apps.interop.hf_vocabulary import Vocabulary
from nmt.artifacts.checkpoint import Weights
from nmt.base.errors import RunError
from nmt.config.model import ModelConfig
from nmt.model.positions import sinusoidal_positions
from nmt.model.shapes import VOCABULARIES, Shapes, parameter_shapes

MUTED_BY = 100.0
"""Subtracted from a logit that shares the row of another one, so that its probability is 0 in fp32."""

POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

MAX_ROUNDING = 0.01
"""Largest difference of a position's numbers, which are at most 1, from those of transformers: bf16 rounds them."""

_DAMAGED = "download the file again"

_THEIR_NAMES = {
    "_layers.": ".layers.",
    "encoder_norm": "encoder.layer_norm",
    "decoder_norm": "decoder.layer_norm",
    "self_attention": "self_attn",
    "self_residual.norm": "self_attn_layer_norm",
    "cross_attention": "encoder_attn",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.input_proj": "fc1",
    "feed_forward.output_proj": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
    "query_proj": "q_proj",
    "output_proj": "out_proj",
}
"""Parts of nmt's names, with those of Marian that replace them."""


class _Entry(NamedTuple):
    """A tensor of nmt's model, and the tensors of the folder's model that it concatenates."""

    name: str
    parts: tuple[str, ...]
    state_axis: int | None  # the axis of D numbers that are in the order of a state


class _Stored(NamedTuple):
    """A tensor in a file."""

    shape: tuple[int, ...]
    read: Callable[[], Tensor]


def state_order(d_model: int) -> Tensor:
    """Return the index in Marian's states of each number in nmt's states, [D]."""
    half = torch.arange(d_model // 2)
    return torch.stack([half, half + d_model // 2], 1).flatten()


def _entries(hf: HfConfig, config: ModelConfig) -> Iterator[_Entry]:
    tables = _embedding_names(hf)
    for name in parameter_shapes(config, 1, 1):
        if name in tables:
            yield _Entry(name, (tables[name],), 1)
        elif name.startswith(("encoder_", "decoder_")):
            theirs = f"model.{name}"
            for own, other in _THEIR_NAMES.items():
                theirs = theirs.replace(own, other)
            parts = dict.fromkeys(theirs.replace("key_value_proj", part) for part in ("k_proj", "v_proj"))
            makes_states = "norm" in name or "output_proj" in name
            yield _Entry(name, tuple(parts), 0 if makes_states else 1 if name.endswith("weight") else None)


def _embedding_names(hf: HfConfig) -> dict[str, str]:
    """Return the name in a file of each of nmt's `VOCABULARIES`; safetensors requires a single name for tied ones."""
    src, tgt = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    if hf.share_encoder_decoder_embeddings:
        src = tgt = "model.shared.weight"
    output = tgt if hf.tie_word_embeddings else "lm_head.weight"
    return dict(zip(VOCABULARIES, (src, tgt, output), strict=True))


def from_hf(folder: HfFolder, hf: HfConfig, config: ModelConfig, src: Vocabulary, tgt: Vocabulary) -> Weights:
    """Read the weights of a folder as those of nmt's `Transformer(config, …)`, by name, in fp32.

    RunError if the file is damaged, or if a tensor is missing, has another shape, or is not finite.
    """
    paths = folder.weights_files()
    path = paths[0] if len(paths) == 1 else folder.path
    stored = {name: tensor for each in paths for name, tensor in _tensors_in(each).items()}
    names = _names_in_file(stored, hf, config, path)

    def read(name: str) -> Tensor:
        try:
            found = stored[name].read().float()
        except (OSError, SafetensorError) as error:
            raise RunError(f"cannot read {name} ({error})", path=path, hint=_DAMAGED) from None
        if not found.isfinite().all():
            raise RunError(f"{name} contains numbers that are not finite", path=path, hint=_DAMAGED)
        return found

    order = state_order(config.d_model) if config.positions == "sinusoidal" else None
    weights = {}
    for entry in _entries(hf, config):
        tensor = torch.cat([read(names[part]) for part in entry.parts])
        weights[entry.name] = _reordered(tensor, entry.state_axis, order)
    for name in VOCABULARIES:
        if name in weights:
            rows = src.rows if name.startswith("src") else tgt.rows
            weights[name] = weights[name][torch.tensor(rows)]
            if "embedding" in name and not hf.scale_embedding:
                weights[name] *= config.d_model**-0.5  # nmt always multiplies by sqrt(D)
    for name in filter(stored.__contains__, POSITIONS):
        fits = stored[name].shape == (hf.max_position_embeddings, hf.d_model)
        if not fits or (read(name) - _sinusoids(hf)).abs().amax() > MAX_ROUNDING:
            raise RunError(
                f"{name} does not contain the sinusoids of {hf.name}",
                path=path,
                hint="transformers changes them in fine-tuning unless you freeze them (requires_grad_(False))",
            )
    bias = torch.zeros(hf.vocab_size) if isinstance(hf, M2M100Config) else read("final_logits_bias").flatten()
    bias = bias[torch.tensor(tgt.rows)]
    bias[tgt.muted] -= MUTED_BY
    if config.positions == "learned":
        weights |= {f"{side}_embedding.learned.weight": m2m100_positions(config, hf) for side in ("src", "tgt")}
    return {**weights, "output_proj.bias": bias}


def _sinusoids(hf: HfConfig) -> Tensor:
    """Return the positions of Marian and Pegasus [T, D]."""
    return sinusoidal_positions(hf.max_position_embeddings, hf.d_model)[:, state_order(hf.d_model).argsort()]


def m2m100_positions(config: ModelConfig, hf: HfConfig) -> Tensor:
    """Return the positions of M2M-100 [T, D], whose sinusoids differ from nmt's.

    All sines come before all cosines, the lowest frequency is 1/10000, and the first token has the position after the
    padding id (`M2M100SinusoidalPositionalEmbedding` of transformers).
    """
    half = config.d_model // 2
    first = hf.pad_token_id + 1
    frequencies = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
    positions = torch.arange(first, first + max(config.max_src_len, config.max_tgt_len)).float()
    angles = positions[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _reordered(tensor: Tensor, axis: int | None, order: Tensor | None) -> Tensor:
    return tensor if axis is None or order is None else tensor.index_select(axis, order)


def to_hf(weights: Mapping[str, Tensor], hf: HfConfig, config: ModelConfig) -> Weights:
    """Return `weights` of nmt's `Transformer(config, …)` as those of the Marian or Pegasus model of `hf`, by name.

    Both must have the same ids.
    """
    order = state_order(config.d_model).argsort()
    found: Weights = {}
    for entry in _entries(hf, config):
        tensor = _reordered(weights[entry.name], entry.state_axis, order)
        found |= dict(zip(entry.parts, tensor.chunk(len(entry.parts)), strict=True))
    if isinstance(hf, PegasusConfig):  # transformers computes the same, but warns that they are missing
        found |= {name: _sinusoids(hf) for name in POSITIONS}
    bias = weights.get("output_proj.bias", torch.zeros(hf.tgt_vocab_size))
    return {**found, "final_logits_bias": bias[None]}


def _names_in_file(stored: Mapping[str, _Stored], hf: HfConfig, config: ModelConfig, path: Path) -> dict[str, str]:
    """Return the name in the file of each tensor that the model needs; tied embeddings may have any of their names.

    RunError if one is missing, or has another shape.
    """
    own = parameter_shapes(config, hf.vocab_size, hf.tgt_vocab_size)
    expected: Shapes = {}
    for entry in _entries(hf, config):
        rows, *others = own[entry.name]
        expected |= {part: (rows // len(entry.parts), *others) for part in entry.parts}
    if not isinstance(hf, M2M100Config):
        expected["final_logits_bias"] = (1, hf.tgt_vocab_size)
    hint = "config.json and weights must belong to the same model"
    decoder = ("model.decoder.embed_tokens.weight", *(("lm_head.weight",) if hf.tie_word_embeddings else ()))
    shared = ("model.shared.weight", "model.encoder.embed_tokens.weight")
    tied = (*shared, *decoder) if hf.share_encoder_decoder_embeddings else decoder
    names = {}
    for name, shape in expected.items():
        found = next((other for other in (name, *(tied if name in tied else ())) if other in stored), None)
        if found is None:
            raise RunError(f"these weights have no {name}", path=path, hint=hint)
        if stored[found].shape != shape:
            raise RunError(f"{found} has shape {stored[found].shape}, but should have {shape}", path=path, hint=hint)
        names[name] = found
    return names


def _tensors_in(path: Path) -> dict[str, _Stored]:
    """Return the tensors in a file by name, without reading those of safetensors.

    RunError if the file is damaged, or contains anything but tensors.
    """
    if path.suffix == ".bin":
        tensors = _load_pickle(path)
        return {
            name: _Stored(tuple(tensor.shape), partial(tensors.__getitem__, name)) for name, tensor in tensors.items()
        }
    try:
        file = safe_open(path, framework="pt")  # checks the header against the size of the file
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read these weights ({error})", path=path, hint=_DAMAGED) from None
    return {name: _Stored(shape, partial(file.get_tensor, name)) for name, shape in shapes.items()}


def _load_pickle(path: Path) -> Weights:
    """Read a pickle with torch's safe loader, which creates only tensors and plain containers."""
    _refuse_packed(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader may raise anything for an invalid file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(
            f"cannot read these weights ({reason})",
            path=path,
            hint="nmt reads files that contain only tensors, such as a model.safetensors",
        ) from None
    if not isinstance(found, dict) or not all(isinstance(part, str) for part in found):
        raise RunError("these weights are not named tensors", path=path, hint=_DAMAGED)
    tensors = {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}
    # With strides of 0, a tensor may claim to be larger than its storage. Tied tensors may occur under four names.
    if sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()) > 4 * path.stat().st_size:
        raise RunError("these weights are larger than their file", path=path, hint=_DAMAGED)
    return tensors


def _refuse_packed(path: Path) -> None:
    """Raise RunError if the file is a zip archive that unpacks to more than its size; torch never compresses."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise RunError(f"cannot read these weights ({error})", path=path, hint=_DAMAGED) from None
    if size > path.stat().st_size:
        raise RunError("these weights are larger than their file", path=path, hint=_DAMAGED)
