"""A task with words and sentences that a tiny model learns in seconds: numbers, spelled in letters."""

from __future__ import annotations

import random
from pathlib import Path

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
