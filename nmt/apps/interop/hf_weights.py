"""Convert the weights of Marian and M2M-100 models (of `transformers`) to and from nmt's, by one table of names.

Marian's sinusoidal positions have all sines before all cosines; nmt's alternate. A model works the same whatever the
order of the numbers in its states, so the weights are permuted instead: number i of D in a state of nmt is number
`state_order(D)[i]` in a state of Marian. M2M-100's sinusoids have other frequencies and become learned positions.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nmt.apps.interop.hf_folder import HfConfig, HfFolder, MarianConfig
from nmt.apps.interop.hf_vocabulary import Vocabulary
from nmt.base.errors import RunError
from nmt.config.model import ModelConfig
from nmt.model.positions import sinusoidal_positions
from nmt.model.shapes import parameter_shapes

Weights = dict[str, Tensor]

MUTED_BY = 100.0
"""Subtracted from a logit that shares the row of another one, so that its probability is 0 in fp32."""

_DAMAGED = "download the file again"


class _Entry(NamedTuple):
    """A tensor of nmt's layers, and the tensors of Marian's that it concatenates."""

    name: str
    parts: tuple[str, ...]
    state_axes: tuple[int, ...] = ()  # axes of D numbers that are in the order of a state


def state_order(d_model: int) -> Tensor:
    """Return the index in Marian's states of each number in nmt's states, [D]."""
    half = torch.arange(d_model // 2)
    return torch.stack([half, half + d_model // 2], 1).flatten()


def _entries(config: ModelConfig) -> Iterator[_Entry]:
    yield from _layer_entries(config)
    if config.norm_position == "pre":
        for side in ("encoder", "decoder"):
            yield from _norm(f"{side}_norm", f"model.{side}.layer_norm")


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


def from_hf(folder: HfFolder, hf: HfConfig, config: ModelConfig, src: Vocabulary, tgt: Vocabulary) -> Weights:
    """Read the weights of a folder as those of nmt's `Transformer(config, …)`, by name, in fp32.

    Each tensor is read once, and freed before the next. RunError if the file is damaged, or if a tensor is missing, has
    another shape, or is not finite.
    """
    path = folder.weights_file()
    with _opened(path, pickled=path == folder.pickled) as (shapes, read):
        _check_positions(shapes, read, path)
        tensors = _Tensors(read, _names_in_file(shapes, _expected(hf, config), hf, path), path)
        order = _order(config)
        weights = {entry.name: _joined(entry, tensors, order) for entry in _entries(config)}
        weights |= _embeddings(hf, config, tensors, (src, tgt))
        bias = tensors["final_logits_bias"].flatten() if isinstance(hf, MarianConfig) else torch.zeros(hf.vocab_size)
    bias = bias[torch.tensor(tgt.rows)]
    bias[tgt.muted] -= MUTED_BY
    if config.positions == "learned":
        weights |= {f"{side}_embedding.learned.weight": m2m100_positions(config, hf) for side in ("src", "tgt")}
    return {**weights, "output_proj.bias": bias}


def m2m100_positions(config: ModelConfig, hf: HfConfig) -> Tensor:
    """Return the positions of M2M-100 [T, D], whose sinusoids differ from nmt's.

    All sines come before all cosines, the lowest frequency is 1/10000, and the first token has the position after the
    padding id (`M2M100SinusoidalPositionalEmbedding` of transformers).
    """
    half, first = config.d_model // 2, hf.pad_token_id + 1
    frequencies = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
    positions = torch.arange(first, first + max(config.max_src_len, config.max_tgt_len)).float()
    angles = positions[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _order(config: ModelConfig) -> Tensor:
    """Return the index in the states of the folder's model of each number in nmt's states, [D]."""
    return state_order(config.d_model) if config.positions == "sinusoidal" else torch.arange(config.d_model)


def _joined(entry: _Entry, tensors: _Tensors, order: Tensor) -> Tensor:
    tensor = torch.cat([tensors[part] for part in entry.parts])
    for axis in entry.state_axes:
        tensor = tensor.index_select(axis, order)
    return tensor


def _embeddings(
    hf: HfConfig, config: ModelConfig, tensors: _Tensors, vocabularies: tuple[Vocabulary, Vocabulary]
) -> Weights:
    """Return the embedding tables, with the rows of nmt's tokens."""
    names, order = _embedding_names(hf), _order(config)
    tables = {name: tensors[name] for name in set(names.values())}
    src, tgt = (torch.tensor(vocabulary.rows) for vocabulary in vocabularies)
    scale = 1.0 if hf.scale_embedding else config.d_model**-0.5  # nmt always multiplies by sqrt(D)
    wanted = {"src_embedding.tokens.weight": ("src", src, scale)}
    if config.tied_embeddings != "all":
        wanted["tgt_embedding.tokens.weight"] = ("tgt", tgt, scale)
    if config.tied_embeddings == "none":
        wanted["output_proj.weight"] = ("output", tgt, 1.0)
    found = {}
    for name, (key, rows, factor) in wanted.items():
        table = tables[names[key]][rows]
        if config.positions == "sinusoidal":
            table = table[:, order]
        found[name] = table.mul_(factor)
    return found


def to_hf(weights: Mapping[str, Tensor], hf: HfConfig, config: ModelConfig) -> Weights:
    """Return `weights` of nmt's `Transformer(config, …)` as those of the model of `hf`, by name.

    Both must have the same ids.
    """
    order = _order(config).argsort()
    found: Weights = {}
    for entry in _entries(config):
        tensor = weights[entry.name]
        for axis in entry.state_axes:
            tensor = tensor.index_select(axis, order)
        found |= dict(zip(entry.parts, tensor.chunk(len(entry.parts)), strict=True))
    source = weights["src_embedding.tokens.weight"]
    target = weights.get("tgt_embedding.tokens.weight", source)
    tables = {"src": source, "tgt": target, "output": weights.get("output_proj.weight", target)}
    found |= {name: tables[key][:, order] for key, name in _embedding_names(hf).items()}
    if not isinstance(hf, MarianConfig):
        return found
    bias = weights.get("output_proj.bias", torch.zeros(hf.tgt_vocab_size))
    return {**found, "final_logits_bias": bias[None]}


def _embedding_names(hf: HfConfig) -> dict[str, str]:
    """Return the name of each embedding table in a file; safetensors requires a single name for tied ones."""
    if hf.shares_embeddings:
        names = {"src": "model.shared.weight", "tgt": "model.shared.weight"}
    else:
        names = {side: f"model.{part}.embed_tokens.weight" for side, part in (("src", "encoder"), ("tgt", "decoder"))}
    return {**names, "output": names["tgt"] if hf.tie_word_embeddings else "lm_head.weight"}


def _expected(hf: HfConfig, config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor that the model needs, by its name in the file."""
    own = parameter_shapes(config, hf.vocab_size, hf.tgt_vocab_size)
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in _entries(config):
        rows, *others = own[entry.name]
        shapes |= {part: (rows // len(entry.parts), *others) for part in entry.parts}
    sizes = {"src": hf.vocab_size, "tgt": hf.tgt_vocab_size, "output": hf.tgt_vocab_size}
    shapes |= {name: (sizes[key], config.d_model) for key, name in _embedding_names(hf).items()}
    return {**shapes, "final_logits_bias": (1, hf.tgt_vocab_size)} if isinstance(hf, MarianConfig) else shapes


class _Tensors:
    """The tensors of a file, in fp32, each read when needed."""

    def __init__(self, read: Callable[[str], Tensor], names: Mapping[str, str], path: Path):
        """Read with `read`; `names` maps names of the model to names in the file."""
        self._read, self._names, self._path = read, names, path

    def __getitem__(self, name: str) -> Tensor:
        tensor = self._read(self._names[name]).float()
        if not tensor.isfinite().all():
            raise RunError(f"{name} contains numbers that are not finite", path=self._path, hint=_DAMAGED)
        return tensor


def _check_positions(shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], Tensor], path: Path) -> None:
    """Raise RunError if the file has positions that are not Marian's; M2M-100 files contain none."""
    positions = [read(name).float() for name in shapes if name.endswith("embed_positions.weight")]
    if not all(map(_are_sinusoids, positions)):
        raise RunError("the positions are not sinusoidal", path=path, hint="nmt imports models with Marian's positions")


def _are_sinusoids(table: Tensor) -> bool:
    """Return whether a table of positions [T, D] is Marian's, possibly rounded to half precision."""
    if table.dim() != 2 or table.size(1) % 2 or len(table) > 32_768:
        return False
    own = sinusoidal_positions(*table.shape)
    return bool((table[:, state_order(table.size(1))] - own).abs().amax() < 5e-3)


def _names_in_file(
    shapes: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], hf: HfConfig, path: Path
) -> dict[str, str]:
    """Return the name in the file of each tensor that the model needs; tied embeddings may have any of their names."""
    hint = "config.json and weights must belong to the same model"
    tied = _tied_names(hf)
    names = {}
    for name, shape in expected.items():
        found = next((other for other in (name, *(tied if name in tied else ())) if other in shapes), None)
        if found is None:
            raise RunError(f"these weights have no {name}", path=path, hint=hint)
        if shapes[found] != shape:
            raise RunError(f"{found} has shape {shapes[found]}, but should have {shape}", path=path, hint=hint)
        names[name] = found
    return names


def _tied_names(hf: HfConfig) -> tuple[str, ...]:
    """Return the names of the tied embeddings, which share one table."""
    decoder = ("model.decoder.embed_tokens.weight", *(("lm_head.weight",) if hf.tie_word_embeddings else ()))
    shared = ("model.shared.weight", "model.encoder.embed_tokens.weight")
    return (*shared, *decoder) if hf.shares_embeddings else decoder


Reader = tuple[Mapping[str, tuple[int, ...]], Callable[[str], Tensor]]
"""The shapes of the tensors in a file, by name, and a function that reads a tensor."""


@contextmanager
def _opened(path: Path, *, pickled: bool) -> Iterator[Reader]:
    """Open a weights file. RunError if it is damaged, or contains anything but tensors."""
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
    """Read a pickle with torch's safe loader, which creates only tensors and plain containers."""
    _refuse_packed(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader may raise anything for an invalid file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        hint = "nmt reads files that contain only tensors, such as a model.safetensors"
        raise RunError(f"cannot read these weights ({reason})", path=path, hint=hint) from None
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
