"""Read and check the files of a Hugging Face folder with a model that nmt can import. Imports no torch.

The folder is untrusted: files are read within limits, links and special files are rejected, and nothing in it is
executed. The formats are those of `transformers.models.marian` (OPUS-MT), `transformers.models.pegasus` with Marian's
tokenizer (models of nmt), and `transformers.models.m2m_100` (M2M-100, NLLB-200).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, model_validator

from nmt.artifacts.hub import HubModel
from nmt.base.errors import NmtError, RunError
from nmt.base.files import read_json_object
from nmt.config.base import Count, Rate, first_fault
from nmt.config.model import ModelConfig, NumLayers

MAX_JSON_BYTES = 50_000_000
"""Largest JSON file that is read; a vocab.json of 256,000 tokens has 6 million bytes."""

HfActivation = Literal["swish", "silu", "relu", "gelu"]
ACTIVATIONS: dict[HfActivation, str] = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
"""Values of `activation_function`, with those of nmt's `model.activation`."""

NOT_IMPORTED = "nmt imports folders with a config.json whose model_type is marian (OPUS-MT) or m2m_100 (M2M-100, NLLB)"

COPY_SPM = "copy sentencepiece.bpe.model from the folder of the model that this one was made of"
_OTHER_FOLDERS = {
    "adapter_config.json": "it has an adapter (LoRA): merge it with peft's merge_and_unload(), save that, import it",
    "run.json": "it is a run of nmt: nmt translate --model FOLDER",
    "export.json": "it is an export for CTranslate2; give the run or the folder that it was made of",
    "tf_model.h5": "its weights are for TensorFlow; nmt reads model.safetensors and pytorch_model.bin",
    "flax_model.msgpack": "its weights are for Flax; nmt reads model.safetensors and pytorch_model.bin",
}
"""The advice for a folder that has a file of this name, but no model that can be imported."""

_NESTED = ("*/config.json", "snapshots/*/config.json")  # a trainer's checkpoints, the cache of the hub

Kind = TypeVar("Kind", bound=BaseModel)
TokenId = Annotated[int, Field(ge=0, lt=1 << 24)]


class HfConfig(BaseModel):
    """The part of config.json that both architectures have; defaults as in transformers."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    name: ClassVar[str]
    tokenizer_files: ClassVar[tuple[str, ...]]

    d_model: int = Field(default=1024, ge=2, le=16_384)
    encoder_layers: NumLayers = 12
    decoder_layers: NumLayers = 12
    encoder_attention_heads: Count = 16
    decoder_attention_heads: Count = 16
    encoder_ffn_dim: int = Field(default=4096, ge=1, le=262_144)
    decoder_ffn_dim: int = Field(default=4096, ge=1, le=262_144)
    activation_function: HfActivation = "gelu"
    max_position_embeddings: int = Field(default=1024, ge=2, le=32_768)
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    vocab_size: int = Field(default=58_101, ge=4, le=1_000_000)
    pad_token_id: TokenId = 58_100
    eos_token_id: TokenId = 0
    decoder_start_token_id: TokenId = 58_100
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    decoder_vocab_size: int | None = Field(default=None, ge=4, le=1_000_000)
    share_encoder_decoder_embeddings: bool = True
    transformers_version: str = ""

    @property
    def tgt_vocab_size(self) -> int:
        """The number of logits."""
        return self.decoder_vocab_size or self.vocab_size

    @model_validator(mode="after")
    def _can_be_computed(self) -> Self:
        """Raise ValueError for the first value that nmt's model does not support."""
        for part in ("attention_heads", "ffn_dim"):
            size = getattr(self, f"encoder_{part}")
            other = getattr(self, f"decoder_{part}")
            if size != other:
                raise ValueError(f"decoder_{part} is {other}; nmt imports models with {size}")
        if self.d_model % 2 or self.d_model % self.encoder_attention_heads:
            raise ValueError("d_model must be even, and a multiple of encoder_attention_heads")
        if self.share_encoder_decoder_embeddings and self.tgt_vocab_size != self.vocab_size:
            raise ValueError("the embeddings are shared, but decoder_vocab_size is not vocab_size")
        is_shared = self.share_encoder_decoder_embeddings and not self.tie_word_embeddings
        if is_shared and self.transformers_version.startswith("5."):
            raise ValueError("transformers 5 shares nothing here: share_encoder_decoder_embeddings must be false")
        if max(self.pad_token_id, self.eos_token_id, self.decoder_start_token_id) >= self.tgt_vocab_size:
            raise ValueError("pad_token_id, eos_token_id or decoder_start_token_id is not in the vocabulary")
        return self


class MarianConfig(HfConfig):
    """The part of config.json that determines what a Marian model computes."""

    name = "Marian"
    tokenizer_files = ("vocab.json", "source.spm", "target.spm")

    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    static_position_embeddings: Literal[True] = True


class PegasusConfig(HfConfig):
    """The part of config.json that determines what a Pegasus model computes: Marian with norms before the sublayers."""

    name = "Pegasus"
    tokenizer_files = MarianConfig.tokenizer_files  # models with a tokenizer of Pegasus summarize, and are not imported

    vocab_size: int = Field(default=50_265, ge=4, le=1_000_000)
    pad_token_id: TokenId = 0
    eos_token_id: TokenId = 1
    decoder_start_token_id: TokenId = 0
    share_encoder_decoder_embeddings: Literal[True] = True


class M2M100Config(HfConfig):
    """The part of config.json that determines what an M2M-100 or NLLB model computes."""

    name = "M2M-100"
    tokenizer_files = ("sentencepiece.bpe.model",)  # M2M-100 also has vocab.json, NLLB does not

    activation_function: HfActivation = "relu"
    d_model: int = Field(default=1024, ge=4, le=16_384)
    vocab_size: int = Field(default=128_112, ge=4, le=1_000_000)
    attention_dropout: Rate = 0.1
    pad_token_id: TokenId = 1
    eos_token_id: TokenId = 2
    decoder_start_token_id: TokenId = 2
    scale_embedding: bool = True
    tie_word_embeddings: Literal[True] = True


CONFIGS: dict[str, type[HfConfig]] = {"marian": MarianConfig, "pegasus": PegasusConfig, "m2m_100": M2M100Config}
"""The architectures, by their `model_type`."""


class GenerationConfig(BaseModel):
    """The part of generation_config.json that nmt's search supports."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    num_beams: int = Field(default=1, ge=1, le=1000)
    length_penalty: float = Field(default=1.0, ge=0.0, le=5.0)


_Name = Annotated[str, Field(max_length=100)]  # is printed


class AddedToken(BaseModel):
    """A token that the SentencePiece model lacks."""

    content: str
    id: int = -1  # in tokenizer.json
    special: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False


class AddedIds(RootModel[dict[str, int]]):
    """The contents of added_tokens.json."""

    root: dict[str, int] = {}


class FastTokenizer(BaseModel):
    """The part of tokenizer.json that nmt reads of each tokenizer."""

    added_tokens: tuple[AddedToken, ...] = ()


class ShardIndex(BaseModel):
    """The part of an index that names the file of each tensor."""

    weight_map: dict[str, str]


class TokenizerSettings(BaseModel):
    """The part of tokenizer_config.json that nmt reads."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    source_lang: _Name | None = None
    target_lang: _Name | None = None
    separate_vocabs: bool = False
    tokenizer_class: _Name | None = None
    legacy_behaviour: bool = False
    language_codes: _Name = "m2m100"
    added_tokens_decoder: dict[int, AddedToken] = Field(default_factory=dict)


class HfFolder:
    """Paths of a Hugging Face folder, and the contents of its JSON files."""

    def __init__(self, path: Path):
        self.path = path
        self.config_file = path / "config.json"
        self.generation_file = path / "generation_config.json"
        self.tokenizer_file = path / "tokenizer_config.json"
        self.vocab_file = path / "vocab.json"
        self.tgt_vocab_file = path / "target_vocab.json"
        self.source_spm = path / "source.spm"
        self.target_spm = path / "target.spm"
        self.joint_spm = path / "sentencepiece.bpe.model"
        self.fast_tokenizer_file = path / "tokenizer.json"
        self.added_tokens_file = path / "added_tokens.json"
        self.safetensors = path / "model.safetensors"
        self.pickled = path / "pytorch_model.bin"
        self.card = path / "README.md"

    def check(self) -> HfConfig:
        """Return the configuration. RunError unless the folder has its architecture's files, as regular files."""
        if not self.path.is_dir():
            raise RunError(
                "a file; give the folder that it lies in" if self.path.exists() else "no such folder",
                path=self.path,
                hint=_advice_for_name(str(self.path)),
            )
        for path in (value for name, value in vars(self).items() if name != "path"):
            _refuse_links(path)
        if not self.config_file.exists():
            raise RunError(
                "not a Hugging Face folder of a model: it has no config.json", path=self.path, hint=self._what_it_is()
            )
        config = self.config()
        for path in (*(self.path / name for name in config.tokenizer_files), *self.weights_files()):
            _refuse_links(path)
            is_joint = path == self.joint_spm
            if not (self.joint_model if is_joint else path).exists():
                raise RunError(
                    f"not a Hugging Face folder of a model of {config.name}: it has no {path.name}",
                    path=self.path,
                    hint=COPY_SPM if is_joint else self._what_it_is(),
                )
        return config

    @property
    def joint_model(self) -> Path:
        """The SentencePiece model; tokenizer.json if that is all that there is, as transformers 5 saves NLLB."""
        has_other = self.joint_spm.exists() or self.vocab_file.exists()
        return self.joint_spm if has_other else self.fast_tokenizer_file

    def _what_it_is(self) -> str:
        """Return what to do with a folder without config.json or weights, by the files that it does have."""
        advice = [advice for name, advice in _OTHER_FOLDERS.items() if (self.path / name).exists()]
        nested = [f"did you mean {found.parent}?" for name in _NESTED for found in sorted(self.path.glob(name))]
        return [*advice, *reversed(nested), NOT_IMPORTED][0]

    def weights_files(self) -> list[Path]:
        """Return the paths of the weights: those of safetensors, else of pickles; several if an index lists them."""
        for whole in (self.safetensors, self.pickled):
            index = whole.with_name(f"{whole.name}.index.json")
            if os.path.lexists(whole):
                return [whole]
            if index.exists():
                names = set(validated(ShardIndex, self.read_json(index), index).weight_map.values())
                if any(name != Path(name).name for name in names):
                    raise RunError("its weight_map names files that are not in this folder", path=index)
                return [self.path / name for name in sorted(names)]
        return [self.safetensors]

    def config(self) -> HfConfig:
        """Read config.json. RunError if it is damaged, or nmt does not support the model."""
        values = self.read_json(self.config_file)
        found = values.get("model_type")
        if not isinstance(found, str) or found not in CONFIGS:
            raise RunError(f"the model_type is {found!r:.100}", path=self.config_file, hint=NOT_IMPORTED)
        return validated(CONFIGS[found], values, self.config_file)

    def generation(self) -> GenerationConfig:
        """Read generation_config.json; older folders have its values in config.json."""
        path = self.generation_file if self.generation_file.exists() else self.config_file
        return validated(GenerationConfig, self.read_json(path), path)

    def tokenizer_settings(self) -> TokenizerSettings:
        """Read tokenizer_config.json, if there is one."""
        return self._read_if_there(TokenizerSettings, self.tokenizer_file)

    def added_tokens(self) -> dict[int, AddedToken]:
        """Return the tokens that were added to the SentencePiece model, special ones too, by id."""
        ids = self._read_if_there(AddedIds, self.added_tokens_file).root
        fast = self._read_if_there(FastTokenizer, self.fast_tokenizer_file).added_tokens
        found = {number: AddedToken(content=token) for token, number in ids.items()}
        return found | {token.id: token for token in fast} | self.tokenizer_settings().added_tokens_decoder

    def _read_if_there(self, kind: type[Kind], path: Path) -> Kind:
        return validated(kind, self.read_json(path), path) if path.exists() else kind()

    def vocabulary(self, path: Path) -> dict[str, int]:
        """Read a vocabulary: tokens with the ids from 0 on, each once. RunError if it is invalid."""
        values = self.read_json(path)
        if not all(type(number) is int for number in values.values()):
            raise RunError("not a vocabulary: an id is not a whole number", path=path)
        if sorted(values.values()) != list(range(len(values))):
            raise RunError(f"the {len(values):,} ids are not 0 to {len(values) - 1:,}", path=path)
        return values

    def read_json(self, path: Path) -> dict[str, Any]:
        """Read a JSON object. RunError if the file is missing, damaged, too large, or not an object."""
        return read_json_object(path, MAX_JSON_BYTES)


def _refuse_links(path: Path) -> None:
    """Raise RunError if there is something at `path` that is not a regular file."""
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise RunError(
            "a link, or not a regular file",
            path=path,
            hint="files must not be links: `hf download NAME --local-dir FOLDER` writes plain files",
        )


def _advice_for_name(text: str) -> str:
    """Return what to do about a folder that does not exist: perhaps `text` is a model on the hub."""
    try:
        repository = HubModel.parse(text).repository
    except NmtError:
        return NOT_IMPORTED
    return f"if this is a model on the hub, copy it: hf download {repository} --local-dir FOLDER, then import FOLDER"


def validated(kind: type[Kind], values: dict[str, Any], path: Path, hint: str = NOT_IMPORTED) -> Kind:
    """Return `values` as `kind`; null stands for the default. RunError for the first invalid value."""
    try:
        return kind.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise RunError(first_fault(error), path=path, hint=hint) from None


def model_config(hf: HfConfig) -> ModelConfig:
    """Return nmt's configuration of a model. RunError if the model is too large."""
    return validated(ModelConfig, model_values(hf), Path("config.json"))


def model_values(hf: HfConfig) -> dict[str, Any]:
    """Return the section `model` of a configuration that is equivalent to the model of `hf`."""
    tied = "none"  # nmt always scales a tied embedding
    if hf.tie_word_embeddings and hf.scale_embedding:
        tied = "all" if hf.share_encoder_decoder_embeddings else "target"
    if isinstance(hf, M2M100Config):
        own = {"positions": "learned", "norm_position": "pre", "language_tags": "both"}
    else:
        own = {"positions": "sinusoidal", "norm_position": "pre" if isinstance(hf, PegasusConfig) else "post"}
    return {
        "d_model": hf.d_model,
        "num_heads": hf.encoder_attention_heads,
        "d_ff": hf.encoder_ffn_dim,
        "encoder_layers": hf.encoder_layers,
        "decoder_layers": hf.decoder_layers,
        **own,
        "activation": ACTIVATIONS[hf.activation_function],
        "tied_embeddings": tied,
        "output_bias": True,  # M2M-100 has none, but nmt needs one to give its begin token no probability
        "dropout": hf.dropout,
        "attention_dropout": hf.attention_dropout,
        "embedding_dropout": hf.dropout,
        "max_src_len": hf.max_position_embeddings,
        "max_tgt_len": hf.max_position_embeddings,
    }
