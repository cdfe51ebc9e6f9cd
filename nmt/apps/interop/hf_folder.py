"""Read and check the files of a Hugging Face folder with a model that nmt can import. Imports no torch.

The folder is untrusted: files are read within limits, links and special files are rejected, and nothing in it is
executed. The formats are those of `transformers.models.marian` (OPUS-MT) and `transformers.models.m2m_100` (M2M-100,
NLLB-200).
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nmt.base.errors import RunError
from nmt.base.files import read_at_most
from nmt.config.base import Count, Rate
from nmt.config.model import ModelConfig, NumLayers

MAX_JSON_BYTES = 50_000_000
"""Largest JSON file that is read; a vocab.json of 256,000 tokens has 6 million bytes."""

ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
"""Values of `activation_function`, with those of nmt's `model.activation`."""

NOT_IMPORTED = "nmt imports folders with a config.json whose model_type is marian (OPUS-MT) or m2m_100 (M2M-100, NLLB)"

ModelType = Literal["marian", "m2m_100"]
NAMES: dict[ModelType, str] = {"marian": "Marian", "m2m_100": "M2M-100"}
"""The architectures, by their `model_type`."""

Kind = TypeVar("Kind", bound=BaseModel)
TokenId = Annotated[int, Field(ge=0, lt=1 << 24)]


class HfConfig(BaseModel):
    """The part of config.json that both architectures have; defaults as in transformers."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    d_model: int = Field(1024, ge=2, le=16_384)
    encoder_layers: NumLayers = 12
    decoder_layers: NumLayers = 12
    encoder_attention_heads: Count = 16
    decoder_attention_heads: Count = 16
    encoder_ffn_dim: int = Field(4096, ge=1, le=262_144)
    decoder_ffn_dim: int = Field(4096, ge=1, le=262_144)
    activation_function: str = "gelu"
    max_position_embeddings: int = Field(1024, ge=2, le=32_768)
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    vocab_size: int = Field(58_101, ge=4, le=1_000_000)
    pad_token_id: TokenId = 58_100
    eos_token_id: TokenId = 0
    decoder_start_token_id: TokenId = 58_100
    scale_embedding: bool = False
    tie_word_embeddings: bool = True

    @property
    def tgt_vocab_size(self) -> int:
        """The number of logits."""
        return self.vocab_size

    @property
    def shares_embeddings(self) -> bool:
        """True if encoder and decoder have one table of embeddings."""
        return True

    @model_validator(mode="after")
    def _can_be_computed(self) -> Self:
        """Raise ValueError for the first value that nmt's model does not support."""
        wrong = {name: value for name, value in self._required().items() if getattr(self, name) != value}
        for name, value in wrong.items():
            raise ValueError(f"{name} is {getattr(self, name)}; nmt imports models with {value}")
        if self.activation_function not in ACTIVATIONS:
            raise ValueError(f"activation_function is {self.activation_function}; nmt has {', '.join(ACTIVATIONS)}")
        if self.d_model % 2 or self.d_model % self.encoder_attention_heads:
            raise ValueError("d_model must be even, and a multiple of encoder_attention_heads")
        if self.shares_embeddings and self.tgt_vocab_size != self.vocab_size:
            raise ValueError("the embeddings are shared, but decoder_vocab_size is not vocab_size")
        if max(self.pad_token_id, self.eos_token_id, self.decoder_start_token_id) >= self.tgt_vocab_size:
            raise ValueError("pad_token_id, eos_token_id or decoder_start_token_id is not in the vocabulary")
        return self

    def _required(self) -> dict[str, Any]:
        return {
            "decoder_attention_heads": self.encoder_attention_heads,
            "decoder_ffn_dim": self.encoder_ffn_dim,
        }


class MarianConfig(HfConfig):
    """The part of config.json that determines what a Marian model computes."""

    decoder_vocab_size: int | None = Field(None, ge=4, le=1_000_000)
    share_encoder_decoder_embeddings: bool = True
    normalize_before: bool = False
    normalize_embedding: bool = False
    add_final_layer_norm: bool = False
    static_position_embeddings: bool = True

    @property
    def tgt_vocab_size(self) -> int:
        """The number of logits."""
        return self.decoder_vocab_size or self.vocab_size

    @property
    def shares_embeddings(self) -> bool:
        """True if encoder and decoder have one table of embeddings."""
        return self.share_encoder_decoder_embeddings

    def _required(self) -> dict[str, Any]:
        return {
            **super()._required(),
            "normalize_before": False,
            "normalize_embedding": False,
            "add_final_layer_norm": False,
            "static_position_embeddings": True,
        }


class M2M100Config(HfConfig):
    """The part of config.json that determines what an M2M-100 or NLLB model computes."""

    activation_function: str = "relu"
    d_model: int = Field(1024, ge=4, le=16_384)
    vocab_size: int = Field(128_112, ge=4, le=1_000_000)
    attention_dropout: Rate = 0.1
    pad_token_id: TokenId = 1
    eos_token_id: TokenId = 2
    decoder_start_token_id: TokenId = 2
    scale_embedding: bool = True

    def _required(self) -> dict[str, Any]:
        return {**super()._required(), "tie_word_embeddings": True}


class GenerationConfig(BaseModel):
    """The part of generation_config.json that nmt's search supports."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    num_beams: int = Field(1, ge=1, le=1000)
    length_penalty: float = Field(1.0, ge=0.0, le=5.0)
    early_stopping: bool | str | None = False


_Name = Annotated[str, Field(max_length=100)]  # is printed


class TokenizerSettings(BaseModel):
    """The part of tokenizer_config.json that nmt reads."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    source_lang: _Name | None = None
    target_lang: _Name | None = None
    separate_vocabs: bool = False
    tokenizer_class: _Name | None = None
    legacy_behaviour: bool = False
    language_codes: _Name = "m2m100"


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
        self.special_tokens_file = path / "special_tokens_map.json"
        self.safetensors = path / "model.safetensors"
        self.pickled = path / "pytorch_model.bin"
        self.card = path / "README.md"

    def check(self) -> None:
        """Raise RunError unless the folder contains the files of its architecture as regular files."""
        if not self.path.is_dir():
            raise RunError("no such folder", path=self.path, hint=NOT_IMPORTED)
        for path in self._all_files():
            if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
                hint = "files must not be links: `hf download NAME --local-dir FOLDER` writes plain files"
                raise RunError("a link, or not a regular file", path=path, hint=hint)
        if not self.config_file.exists():
            raise RunError("not a Hugging Face folder of a model: it has no config.json", path=self.path)
        name = NAMES[self.model_type()]
        for path in (*self._tokenizer_files(), self.weights_file()):
            if not path.exists():
                raise RunError(f"not a Hugging Face folder of a model of {name}: it has no {path.name}", path=self.path)

    def _tokenizer_files(self) -> tuple[Path, ...]:
        if self.model_type() == "marian":
            return self.vocab_file, self.source_spm, self.target_spm
        return (self.joint_spm,)  # M2M-100 also has vocab.json, NLLB does not

    def model_files(self) -> list[Path]:
        """Return the paths of the weights and of the tokenizer."""
        return [path for path in (self.weights_file(), *self._tokenizer_files(), self.vocab_file) if path.is_file()]

    def _all_files(self) -> list[Path]:
        return [value for name, value in vars(self).items() if name != "path"]

    def weights_file(self) -> Path:
        """Return the path of the weights: model.safetensors, else pytorch_model.bin."""
        return self.pickled if os.path.lexists(self.pickled) and not self.safetensors.exists() else self.safetensors

    def model_type(self) -> ModelType:
        """Return the architecture in config.json. RunError if the file is damaged, or has an unsupported one."""
        found = self.read_json(self.config_file).get("model_type")
        if not isinstance(found, str) or found not in NAMES:
            raise RunError(f"the model_type is {found!r:.100}", path=self.config_file, hint=NOT_IMPORTED)
        return found

    def config(self) -> MarianConfig:
        """Read config.json of a Marian model. RunError if it is damaged, or nmt does not support the model."""
        return self._checked(MarianConfig, self.read_json(self.config_file), self.config_file)

    def m2m100_config(self) -> M2M100Config:
        """Read config.json of an M2M-100 model. RunError as `config`."""
        return self._checked(M2M100Config, self.read_json(self.config_file), self.config_file)

    def generation(self) -> GenerationConfig:
        """Read generation_config.json; older folders have its values in config.json."""
        path = self.generation_file if self.generation_file.exists() else self.config_file
        return self._checked(GenerationConfig, self.read_json(path), path)

    def tokenizer_settings(self) -> TokenizerSettings:
        """Read tokenizer_config.json, if there is one."""
        if not self.tokenizer_file.exists():
            return TokenizerSettings()
        return self._checked(TokenizerSettings, self.read_json(self.tokenizer_file), self.tokenizer_file)

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
        try:
            value = json.loads(read_at_most(path, MAX_JSON_BYTES))
        except RecursionError:
            raise RunError("cannot read this file (nested too deeply)", path=path) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RunError(f"cannot read this file ({reason})", path=path) from None
        if not isinstance(value, dict):
            raise RunError("not a JSON object", path=path)
        return value

    def _checked(self, kind: type[Kind], values: dict[str, Any], path: Path) -> Kind:
        try:
            return kind.model_validate({name: value for name, value in values.items() if value is not None})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            message = first["msg"].removeprefix("Value error, ")
            raise RunError(f"{name}: {message}" if name else message, path=path, hint=NOT_IMPORTED) from None


def model_config(hf: HfConfig) -> ModelConfig:
    """Return nmt's configuration of a model. RunError if the model is too large."""
    try:
        return ModelConfig.model_validate(model_values(hf))
    except ValidationError as error:
        raise RunError(error.errors()[0]["msg"].removeprefix("Value error, "), path="config.json") from None


def model_values(hf: HfConfig) -> dict[str, Any]:
    """Return the section `model` of a configuration that is equivalent to the model of `hf`."""
    tied = "none"  # nmt always scales a tied embedding
    if hf.tie_word_embeddings and hf.scale_embedding:
        tied = "all" if hf.shares_embeddings else "target"
    own = {"positions": "sinusoidal", "norm_position": "post"}
    if not isinstance(hf, MarianConfig):
        own = {"positions": "learned", "norm_position": "pre", "language_tags": "both"}
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
