"""Two directions that a tiny model learns in seconds: digits to their reverse (en to de), and to letters (en to fr)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.config import Config
from tests.tiny import tiny_values, write_digits

LETTERS = str.maketrans("0123456789", "abcdefghij")


def write_two_directions(folder: Path, num_train: int = 600) -> Path:
    """Write digits and their reverse (en to de), the same digits as letters (en to fr), and sets of both."""
    write_digits(folder, num_train, num_held_out=10)
    for split in ("train", "valid", "test"):
        rows = [line.split("\t")[0] for line in (folder / f"{split}.tsv").read_text().splitlines()]
        (folder / f"{split}-fr.tsv").write_text("".join(f"{row}\t{row.translate(LETTERS)}\n" for row in rows))
    return folder


def two_directions(folder: Path, train: Any = ({}, {}), **sections: Any) -> Config:
    return Config.model_validate(two_values(folder, train, **sections))


def two_values(folder: Path, train: Any = ({}, {}), **sections: Any) -> dict[str, Any]:
    def both(split: str, extra: Any) -> list[dict[str, Any]]:
        de, fr = {"tsv": str(folder / f"{split}.tsv")}, {"tsv": str(folder / f"{split}-fr.tsv"), "tgt_lang": "fr"}
        return [de | extra[0], fr | extra[1]]

    data: dict[str, Any] = {"src_lang": "en", "tgt_lang": "de", "train": both("train", train)}
    data |= {split: both(split, ({}, {})) for split in ("valid", "test")}
    model = {"d_model": 32, "num_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1}
    return tiny_values(folder, **{"model": model, **sections, "data": data | sections.get("data", {})})
