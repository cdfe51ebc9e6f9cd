"""The weights of a Marian model (`transformers.models.marian`) to and from nmt's, by one table of names.

Marian's sinusoidal positions have all sines before all cosines; nmt's alternate. The model does not care in which order
the numbers of its states stand, so the weights are permuted instead: number i of D in a state of nmt is number
`state_order(D)[i]` in one of Marian's.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nmt.config.model import ModelConfig
from nmt.errors import RunError
from nmt.interop.hf_folder import HfFolder, MarianConfig
from nmt.interop.hf_vocabulary import Vocabulary
from nmt.model.positions import sinusoidal_positions
from nmt.model.shapes import parameter_shapes

Weights = dict[str, Tensor]

MUTED_BY = 100.0
"""Subtracted from a logit that stands beside another one of the same row: its probability is then 0 in fp32."""

_DAMAGED = "download the file again"


class _Entry(NamedTuple):
    """A tensor of nmt's layers, and the tensors of Marian's that it holds one after the other."""

    name: str
    parts: tuple[str, ...]
    state_axes: tuple[int, ...] = ()  # axes of D numbers that are in the order of a state


def state_order(d_model: int) -> Tensor:
    """Return the place in Marian's states of each number of nmt's, [D]."""
    half = torch.arange(d_model // 2)
    return torch.stack([half, half + d_model // 2], 1).flatten()


def _layer_entries(config: ModelConfig) -> Iterator[_Entry]:
    for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        attentions = {"self": "self_attn"} if side == "encoder" else {"self": "self_attn", "cross": "encoder_attn"}
        for index in range(count):
            ours, theirs = f"{side}_layers.{index}", f"model.{side}.layers.{index}"
            for own, name in attentions.items():
                yield from _attention_entries(f"{ours}.{own}", f"{theirs}.{name}")
            yield from _linear(f"{ours}.feed_forward.input_proj", (f"{theirs}.fc1",), reads_states=True)
            yield from _linear(f"{ours}.feed_forward.output_proj", (f"{theirs}.fc2",), reads_states=False)
            yield from _norm(f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm")


def _attention_entries(ours: str, theirs: str) -> Iterator[_Entry]:
    yield from _linear(f"{ours}_attention.query_proj", (f"{theirs}.q_proj",), reads_states=True)
    key_value = (f"{theirs}.k_proj", f"{theirs}.v_proj")
    yield from _linear(f"{ours}_attention.key_value_proj", key_value, reads_states=True)
    yield from _linear(f"{ours}_attention.output_proj", (f"{theirs}.out_proj",), reads_states=False)
    yield from _norm(f"{ours}_residual.norm", f"{theirs}_layer_norm")


def _linear(ours: str, theirs: tuple[str, ...], *, reads_states: bool) -> Iterator[_Entry]:
    yield _Entry(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), (1,) if reads_states else (0,))
    yield _Entry(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs), () if reads_states else (0,))


def _norm(ours: str, theirs: str) -> Iterator[_Entry]:
    for kind in ("weight", "bias"):
        yield _Entry(f"{ours}.{kind}", (f"{theirs}.{kind}",), (0,))


def from_hf(folder: HfFolder, marian: MarianConfig, config: ModelConfig, src: Vocabulary, tgt: Vocabulary) -> Weights:
    """Read the weights of a folder as those of nmt's `Transformer(config, …)`, by name, in fp32.

    RunError if the file is damaged, or a tensor is missing, of another shape, or not finite.
    """
    found = _read_tensors(folder, marian, _expected(marian, config))
    order = state_order(config.d_model)
    weights = {}
    for entry in _layer_entries(config):
        tensor = torch.cat([found[part] for part in entry.parts])
        for axis in entry.state_axes:
            tensor = tensor.index_select(axis, order)
        weights[entry.name] = tensor
    scale = 1.0 if marian.scale_embedding else config.d_model**-0.5  # nmt always multiplies by sqrt(D)
    names = _embedding_names(marian)
    for side, vocabulary in (("src", src), ("tgt", tgt)):
        if side == "src" or config.tied_embeddings != "all":
            rows = torch.tensor(vocabulary.rows)
            weights[f"{side}_embedding.tokens.weight"] = found[names[side]][rows][:, order] * scale
    rows = torch.tensor(tgt.rows)
    if config.tied_embeddings == "none":
        weights["output_proj.weight"] = found[names["output"]][rows][:, order]
    bias = found["final_logits_bias"].flatten()[rows]
    bias[tgt.muted] -= MUTED_BY
    return {**weights, "output_proj.bias": bias}


def to_hf(weights: Mapping[str, Tensor], marian: MarianConfig, config: ModelConfig) -> Weights:
    """Return `weights` of nmt's `Transformer(config, …)` as those of Marian's model of `marian`, by name.

    Both have the same ids.
    """
    order = state_order(config.d_model).argsort()
    found: Weights = {}
    for entry in _layer_entries(config):
        tensor = weights[entry.name]
        for axis in entry.state_axes:
            tensor = tensor.index_select(axis, order)
        found |= dict(zip(entry.parts, tensor.chunk(len(entry.parts)), strict=True))
    source = weights["src_embedding.tokens.weight"]
    target = weights.get("tgt_embedding.tokens.weight", source)
    tables = {"src": source, "tgt": target, "output": weights.get("output_proj.weight", target)}
    found |= {name: tables[key][:, order] for key, name in _embedding_names(marian).items()}
    bias = weights.get("output_proj.bias", torch.zeros(marian.tgt_vocab_size))
    return {**found, "final_logits_bias": bias[None]}


def _embedding_names(marian: MarianConfig) -> dict[str, str]:
    """Return the name of each table of embeddings in a file: tied ones have one name, which safetensors requires."""
    if marian.share_encoder_decoder_embeddings:
        names = {"src": "model.shared.weight", "tgt": "model.shared.weight"}
    else:
        names = {side: f"model.{part}.embed_tokens.weight" for side, part in (("src", "encoder"), ("tgt", "decoder"))}
    return {**names, "output": names["tgt"] if marian.tie_word_embeddings else "lm_head.weight"}


def _expected(marian: MarianConfig, config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor that the model needs, by its name in the file."""
    own = parameter_shapes(config, marian.vocab_size, marian.tgt_vocab_size)
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in _layer_entries(config):
        rows, *others = own[entry.name]
        shapes |= {part: (rows // len(entry.parts), *others) for part in entry.parts}
    sizes = {"src": marian.vocab_size, "tgt": marian.tgt_vocab_size, "output": marian.tgt_vocab_size}
    shapes |= {name: (sizes[key], config.d_model) for key, name in _embedding_names(marian).items()}
    return {**shapes, "final_logits_bias": (1, marian.tgt_vocab_size)}


def _read_tensors(folder: HfFolder, marian: MarianConfig, expected: Mapping[str, tuple[int, ...]]) -> Weights:
    """Read the tensors of these names and shapes in fp32; RunError if one is missing, or of another shape."""
    path = folder.weights_file()
    with _opened(path, pickled=path == folder.pickled) as (shapes, read):
        sources = _names_in_file(shapes, expected, marian, path)
        found = {name: read(source).float() for name, source in sources.items()}
        positions = [read(name).float() for name in shapes if name.endswith("embed_positions.weight")]
    for name, tensor in found.items():
        if not tensor.isfinite().all():
            raise RunError(f"{name} has numbers that are not finite", path=path, hint=_DAMAGED)
    if not all(map(_are_sinusoids, positions)):
        raise RunError("the positions are not sinusoidal", path=path, hint="nmt imports models with Marian's positions")
    return found


def _are_sinusoids(table: Tensor) -> bool:
    """Return whether a table of positions [T, D] is Marian's, which half precision may have rounded."""
    if table.dim() != 2 or table.size(1) % 2 or len(table) > 32_768:
        return False
    own = sinusoidal_positions(*table.shape)
    return bool((table[:, state_order(table.size(1))] - own).abs().amax() < 5e-3)


def _names_in_file(
    shapes: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], marian: MarianConfig, path: Path
) -> dict[str, str]:
    """Return the name in the file of each tensor that the model needs; tied embeddings may have any of their names."""
    hint = "config.json and weights must belong together"
    tied = _tied_names(marian)
    names = {}
    for name, shape in expected.items():
        found = next((other for other in (name, *(tied if name in tied else ())) if other in shapes), None)
        if found is None:
            raise RunError(f"these weights have no {name}", path=path, hint=hint)
        if shapes[found] != shape:
            raise RunError(f"{found} has the shape {shapes[found]}; config.json makes it {shape}", path=path, hint=hint)
        names[name] = found
    return names


def _tied_names(marian: MarianConfig) -> tuple[str, ...]:
    """Return the names that tied embeddings share one table under."""
    decoder = ("model.decoder.embed_tokens.weight", *(("lm_head.weight",) if marian.tie_word_embeddings else ()))
    shared = ("model.shared.weight", "model.encoder.embed_tokens.weight")
    return (*shared, *decoder) if marian.share_encoder_decoder_embeddings else decoder


Reader = tuple[Mapping[str, tuple[int, ...]], Callable[[str], Tensor]]
"""The shapes of the tensors in a file, by name, and what reads one."""


@contextmanager
def _opened(path: Path, *, pickled: bool) -> Iterator[Reader]:
    """Open a file of weights. RunError if it is damaged, or holds anything but tensors."""
    if pickled:
        tensors = _load_pickle(path)
        yield {name: tuple(tensor.shape) for name, tensor in tensors.items()}, tensors.__getitem__
        return
    try:
        with safe_open(path, framework="pt") as file:  # checks the header against the size of the file
            yield {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}, file.get_tensor  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read these weights ({error})", path=path, hint=_DAMAGED) from None


def _load_pickle(path: Path) -> Weights:
    """Read a pickle with torch's safe loader, which makes nothing but tensors and plain containers."""
    _refuse_packed(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the loader raises for a file that is none
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        hint = "nmt reads files that hold tensors alone, such as a model.safetensors"
        raise RunError(f"cannot read these weights ({reason})", path=path, hint=hint) from None
    if not isinstance(found, dict) or not all(isinstance(part, str) for part in found):
        raise RunError("these weights are not tensors with names", path=path, hint=_DAMAGED)
    tensors = {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}
    # A tensor may claim to be larger than its storage, with strides of 0; tied ones may stand there under four names.
    if sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()) > 4 * path.stat().st_size:
        raise RunError("these weights are larger than their file", path=path, hint=_DAMAGED)
    return tensors


def _refuse_packed(path: Path) -> None:
    """Raise RunError if the file is a zip archive that unpacks to more than its size: torch never compresses."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise RunError(f"cannot read these weights ({error})", path=path, hint=_DAMAGED) from None
    if size > path.stat().st_size:
        raise RunError("these weights are larger than their file", path=path, hint=_DAMAGED)
