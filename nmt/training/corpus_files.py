"""The text files of one configuration, and the sentences held out of them for validation and test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from nmt.config import Config
from nmt.config.sections import ParallelFiles
from nmt.data.corpus import SentencePair, paths_of, read_parallel, refuse_pipes
from nmt.data.holdout import Holdout, choose_holdout
from nmt.data.report import SPLITS, Split
from nmt.files import FileHashes, write_text


class Corpus:
    """The text files of one configuration.

    Choosing sentences to hold out takes two passes over the training files, so the choice is saved in `store_root`.
    """

    def __init__(self, config: Config, store_root: Path | None = None):
        """Raise DataError if one of the files is a pipe. Without `store_root` the held-out choice is not saved."""
        self.config = config
        data = config.data
        self.named: dict[Split, ParallelFiles] = {
            split: files for split, files in zip(SPLITS, (data.valid, data.test), strict=True) if files is not None
        }
        self.missing: list[Split] = [split for split in SPLITS if split not in self.named]
        refuse_pipes(self.files())
        self._store_root = store_root

    def files(self) -> list[Path]:
        """Return all files of the corpus."""
        return [path for files in (self.config.data.train, *self.named.values()) for path in paths_of(files)]

    def identity(self, store_root: Path) -> dict[str, object]:
        """Return everything that determines the text of each set; hashes of files are cached in `store_root`."""
        hashes, data = FileHashes(store_root / "hashes.json"), self.config.data
        return {
            "files": [hashes.sha256(path) for path in self.files()],
            "columns": [files.columns for files in (data.train, *self.named.values())],
            "held_out": [self.missing, data.holdout_size, data.holdout_seed] if self.missing else [],
        }

    def pairs(self, split: Split) -> Iterator[SentencePair]:
        """Yield the pairs of a validation or test set; those with an empty side only if the set has its own files."""
        return read_parallel(self.named[split]) if split in self.named else iter(self._held_out[split])

    def train_pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs to train on, including those with an empty side."""
        pairs = read_parallel(self.config.data.train)
        if not self.missing:
            return pairs
        return (pair for pair in pairs if self._holdout.split_of(pair.src) == "train")

    @cached_property
    def _holdout(self) -> Holdout:
        if self._store_root is None:
            return self._choose()
        sources = ((split, pair.src) for split, pairs in self._held_out.items() for pair in pairs)
        return Holdout.from_sources(self.config.data.holdout_seed, sources)

    def _choose(self) -> Holdout:
        data = self.config.data
        sources = (pair.src for pair in whole(read_parallel(data.train)))
        return choose_holdout(sources, dict.fromkeys(self.missing, data.holdout_size), data.holdout_seed)

    @cached_property
    def _held_out(self) -> dict[Split, list[SentencePair]]:
        """Return the held-out pairs: those saved in the store's root, else newly chosen and saved."""
        kept = self._read_held_out()
        if kept is not None:
            return kept
        holdout = self._choose()
        held_out: dict[Split, list[SentencePair]] = {split: [] for split in self.missing}
        for pair in whole(read_parallel(self.config.data.train)):
            split = holdout.split_of(pair.src)
            if split in held_out:
                held_out[split].append(pair)
        if self._store_root is not None:
            write_text(self._held_out_file(self._store_root), json.dumps(held_out, ensure_ascii=False))
        return held_out

    def _read_held_out(self) -> dict[Split, list[SentencePair]] | None:
        """Return the saved held-out pairs; None if there are none, or they cannot be read."""
        if self._store_root is None or not self._store_root.is_dir():
            return None
        try:
            kept = json.loads(self._held_out_file(self._store_root).read_text(encoding="utf-8"))
            return {split: [SentencePair(str(s), str(t), int(n)) for s, t, n in kept[split]] for split in self.missing}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _held_out_file(self, store_root: Path) -> Path:
        identity = json.dumps(self.identity(store_root), sort_keys=True)
        return store_root / f"held-out-{hashlib.sha256(identity.encode()).hexdigest()[:24]}.json"


def whole(pairs: Iterator[SentencePair]) -> Iterator[SentencePair]:
    """Yield the pairs that have text on both sides."""
    return (pair for pair in pairs if pair.src and pair.tgt)
