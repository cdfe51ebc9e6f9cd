"""A language of sixty words, and another that writes them backwards: what a tiny model learns."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from nmt.config import Config
from tests.tiny import tiny_config


def make_words(count: int = 60) -> list[str]:
    draw = random.Random(3)
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = ("".join((draw.choice("bdfgklmnprstvz"), draw.choice("aeiou"))) for _ in range(draw.randint(2, 3)))
        words["".join(syllables)] = None
    return list(words)


WORDS = make_words()


def write_words(folder: Path, num_train: int = 2000, min_words: int = 3) -> Path:
    """Write train.tsv, valid.tsv and test.tsv: some words, and the same words, each backwards."""
    draw = random.Random(7)
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", num_train), ("valid", 30), ("test", 30)):
        rows = [draw.choices(WORDS, k=draw.randint(min_words, 6)) for _ in range(count)]
        text = "".join(f"{' '.join(row)}.\t{' '.join(word[::-1] for word in row)}.\n" for row in rows)
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    return folder


def words_config(folder: Path, **sections: dict[str, Any]) -> Config:
    """Return a configuration, each section changed by the one given."""
    values: dict[str, dict[str, Any]] = {
        "data": {"src_lang": "de", "tgt_lang": "en"},
        "tokenizer": {"type": "unigram", "vocab_size": 400},
        "model": {"max_src_len": 64, "max_tgt_len": 48},
    }
    changed = {name: {**values.get(name, {}), **sections.get(name, {})} for name in {*values, *sections}}
    return tiny_config(folder, **changed)
