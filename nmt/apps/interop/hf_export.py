"""Export a run as a Hugging Face folder, for use with `transformers`.

A post-norm model becomes one of Marian, a pre-norm model one of Pegasus, which differs from it in nothing else. The
files are written without `transformers`, in the layout that its models and its MarianTokenizer read.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from nmt.apps.interop.export_folder import refuse_existing
from nmt.apps.interop.hf_folder import ACTIVATIONS, HfConfig, HfFolder, M2M100Config, MarianConfig, PegasusConfig
from nmt.apps.interop.hf_vocabulary import hf_tokens
from nmt.apps.interop.hf_weights import to_hf
from nmt.apps.interop.supported import refuse_unsupported
from nmt.artifacts.checkpoint import Weights, check_size, read_weights, write_tensors
from nmt.artifacts.rundir import RunDir
from nmt.base.checksum import NO_CHECKSUM
from nmt.base.errors import RunError
from nmt.base.files import new_folder, to_json, write_text
from nmt.base.special_tokens import BOS_ID, EOS_ID, PAD_ID
from nmt.config import Config
from nmt.config.model import ModelConfig
from nmt.data.tokens.sentencepiece_model import SPECIAL_TOKENS
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.selection import edited_formulas
from nmt.evaluation.model_card import direction_names, front_matter, license_of
from nmt.model.shapes import VOCABULARIES

_IDS = {"pad_token_id": PAD_ID, "eos_token_id": EOS_ID, "bos_token_id": BOS_ID, "decoder_start_token_id": BOS_ID}
_FIXED = {**_IDS, "forced_eos_token_id": None, "is_encoder_decoder": True, "torch_dtype": "float32"}
"""Values of config.json that are the same for each run."""

_ARCHITECTURES: dict[str, tuple[type[HfConfig], dict[str, Any]]] = {
    "post": (MarianConfig, {"model_type": "marian", "architectures": ["MarianMTModel"]}),
    "pre": (PegasusConfig, {"model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"]}),
}
"""By `model.norm_position`: the class of the values in config.json, and the names there."""


def export_hf(run: RunDir, out: Path, *, overwrite: bool = False) -> None:
    """Write the best model of `run` to the folder `out`, atomically.

    RunError if transformers has no architecture for such a model, or other formulas, or if `out` exists and may not be
    replaced.
    """
    config = run.config()
    if edited_formulas(run):
        raise RunError(
            "transformers does not have the formulas of this model",
            path=run.path,
            hint="formulas in nmt/model were edited before it was trained; train it with those that nmt came with",
        )
    refuse_unsupported(config.model, run.config_file, "transformers")
    path = run.usable_checkpoint()
    tokenizers = TokenizerPair.load(run.tokenizer)
    check_size(config.model, tokenizers, path)
    vocabularies = _vocabularies(tokenizers)
    vocab_size = len(vocabularies[0])
    kind, names = _ARCHITECTURES[config.model.norm_position]
    hf = _hf_config(kind, config.model, vocab_size)
    weights = to_hf(_with_rows(read_weights(path), vocab_size), hf, config.model)
    with new_folder(out, replace=partial(refuse_existing_hf, overwrite=overwrite)) as made:
        folder = HfFolder(made)
        write_tensors(folder.safetensors, weights, {**NO_CHECKSUM, "format": "pt"})  # required by transformers
        _write_json(folder.config_file, {**_FIXED, **names, **hf.model_dump(), "activation_dropout": hf.dropout})
        _write_json(folder.generation_file, _generation_config(config, tokenizers, vocab_size))
        _write_json(folder.tokenizer_file, _tokenizer_config(config, tokenizers))
        for file, tokens in zip((folder.vocab_file, folder.tgt_vocab_file), vocabularies, strict=False):
            _write_json(file, {token: number for number, token in enumerate(tokens)})
        folder.source_spm.write_bytes(tokenizers.src.model_bytes)
        folder.target_spm.write_bytes(tokenizers.tgt.model_bytes)
        write_text(folder.card, _card(out.name, run, config))


def refuse_existing_hf(path: Path, *, overwrite: bool) -> None:
    """Raise RunError if `path` exists, unless it is a folder such as `export_hf` writes, and `overwrite` is given."""

    def is_export(path: Path) -> bool:
        try:
            return not isinstance(HfFolder(path).config(), M2M100Config)
        except RunError:
            return False

    refuse_existing(path, is_export, "a Hugging Face folder of a Marian or Pegasus model", overwrite=overwrite)


def _vocabularies(tokenizers: TokenizerPair) -> list[list[str]]:
    """Return the tokens of vocab.json, and of target_vocab.json if there are two vocabularies, by id.

    transformers gives both embeddings the same size, so the smaller vocabulary is padded with unused tokens.
    """
    sides = [*map(hf_tokens, tokenizers.vocabularies().values())]
    size = max(map(len, sides))
    return [[*tokens, *(f"<unused {number}>" for number in range(len(tokens), size))] for tokens in sides]


def _with_rows(weights: Weights, num_rows: int) -> Weights:
    """Return `weights` with rows of zeros for unused tokens."""
    grown = dict(weights)
    for name in {*VOCABULARIES, "output_proj.bias"} & weights.keys():
        other_axes = (0, 0) * (weights[name].dim() - 1)
        grown[name] = torch.nn.functional.pad(weights[name], (*other_axes, 0, num_rows - len(weights[name])))
    return grown


def _hf_config(kind: type[HfConfig], model: ModelConfig, vocab_size: int) -> HfConfig:
    return kind(
        d_model=model.d_model,
        encoder_layers=model.encoder_layers,
        decoder_layers=model.decoder_layers,
        encoder_attention_heads=model.num_heads,
        decoder_attention_heads=model.num_heads,
        encoder_ffn_dim=model.d_ff,
        decoder_ffn_dim=model.d_ff,
        activation_function=next(name for name, ours in ACTIVATIONS.items() if ours == model.activation),
        max_position_embeddings=max(model.max_src_len, model.max_tgt_len),
        dropout=model.dropout,
        attention_dropout=model.attention_dropout,
        vocab_size=vocab_size,
        decoder_vocab_size=vocab_size,
        pad_token_id=PAD_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=BOS_ID,
        scale_embedding=True,
        share_encoder_decoder_embeddings=model.tied_embeddings == "all",
        tie_word_embeddings=model.tied_embeddings != "none",
    )


def _generation_config(config: Config, tokenizers: TokenizerPair, vocab_size: int) -> dict[str, Any]:
    """Return the contents of generation_config.json: nmt's search options, as far as transformers has them."""
    decoding = config.decoding
    unused = range(tokenizers.tgt.vocab_size, vocab_size)
    return {
        **_IDS,
        "forced_eos_token_id": None,
        "bad_words_ids": [[number] for number in sorted({BOS_ID, PAD_ID, *tokenizers.tgt.never_generated, *unused})],
        "max_length": config.model.max_tgt_len + 1,  # transformers counts the decoder start token
        "num_beams": decoding.beam_size,
        "length_penalty": decoding.length_penalty,
        **({"early_stopping": "never"} if decoding.beam_size > 1 else {}),
    }


def _tokenizer_config(config: Config, tokenizers: TokenizerPair) -> dict[str, Any]:
    unk, pad, _, eos = SPECIAL_TOKENS
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.data.src_lang,
        "target_lang": config.data.tgt_lang,
        "separate_vocabs": not tokenizers.joint,
        "unk_token": unk,
        "pad_token": pad,
        "eos_token": eos,
        "model_max_length": config.model.max_src_len,
        "clean_up_tokenization_spaces": False,
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_text(path, to_json(value, indent=2) + "\n")


def _card(name: str, run: RunDir, config: Config) -> str:
    """Return README.md: how to use the folder with transformers, and the run's model card."""
    use = (
        "    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer\n\n"
        f'    tokenizer = AutoTokenizer.from_pretrained("{name}")\n'
        f'    model = AutoModelForSeq2SeqLM.from_pretrained("{name}")\n'
        '    outputs = model.generate(**tokenizer(["text"], return_tensors="pt"))\n'
        "    print(tokenizer.batch_decode(outputs, skip_special_tokens=True))"
    )
    return front_matter(license_of(run.card)) + f"# {name}: {direction_names(config)}\n\n## Use\n\n{use}\n"
