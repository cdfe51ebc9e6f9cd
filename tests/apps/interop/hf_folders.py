"""Hugging Face folders with small Marian models, made by `transformers` itself."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece

SYLLABLES = ("ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu", "ße", "ñu")
NUM_WORDS = (1, 9)


def sentences(count: int, seed: int, syllables: Sequence[str] = SYLLABLES) -> list[str]:
    """Sentences of made-up words."""
    draw = random.Random(seed)

    def word() -> str:
        return "".join(draw.choices(syllables, k=draw.randint(1, 4)))

    return [" ".join(word() for _ in range(draw.randint(*NUM_WORDS))) + draw.choice(".?!") for _ in range(count)]


def train_spm(texts: Sequence[str], path: Path, size: int, model_type: str = "unigram") -> list[str]:
    """Train a model with SentencePiece's own ids of the special tokens, as OPUS-MT does; return its tokens."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        model_type=model_type,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(i) for i in range(processor.vocab_size())]


def write_tokenizer(
    folder: Path, tags: Sequence[str] = (), *, separate: bool = False, added: Sequence[str] = ()
) -> int:
    """Write the tokenizer's files, as OPUS-MT has them: </s>, <unk>, tokens, tags, <pad>; return their number.

    Some tokens of each model are not in vocab.json. `added` are tokens that somebody added, with later ids.
    """
    folder.mkdir(parents=True, exist_ok=True)
    src = train_spm(sentences(300, 1), folder / "source.spm", 90)
    tgt = train_spm(sentences(300, 2, (*SYLLABLES[5:], "xa", "ye")), folder / "target.spm", 80)
    both = [src[3:-2], tgt[3:]] if separate else [[*src[3:-2], *tgt[3:]]] * 2
    size = max(len(set(pieces)) for pieces in both)  # transformers makes both embeddings of one size
    for name, pieces in zip(("vocab.json", "target_vocab.json"), both, strict=True):
        fill = [f"<fill {i}>" for i in range(size - len(set(pieces)))]
        tokens = ["</s>", "<unk>", *dict.fromkeys(pieces), *fill, *tags, "<pad>"]
        if separate or name == "vocab.json":
            (folder / name).write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    settings = {
        "source_lang": "en",
        "target_lang": "de",
        "separate_vocabs": separate,
        "tokenizer_class": "MarianTokenizer",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if added:
        from transformers import MarianTokenizer

        tokenizer = MarianTokenizer.from_pretrained(folder)
        tokenizer.add_tokens([*added])
        tokenizer.save_pretrained(folder)
    return len(tokens)


def make_folder(
    folder: Path,
    *,
    tags: Sequence[str] = (),
    seed: int = 1,
    spread: float = 1.6,
    eos: float = 4.5,
    added: Sequence[str] = (),
    padding: int = 0,
    **options: Any,
) -> Path:
    """Write a Marian model with random weights and its tokenizer; `options` are those of MarianConfig."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    separate = not options.get("share_encoder_decoder_embeddings", True)
    num_tokens = write_tokenizer(folder, tags, separate=separate, added=added)
    values = {
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40,
        "activation_function": "swish",
        "max_position_embeddings": 64,
        "scale_embedding": True,
    }
    ids = {"eos_token_id": 0, "pad_token_id": num_tokens - 1, "decoder_start_token_id": num_tokens - 1}
    config = MarianConfig(vocab_size=num_tokens + len(added) + padding, **ids, **{**values, **options})
    torch.manual_seed(seed)
    model = MarianMTModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.normal_(0.0, spread * parameter.shape[-1] ** -0.5)
                if name.endswith("norm.weight"):
                    parameter.add_(1.0)
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] += eos  # so that outputs end
    model.generation_config.bad_words_ids = [[config.pad_token_id]]
    model.generation_config.num_beams = 4
    model.generation_config.max_length = 64
    model.save_pretrained(folder)
    return folder
