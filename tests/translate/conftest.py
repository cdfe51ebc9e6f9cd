"""Models for tests of what stands around the search."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.tiny import tiny_config

LETTERS = dict(zip("0123456789", "abcdefghij", strict=True))


def to_letters(digits: str) -> str:
    """What the model is to say: 0 is a, 1 is b, …; all else stays."""
    return "".join(LETTERS.get(character, character) for character in digits)


def write_letters(folder: Path, num_train: int = 3000) -> Path:
    """A corpus without any span: words of digits, and the same in letters, a full stop after each sentence."""
    draw = random.Random(5)
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", num_train), ("valid", 40), ("test", 100)):
        rows = [
            " ".join("".join(draw.choices("0123456789", k=2)) for _ in range(draw.randint(1, 3))) for _ in range(count)
        ]
        text = "".join(f"{row}.\t{to_letters(row)}.\n" for row in rows)
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def letters_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt to spell digits as letters, and to copy placeholders."""
    from nmt.training.train import start_run

    corpus = write_letters(tmp_path_factory.mktemp("letters"))
    path = tmp_path_factory.mktemp("runs") / "letters"
    config = tiny_config(
        corpus,
        data={"src_lang": "de", "protect": True, "placeholder_share": 0.9},
        training={"max_updates": 400, "warmup_updates": 50, "validate_every": 200, "log_every": 200},
    )
    assert start_run(config, path, lambda line: None)
    return path
