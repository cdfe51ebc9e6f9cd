"""The models that tests translate with: runs in tests/models, trained to the end by scripts/make_test_models.py."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nmt.artifacts.run_records import Essentials
from nmt.artifacts.rundir import RunDir
from nmt.base.files import short_sha256
from nmt.config import Config
from tests.letters import to_letters, write_letters
from tests.tiny import MODEL, tiny_config, write_digits
from tests.two_directions import two_directions, write_two_directions
from tests.words import words_config, write_words

MODELS = Path(__file__).parent / "models"
CORPUS = "corpus"
"""The folder that the configuration of a stored run names, relative to no particular place."""


MakePair = Callable[[random.Random, Callable[[], str]], tuple[str, str]]
"""Makes a pair of texts from a random generator and a function that draws numbers of one to five digits."""


class Recipe(NamedTuple):
    """How a model is made: `write` its corpus into a folder, and train with `config` of that folder."""

    write: Callable[[Path], object]
    config: Callable[..., Config]
    sections: Mapping[str, dict[str, Any]]


def training(updates: int) -> dict[str, Any]:
    """Settings that leave one checkpoint, the last, in the run."""
    every = {"validate_every": updates, "log_every": updates // 4, "average_checkpoints": 0}
    rate = {"warmup_updates": 50, "lr": 4e-3, "schedule": "wsd", "cooldown_share": 0.6}
    return {"max_updates": updates, "batch_tokens": 1024, **rate, **every}


def _write_digits(folder: Path) -> None:
    _add(write_digits(folder), "train", 1500, lambda draw, number: (row := number(), row[::-1]))


def _write_two_directions(folder: Path) -> None:
    write_two_directions(folder, 5000)
    _add(folder, "train", 1500, lambda draw, number: (row := number(), row[::-1]))
    _add(folder, "train-fr", 1500, lambda draw, number: (row := number(), to_letters(row)))


def _write_letters(folder: Path) -> None:
    def without_stop(draw: random.Random, number: Callable[[], str]) -> tuple[str, str]:
        text = " ".join(number() for _ in range(draw.randint(1, 4)))
        return text, to_letters(text)

    _add(write_letters(folder), "train", 3000, without_stop)


def _write_loops(folder: Path) -> None:
    _write(folder, 600, lambda draw, number: (number(), "ab" * 10))


def _write_tagged(folder: Path) -> None:
    def pair(draw: random.Random, number: Callable[[], str]) -> tuple[str, str]:
        text = " ".join(f"{number()}." for _ in range(draw.randint(1, 4)))
        return draw.choice([(f"<spell> {text}", to_letters(text)), (f"<copy> {text}", text)])

    _write(folder, 4000, pair)


def _write(folder: Path, num_train: int, pair: MakePair) -> None:
    for split, count in (("train", num_train), ("valid", 20), ("test", 20)):
        _add(folder, split, count, pair)


def _add(folder: Path, name: str, count: int, pair: MakePair) -> None:
    """Add pairs made of random numbers to a file."""
    draw = random.Random(f"{name} {count}")
    folder.mkdir(parents=True, exist_ok=True)
    pairs = (pair(draw, lambda: "".join(draw.choices("0123456789", k=draw.randint(1, 5)))) for _ in range(count))
    with open(folder / f"{name}.tsv", "a", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{src}\t{tgt}\n" for src, tgt in pairs)


SMALL = {**MODEL, "d_model": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
RECIPES = {
    # digits to their reverse
    "digits": Recipe(_write_digits, tiny_config, {"tokenizer": {"max_sentences": 3000}, "training": training(800)}),
    # for de, digits to their reverse; for fr, to letters
    "two-directions": Recipe(
        _write_two_directions,
        two_directions,
        {"model": {**SMALL, "d_ff": 64, "encoder_layers": 2, "decoder_layers": 2}, "training": training(1000)},
    ),
    # words of digits to letters; copies placeholders
    "letters": Recipe(
        _write_letters,
        tiny_config,
        {"data": {"src_lang": "de", "protect": True, "placeholder_share": 0.9}, "training": training(800)},
    ),
    # words to words backwards
    "words": Recipe(
        lambda folder: write_words(folder, 6000, min_words=1),
        words_config,
        {"training": training(1000)},
    ),
    # "ab" ten times, whatever the source is
    "loops": Recipe(_write_loops, tiny_config, {"model": SMALL, "training": training(200)}),
    # digits to letters after <spell>, to themselves after <copy>
    "tags": Recipe(
        _write_tagged,
        tiny_config,
        {"tokenizer": {"user_symbols": ["<spell>", "<copy>"]}, "model": SMALL, "training": training(600)},
    ),
}


def copy_run(name: str, path: Path, corpus: Path, disturbance: float | None = None) -> Path:
    """Copy the stored run `name` to `path` and write its corpus into `corpus`, where its configuration names it.

    Multiply each weight by 1 + `disturbance` (default: $NMT_TEST_DISTURB, or 0) times normal noise.
    """
    RECIPES[name].write(corpus)
    shutil.copytree(MODELS / name, path)
    config = path / "config.yaml"
    text = config.read_text(encoding="utf-8").replace(f": {CORPUS}/", f": {corpus.as_posix()}/")
    config.write_text(text, encoding="utf-8", newline="\n")
    run = RunDir(path)  # a training also writes what translating reads of the configuration
    essentials = Essentials.of(run.config()).model_copy(update={"config_sha256": short_sha256(config)})
    run.write_json(run.essentials_file, essentials)
    disturbance = float(os.environ.get("NMT_TEST_DISTURB", 0)) if disturbance is None else disturbance
    if disturbance:
        _disturb(path, disturbance)
    return path


def add_last_checkpoint(run: RunDir) -> str:
    """Give a copied run one more checkpoint, its last but not its best, with equal weights; return its name."""
    index, name = run.index(), "step-00009999"
    shutil.copy2(run.best_checkpoint(), run.checkpoint(name))
    scores = {**index.checkpoints, name: {"loss": 9.0, "bleu": 0.0, "chrf": 0.0}}
    run.write_json(run.index_file, index.model_copy(update={"last": name, "checkpoints": scores}))
    return name


def _disturb(path: Path, disturbance: float) -> None:
    import torch

    from nmt.artifacts.checkpoint import read_weights, save_weights

    generator = torch.Generator().manual_seed(1)
    for file in sorted((path / "checkpoints").glob("*.safetensors")):
        weights = read_weights(file)
        noise = {name: torch.randn(each.shape, generator=generator) for name, each in weights.items()}
        save_weights(file, {name: each * (1 + disturbance * noise[name]) for name, each in weights.items()})
