"""A task that a tiny model learns in seconds: digit strings and their reverse."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from nmt.config import Config

MODEL = {
    "d_model": 48,
    "num_heads": 3,
    "d_ff": 96,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.0,
    "embedding_dropout": 0.0,
    "max_src_len": 32,
    "max_tgt_len": 32,
}
# Untrained models write up to their limit, so a limit just above the longest corpus saves most of a validation.
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "max_src_len": 16, "max_tgt_len": 12}

TRAINING = {
    "batch_tokens": 512,
    "max_updates": 12,
    "warmup_updates": 3,
    "validate_every": 4,
    "log_every": 2,
    "lr": 3e-3,
    "device": "cpu",
    "precision": "fp32",
    "threads": 1,
}


def write_digits(folder: Path, num_train: int = 3000, num_held_out: int = 40) -> Path:
    """train.tsv, valid.tsv and test.tsv: digits, and the same backwards."""
    draw = random.Random(7)
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", num_train), ("valid", num_held_out), ("test", num_held_out)):
        rows = ["".join(draw.choices("0123456789", k=draw.randint(3, 7))) for _ in range(count)]
        text = "".join(f"{row}\t{row[::-1]}\n" for row in rows)
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    return folder


def tiny_values(folder: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    """A configuration of the digits in `folder`, each section changed by the one given."""
    values: dict[str, Any] = {
        "data": {
            "src_lang": "en",
            "tgt_lang": "en",
            **{split: {"tsv": str(folder / f"{split}.tsv")} for split in ("train", "valid", "test")},
        },
        "tokenizer": {"type": "char", "vocab_size": 300, "max_sentences": 300},
        "model": MODEL,
        "training": TRAINING,
    }
    return {name: {**values.get(name, {}), **sections.get(name, {})} for name in {*values, *sections}}


def tiny_config(folder: Path, **sections: dict[str, Any]) -> Config:
    """As `tiny_values`, checked."""
    return Config.model_validate(tiny_values(folder, **sections))


def small_config(folder: Path, **sections: dict[str, Any]) -> Config:
    """As `tiny_config`, with one layer on each side and outputs of few tokens, for tests that need no good model.

    The tokenized corpus is kept in `folder`, so that runs with the same corpus share it, as runs of one folder do.
    """
    data = {"store_dir": str(folder / ".store")} | sections.get("data", {})
    return tiny_config(folder, **{**sections, "data": data, "model": SMALL | sections.get("model", {})})
