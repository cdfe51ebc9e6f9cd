"""The text files of one configuration, and the sentences held out of them for validation and test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from nmt.config import Config
from nmt.config.sections import FORMS, DataConfig, ParallelFiles
from nmt.data.corpus import SentencePair, as_corpora, paths_of, read_parallel, refuse_pipes
from nmt.data.holdout import Holdout, choose_holdout
from nmt.data.report import SPLITS, Split
from nmt.errors import ConfigError
from nmt.files import FileHashes, write_text


class Corpus:
    """The text files of one configuration.

    Choosing sentences to hold out takes two passes over the training files, so the choice is saved in `store_root`.
    """

    def __init__(self, config: Config, store_root: Path | None = None):
        """Raise DataError if one of the files is a pipe, ConfigError for a key that has no effect yet.

        Without `store_root` the held-out choice is not saved.
        """
        self.config = config
        data = config.data
        refuse_unsupported(data)
        self.train = data.corpora("train")
        self.named: dict[Split, tuple[ParallelFiles, ...]] = {
            split: corpora for split in SPLITS if (corpora := data.corpora(split))
        }
        self.missing: list[Split] = [split for split in SPLITS if split not in self.named]
        refuse_pipes(self.files())
        self._store_root = store_root

    def files(self) -> list[Path]:
        """Return all files of the corpus."""
        return [path for corpora in (self.train, *self.named.values()) for path in paths_of(corpora)]

    def identity(self, store_root: Path) -> dict[str, object]:
        """Return everything that determines the text of each set; hashes of files are cached in `store_root`."""
        hashes, data = FileHashes(store_root / "hashes.json"), self.config.data
        return {
            "files": [hashes.sha256(path) for path in self.files()],
            "columns": [files.columns for corpora in (self.train, *self.named.values()) for files in corpora],
            **self._forms(),
            "held_out": [self.missing, data.holdout_size, data.holdout_seed] if self.missing else [],
        }

    def _forms(self) -> dict[str, object]:
        """Return how the files of each set are read; nothing for sets of one corpus in a plain form.

        Configurations that name one corpus per set keep the identity, and the stores, that they have always had.
        """
        sets: list[tuple[str, tuple[ParallelFiles, ...]]] = [("train", self.train), *self.named.items()]
        if all(len(corpora) == 1 and _is_plain(corpora[0]) for _, corpora in sets):
            return {}
        return {"forms": {name: [_form_of(files) for files in corpora] for name, corpora in sets}}

    def pairs(self, split: Split) -> Iterator[SentencePair]:
        """Yield the pairs of a validation or test set; those with an empty side only if the set has its own files."""
        return read_parallel(self.named[split]) if split in self.named else iter(self._held_out[split])

    def train_pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs to train on, including those with an empty side."""
        pairs = read_parallel(self.train)
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
        sources = (pair.src for pair in whole(read_parallel(self.train)))
        return choose_holdout(sources, dict.fromkeys(self.missing, data.holdout_size), data.holdout_seed)

    @cached_property
    def _held_out(self) -> dict[Split, list[SentencePair]]:
        """Return the held-out pairs: those saved in the store's root, else newly chosen and saved."""
        kept = self._read_held_out()
        if kept is not None:
            return kept
        holdout = self._choose()
        held_out: dict[Split, list[SentencePair]] = {split: [] for split in self.missing}
        for pair in whole(read_parallel(self.train)):
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
            return {
                split: [SentencePair(str(src), str(tgt), *map(int, place)) for src, tgt, *place in kept[split]]
                for split in self.missing
            }
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _held_out_file(self, store_root: Path) -> Path:
        identity = json.dumps(self.identity(store_root), sort_keys=True)
        return store_root / f"held-out-{hashlib.sha256(identity.encode()).hexdigest()[:24]}.json"


def refuse_unsupported(data: DataConfig) -> None:
    """Raise ConfigError for a key of a corpus that is read, but has no effect on training yet."""
    for name, given in (("train", data.train), ("valid", data.valid), ("test", data.test)):
        for files in () if given is None else as_corpora(given):
            languages = () if files.form in ("tmx", "xliff") else ("src_lang", "tgt_lang")
            for key in ("weight", "tag", *languages):
                if getattr(files, key) is not None:
                    hint = "leave it out" + ("" if key != "weight" else "; all pairs count alike")
                    raise ConfigError(f"{key} of a corpus of data.{name} is not supported yet", hint=hint)


def _is_plain(files: ParallelFiles) -> bool:
    """Return whether a corpus has no other keys than src and tgt, or tsv and columns by number."""
    plain = ("src", "tgt", "tsv", "columns", "src_lang", "tgt_lang")
    changed = {name for name, field in type(files).model_fields.items() if getattr(files, name) != field.default}
    return changed.issubset(plain) and all(isinstance(column, int) for column in files.columns)


def _form_of(files: ParallelFiles) -> dict[str, object]:
    """Return the form of a corpus and every key that has a meaning for it, but no file name."""
    keys = files.model_dump(exclude={"tgt", *FORMS})
    return {"form": files.form} | {key: value for key, value in keys.items() if files.uses(key)}


def whole(pairs: Iterator[SentencePair]) -> Iterator[SentencePair]:
    """Yield the pairs that have text on both sides."""
    return (pair for pair in pairs if pair.src and pair.tgt)
