"""A run with a phrase table, made in seconds from the language of tests/words.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.artifacts.rundir import RunDir
from nmt.config import Config
from nmt.training.run import start_run
from tests.words import words_config, write_words


def phrases_config(
    folder: Path, num_train: int = 600, mono_tgt: str | None = None, training: dict[str, Any] | None = None
) -> Config:
    """Return the configuration of a run, in whose data some words are names; it has a single update by default."""
    write_words(folder, num_train)
    training = training or {"max_updates": 1, "validate_every": 1, "log_every": 1, "warmup_updates": 0}
    tokenizer = {"type": "unigram", "vocab_size": 400, "user_symbols": ["<one>", "⟦1⟧"]}
    data = {"src_lang": "de", "tgt_lang": "en", "mono_tgt": mono_tgt}
    return words_config(folder, training=training, tokenizer=tokenizer, data=data)


def make_phrases_run(folder: Path, mono_tgt: str | None = None) -> RunDir:
    """Train a run whose phrase table is better than its network."""
    start_run(phrases_config(folder / "corpus", mono_tgt=mono_tgt), folder / "run")
    return RunDir(folder / "run")
