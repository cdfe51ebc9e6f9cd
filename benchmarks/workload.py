"""The workload shared by all systems: one corpus, one joint vocabulary, one model size, token ids in files."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from harness import ROOT, clean_environment, say

from nmt.data.tokens.tokenizer import TokenizerPair

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Size:
    """Model and batches; `batch_tokens` counts sentences x longest side, padding included."""

    vocab_size: int = 8000
    d_model: int = 256
    num_heads: int = 4
    d_ff: int = 1024
    layers: int = 3
    dropout: float = 0.1
    label_smoothing: float = 0.1
    batch_tokens: int = 4096
    max_len: int = 1024  # tokens; the longest forced output. All sentences of the corpus are much shorter


FULL = Size()
QUICK = Size(vocab_size=400, d_model=32, num_heads=2, d_ff=64, layers=1, batch_tokens=512, max_len=64)


@dataclass(frozen=True)
class Workload:
    """A folder with the text, the tokenizer and the ids of every split."""

    folder: Path
    size: Size
    name: str
    src_lang: str
    tgt_lang: str

    def text(self, split: str, side: str) -> Path:
        """Return the path of the sentences of `split`, one per line."""
        return self.folder / f"{split}.{side}"

    def ids(self, split: str, side: str) -> Path:
        """Return the path of the same sentences as space-separated token ids, without bos and eos."""
        return self.folder / f"{split}.{side}.ids"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's folder."""
        return self.folder / "tokenizer"

    def lines(self, split: str, side: str) -> list[str]:
        """Return the sentences of `split`."""
        return self.text(split, side).read_text(encoding="utf-8").split("\n")[:-1]

    def facts(self) -> dict[str, Any]:
        """Return the facts to store with the figures."""
        return {"corpus": self.name, **asdict(self.size)}

    def config(self, training: dict[str, Any]) -> dict[str, Any]:
        """Return nmt's configuration for the workload, with `training` for the rest."""
        size = self.size
        files = {split: {"src": str(self.text(split, "src")), "tgt": str(self.text(split, "tgt"))} for split in SPLITS}
        model = {key: getattr(size, key) for key in ("d_model", "num_heads", "d_ff", "dropout")}
        layers = {"encoder_layers": size.layers, "decoder_layers": size.layers}
        lens = {"max_src_len": size.max_len, "max_tgt_len": size.max_len}
        langs = {"src_lang": self.src_lang, "tgt_lang": self.tgt_lang}
        return {
            "data": {**langs, **files, "store_dir": str(self.folder / "store")},
            "tokenizer": {"type": "bpe", "vocab_size": size.vocab_size, "path": str(self.tokenizer)},
            "model": {**model, **layers, **lens, "embedding_dropout": size.dropout, "tied_embeddings": "all"},
            "training": {"batch_tokens": size.batch_tokens, "label_smoothing": size.label_smoothing, **training},
        }


def prepare(cache: Path, quick: bool) -> Workload:
    """Return Multi30k German to English if available, else (or if `quick`) a generated corpus; cached in `cache`."""
    size = QUICK if quick else FULL
    source = None if quick else find_multi30k()
    key = hashlib.sha256(f"{size} {source} 1".encode()).hexdigest()[:10]
    if source is None:
        workload = Workload(cache.resolve() / f"generated-{key}", size, "generated", "x", "y")
    else:
        workload = Workload(cache.resolve() / f"multi30k-{key}", size, "Multi30k de-en", "de", "en")
    if not (workload.folder / "ready").exists():
        _make(workload, source, quick)
    return workload


def find_multi30k() -> Path | None:
    """`$NMT_DATA/multi30k-de-en`, or that of ../shared/data beside the checkout."""
    folder = Path(os.environ.get("NMT_DATA") or ROOT.parent / "shared" / "data") / "multi30k-de-en"
    return folder if (folder / "train.de").is_file() else None


def _make(workload: Workload, source: Path | None, quick: bool) -> None:
    shutil.rmtree(workload.folder, ignore_errors=True)
    workload.folder.mkdir(parents=True)
    if source is None:
        say(f"no Multi30k: generating a corpus in {workload.folder}" if not quick else "generating a corpus")
        generate(workload, dict(zip(SPLITS, (600, 20, 30) if quick else (29_000, 500, 1_000), strict=True)), quick)
    else:
        for split in SPLITS:
            name = "test2016" if split == "test" else split
            shutil.copyfile(source / f"{name}.de", workload.text(split, "src"))
            shutil.copyfile(source / f"{name}.en", workload.text(split, "tgt"))
    _train_tokenizer(workload)
    tokenizers = TokenizerPair.load(workload.tokenizer)
    for split in SPLITS:
        for side, tokenizer in (("src", tokenizers.src), ("tgt", tokenizers.tgt)):
            rows = tokenizer.encode_batch(workload.lines(split, side))
            text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
            workload.ids(split, side).write_text(text, encoding="utf-8")
    (workload.folder / "ready").touch()


def _train_tokenizer(workload: Workload) -> None:
    config = workload.config({})
    del config["tokenizer"]["path"]
    file = write_config(workload.folder / "vocab.yaml", config)
    command = [sys.executable, "-m", "nmt", "vocab", "--config", str(file), "--output", str(workload.tokenizer)]
    subprocess.run(command, check=True, env=clean_environment(), stderr=subprocess.DEVNULL)


def write_config(path: Path, config: dict[str, Any]) -> Path:
    """Write `config` as YAML."""
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def generate(workload: Workload, counts: dict[str, int], quick: bool) -> None:
    """Generate sentences of made-up words, as long as image captions, translated word by word with swapped pairs.

    Words are as frequent as in real text: the n-th in proportion to 1 / (n + 2).
    """
    draw = random.Random(1)
    num_words = 300 if quick else 12_000
    lexicons = [_words(draw, num_words) for _ in range(2)]
    weights = [1 / (rank + 3) for rank in range(num_words)]
    for split, count in counts.items():
        sides: tuple[list[str], list[str]] = ([], [])
        for _ in range(count):
            length = max(3, round(draw.gauss(12, 4)))
            chosen = draw.choices(range(num_words), weights, k=length)
            swapped = [i for at in range(0, length, 2) for i in reversed(chosen[at : at + 2])]
            for side, lexicon, indices in zip(sides, lexicons, (chosen, swapped), strict=True):
                side.append(" ".join(lexicon[i] for i in indices) + " .\n")
        for name, lines in zip(("src", "tgt"), sides, strict=True):
            workload.text(split, name).write_text("".join(lines), encoding="utf-8")


def _words(draw: random.Random, count: int) -> list[str]:
    """Return `count` different pronounceable words."""
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = (draw.choice("bdfghklmnprstvz") + draw.choice("aeiou") for _ in range(draw.randint(1, 4)))
        words["".join(syllables) + draw.choice(["", "n", "r", "s", "t"])] = None
    return list(words)
