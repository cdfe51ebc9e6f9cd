"""Hugging Face folders with small M2M-100 and NLLB models, made by `transformers` itself."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tests.apps.interop.hf_folders import SYLLABLES, sentences, train_spm

NUM_LANGUAGES = 100
"""Languages that M2M100Tokenizer has, whatever the folder says."""

TEXTS = [*sentences(300, 1), *sentences(300, 2, (*SYLLABLES[5:], "xa", "ye"))]


def transformers_version() -> int:
    import transformers

    return int(transformers.__version__.partition(".")[0])


def _write_fast_tokenizer(folder: Path, model_type: str, added: Sequence[str], code: str) -> int:
    """Write tokenizer.json alone, as transformers 5 does; return the number of its tokens."""
    from transformers import NllbTokenizer
    from transformers.models.nllb import tokenization_nllb

    with tempfile.TemporaryDirectory() as name:
        train_spm(TEXTS, Path(name, "sentencepiece.bpe.model"), 130, model_type)
        codes = [*tokenization_nllb.FAIRSEQ_LANGUAGE_CODES, *([code] if code else [])]
        tokenizer = NllbTokenizer.from_pretrained(name, extra_special_tokens=codes)
    tokenizer.add_tokens([*added])
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def write_tokenizer(
    folder: Path, kind: Literal["m2m100", "nllb"], model_type: str, added: Sequence[str] = (), code: str = ""
) -> int:
    """Write the tokenizer's files; return the number of rows that the model needs.

    `added` are tokens of text that somebody added, `code` that of a language.
    """
    from transformers import M2M100Tokenizer, NllbTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    if kind == "nllb" and transformers_version() > 4:
        return _write_fast_tokenizer(folder, model_type, added, code)
    spm = folder / "sentencepiece.bpe.model"
    pieces = train_spm(TEXTS, spm, 130, model_type)  # one model for all languages
    if kind == "nllb":
        tokenizer = NllbTokenizer(str(spm))
        tokenizer.add_tokens([*added])
        if code:  # in a list of its own: transformers would append it to that of all tokenizers
            codes = [*tokenizer.additional_special_tokens, code]
            tokenizer.add_special_tokens({"additional_special_tokens": codes})
        tokenizer.save_pretrained(folder)
        return len(tokenizer)
    # As published: another order than SentencePiece's, without some of its tokens, with one that it lacks.
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *reversed(pieces[3:-3]), "madeup"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    tokenizer = M2M100Tokenizer(str(folder / "vocab.json"), str(spm))
    tokenizer.add_tokens([*added])
    tokenizer.save_pretrained(folder)
    return len(tokens) + NUM_LANGUAGES + 8


def make_m2m100_folder(
    folder: Path,
    kind: Literal["m2m100", "nllb"] = "m2m100",
    *,
    model_type: str = "bpe",
    seed: int = 1,
    eos: float = 4.0,
    added: Sequence[str] = (),
    code: str = "",
    padding: int = 0,
    **options: Any,
) -> Path:
    """Write a model with random weights and its tokenizer; `options` are those of M2M100Config."""
    import torch
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    values = {
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40,
        "max_position_embeddings": 64,
    }
    vocab_size = write_tokenizer(folder, kind, model_type, added, code) + padding
    config = M2M100Config(vocab_size=vocab_size, **{**values, **options})
    torch.manual_seed(seed)
    model = M2M100ForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, 0.4 if name == "model.shared.weight" else 1.6 * parameter.shape[-1] ** -0.5)
            if name.endswith("norm.weight"):
                parameter.add_(1.0)
        row = model.model.shared.weight[config.eos_token_id]
        model.model.decoder.layer_norm.bias += eos * row / row.square().sum()  # so that outputs end
    model.generation_config.num_beams = 5
    model.generation_config.max_length = 64
    model.save_pretrained(folder)
    return folder
