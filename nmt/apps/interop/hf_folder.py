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

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nmt.base.errors import RunError
from nmt.base.files import read_json_object
from nmt.config.base import Count, Rate, first_fault
from nmt.config.model import ModelConfig, NumLayers

MAX_JSON_BYTES = 50_000_000
"""Largest JSON file that is read; a vocab.json of 256,000 tokens has 6 million bytes."""

ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
"""Values of `activation_function`, with those of nmt's `model.activation`."""

NOT_IMPORTED = "nmt imports folders with a config.json whose model_type is marian (OPUS-MT) or m2m_100 (M2M-100, NLLB)"

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
    activation_function: str = "gelu"
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

    @property
    def tgt_vocab_size(self) -> int:
        """The number of logits."""
        return self.decoder_vocab_size or self.vocab_size

    @model_validator(mode="after")
    def _can_be_computed(self) -> Self:
        """Raise ValueError for the first value that nmt's model does not support."""
        for part in ("attention_heads", "ffn_dim"):
            size, other = getattr(self, f"encoder_{part}"), getattr(self, f"decoder_{part}")
            if size != other:
                raise ValueError(f"decoder_{part} is {other}; nmt imports models with {size}")
        if self.activation_function not in ACTIVATIONS:
            raise ValueError(f"activation_function is {self.activation_function}; nmt has {', '.join(ACTIVATIONS)}")
        if self.d_model % 2 or self.d_model % self.encoder_attention_heads:
            raise ValueError("d_model must be even, and a multiple of encoder_attention_heads")
        if self.share_encoder_decoder_embeddings and self.tgt_vocab_size != self.vocab_size:
            raise ValueError("the embeddings are shared, but decoder_vocab_size is not vocab_size")
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

    activation_function: str = "relu"
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


class FastTokenizer(BaseModel):
    """The part of tokenizer.json that nmt reads."""

    added_tokens: tuple[AddedToken, ...] = ()


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
        self.safetensors = path / "model.safetensors"
        self.pickled = path / "pytorch_model.bin"
        self.card = path / "README.md"

    def check(self) -> HfConfig:
        """Return the configuration. RunError unless the folder has its architecture's files, as regular files."""
        if not self.path.is_dir():
            raise RunError("no such folder", path=self.path, hint=NOT_IMPORTED)
        for path in (value for name, value in vars(self).items() if name != "path"):
            if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
                hint = "files must not be links: `hf download NAME --local-dir FOLDER` writes plain files"
                raise RunError("a link, or not a regular file", path=path, hint=hint)
        if not self.config_file.exists():
            raise RunError("not a Hugging Face folder of a model: it has no config.json", path=self.path)
        config = self.config()
        for name in (*config.tokenizer_files, self.weights_file().name):
            if not (self.path / name).exists():
                message = f"not a Hugging Face folder of a model of {config.name}: it has no {name}"
                raise RunError(message, path=self.path)
        return config

    def weights_file(self) -> Path:
        """Return the path of the weights: model.safetensors, else pytorch_model.bin."""
        return self.pickled if os.path.lexists(self.pickled) and not self.safetensors.exists() else self.safetensors

    def config(self) -> HfConfig:
        """Read config.json. RunError if it is damaged, or nmt does not support the model."""
        values = self.read_json(self.config_file)
        found = values.get("model_type")
        if not isinstance(found, str) or found not in CONFIGS:
            raise RunError(f"the model_type is {found!r:.100}", path=self.config_file, hint=NOT_IMPORTED)
        return _validated(CONFIGS[found], values, self.config_file)

    def generation(self) -> GenerationConfig:
        """Read generation_config.json; older folders have its values in config.json."""
        path = self.generation_file if self.generation_file.exists() else self.config_file
        return _validated(GenerationConfig, self.read_json(path), path)

    def tokenizer_settings(self) -> TokenizerSettings:
        """Read tokenizer_config.json, if there is one."""
        return self._read_if_there(TokenizerSettings, self.tokenizer_file)

    def fast_tokenizer(self) -> FastTokenizer:
        """Read tokenizer.json, if there is one."""
        return self._read_if_there(FastTokenizer, self.fast_tokenizer_file)

    def _read_if_there(self, kind: type[Kind], path: Path) -> Kind:
        return _validated(kind, self.read_json(path), path) if path.exists() else kind()

    def vocabulary(self, path: Path, size: int) -> dict[str, int]:
        """Read a vocabulary: tokens with the ids 0 to `size` - 1, each once. RunError if it is invalid."""
        values = self.read_json(path)
        if not all(type(number) is int for number in values.values()):
            raise RunError("not a vocabulary: an id is not a whole number", path=path)
        if sorted(values.values()) != list(range(size)):
            raise RunError(f"the {len(values):,} ids are not 0 to {size - 1:,}, as config.json says", path=path)
        return values

    def read_json(self, path: Path) -> dict[str, Any]:
        """Read a JSON object. RunError if the file is missing, damaged, too large, or not an object."""
        return read_json_object(path, MAX_JSON_BYTES)


def _validated(kind: type[Kind], values: dict[str, Any], path: Path) -> Kind:
    """Return `values` as `kind`; null stands for the default. RunError for the first invalid value."""
    try:
        return kind.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise RunError(first_fault(error), path=path, hint=NOT_IMPORTED) from None


def model_config(hf: HfConfig) -> ModelConfig:
    """Return nmt's configuration of a model. RunError if the model is too large."""
    return _validated(ModelConfig, model_values(hf), Path("config.json"))


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
