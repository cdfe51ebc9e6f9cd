"""Translations of real sentences that are wrong in ways that a seed decides."""

from __future__ import annotations

import random
from pathlib import Path

SENTENCES = (Path(__file__).parents[2] / "data" / "demo-en-zh" / "test.tsv").read_text(encoding="utf-8").splitlines()


def english(count: int) -> list[str]:
    """Return the first `count` English sentences of the demo's test set."""
    return [line.split("\t")[0] for line in SENTENCES[:count]]


def worsen(texts: list[str], share: float, seed: int = 1) -> list[str]:
    """Return the texts without `share` of their words."""
    draw = random.Random(seed)
    return [" ".join(word for word in text.split() if draw.random() >= share) for text in texts]


def write_lines(path: Path, lines: list[str]) -> Path:
    """Write one line each; return the path."""
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path
