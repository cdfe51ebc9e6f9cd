"""The corpus of a configuration: its files, the sentences held out of them, and the pairs that its filters keep."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import TypeAdapter

from nmt.base.errors import DataError
from nmt.base.files import sha256_of, write_text
from nmt.base.languages import Direction
from nmt.base.machine import bounded, num_cores
from nmt.config import Config
from nmt.config.corpora import FORMS, ParallelFiles
from nmt.config.data import DataConfig
from nmt.config.filters import Filters
from nmt.data.check.profile import expect
from nmt.data.check.rules import VERSION, in_order
from nmt.data.check.scripts import identifier_version
from nmt.data.check.stream import DroppedRows, check_pairs
from nmt.data.check.summary import warn_of_losses
from nmt.data.read.lines import open_text
from nmt.data.read.pairs import SentencePair, all_paths, paths_of, read_parallel, refuse_pipes
from nmt.data.store.holdout import HOLDOUT_SEED, choose_groups, choose_sentences, hash_of
from nmt.data.store.report import SPLITS, CorpusCounts, Split
from nmt.data.text.characters import VERSION as CHARACTERS_VERSION

log = logging.getLogger(__name__)

LOG_SECONDS = 30.0
PAIRS_BETWEEN_LOOKS = 4096  # at the clock
# The held-out pairs of each set, as they are saved.
_SAVED = TypeAdapter(dict[Split, list[SentencePair]])
_SAMPLE_PAIRS = 20_000  # that the check before a training looks at: within about a second
# Rules that many good pairs break, so that the check before a training does not mention them.
_OFTEN_HARMLESS = {"empty", "repeated_source", "punctuation_mismatch", "number_mismatch", "markup", "near_twin"}


class Corpus:
    """The text files of one configuration, without the training pairs that `data.filters` drops.

    Sentences are held out of the pairs that the filters keep. Choosing them takes two passes over the training files,
    so the choice is saved in `store_root`. The filters run once, when they are first needed.
    """

    def __init__(self, config: Config, store_root: Path | None = None):
        """Raise DataError if one of the files is a pipe. Without `store_root`, the held-out choice is not saved."""
        self.config = config
        data = config.data
        self.train = data.corpora("train")
        self.named: dict[Split, tuple[ParallelFiles, ...]] = {
            split: corpora for split in SPLITS if (corpora := data.corpora(split))
        }
        self.missing: list[Split] = [split for split in SPLITS if split not in self.named]
        # The corpora of each set that has files of its own.
        self._sets = {"train": self.train} | self.named
        self._filters = [data.filters_of(files) for files in self.train]
        self.has_filters = any(filters != Filters() for filters in self._filters)
        refuse_pipes(all_paths(data))
        self._store_root = store_root
        self._read = partial(read_parallel, characters=data.characters)
        self._directions = {
            name: [data.direction_of(files) for files in corpora] for name, corpora in self._sets.items()
        }

    def files(self) -> list[Path]:
        """Return all files of the corpus."""
        return [path for corpora in self._sets.values() for path in paths_of(corpora)]

    @cached_property
    def _hashes(self) -> list[str]:
        return [sha256_of(path) for path in self.files()]

    def identity(self) -> dict[str, object]:
        """Return everything that determines the pairs of each set. DataError if a file cannot be opened."""
        for path in all_paths(self.config.data):
            open_text(path).close()  # a resumed run has not opened them before
        data = self.config.data
        identifies = any(filters.wrong_language is not None for filters in self._filters)
        versions = [VERSION, identifier_version() if identifies else ""]
        return {
            "files": self._hashes,
            "forms": {name: list(map(_form_of, corpora)) for name, corpora in self._sets.items()},
            "held_out": [self.missing, data.holdout_size, data.holdout_groups, HOLDOUT_SEED] if self.missing else [],
            "characters": CHARACTERS_VERSION if data.characters == "normalized" else data.characters,
            "mono_tgt": data.mono_tgt and sha256_of(Path(data.mono_tgt)),
            "filters": [*versions, *(each.model_dump() for each in self._filters)] if self.has_filters else [],
        }

    def pairs(self, split: Split) -> Iterator[SentencePair]:
        """Yield the pairs of a validation or test set; those with an empty side only if the set has its own files."""
        return self._read(self.named[split]) if split in self.named else iter(self._held_out[split])

    def train_pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs to train on, including those with an empty side."""
        pairs = self._without_held_out(self._kept_pairs())
        return pairs if self._twins is None else self._twins.kept(pairs)

    def _kept_pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs of the training files that the filters keep, held-out ones included."""
        pairs = self._read(self.train)
        return self.dropped.kept(pairs) if self.has_filters else pairs

    def _without_held_out(self, pairs: Iterator[SentencePair]) -> Iterator[SentencePair]:
        """Yield the pairs that are not held out.

        With several directions, a sentence that is held out in one direction is left out of all, on both sides.
        """
        if not self.missing:
            return pairs
        held_out = list(chain.from_iterable(self._held_out.values()))
        sources = {pair.src for pair in held_out}
        if len(set(self._directions["train"])) == 1:
            return (pair for pair in pairs if pair.src not in sources)
        texts = sources.union(pair.tgt for pair in held_out)
        return (pair for pair in pairs if texts.isdisjoint((pair.src, pair.tgt)))

    @cached_property
    def dropped(self) -> DroppedRows:
        """The pairs of the training files that the filters drop. DataError if none with text on both sides is left."""
        named = chain.from_iterable(self.pairs(split) for split in self.named)
        dropped = self._find_dropped(self.config.data, lambda: self._read(self.train), named)
        if len(dropped) and not dropped.num_kept:
            rules = ", ".join(dropped.counts)
            raise DataError(
                f"data.filters drops every training pair ({rules})",
                path=self.files()[0],
                hint="`nmt data check` shows what each rule drops; turn off the rules that are wrong for your data",
            )
        warn_of_losses(dropped, self.train)
        return dropped

    @cached_property
    def _twins(self) -> DroppedRows | None:
        """The pairs that are not held out, but are near-twins of those that are, where this filter is on."""
        if not self.missing or not any(filters.near_twin for filters in self._filters):
            return None
        train = tuple(
            files.model_copy(update={"filters": Filters(near_twin=own.near_twin)})
            for files, own in zip(self.train, self._filters, strict=True)
        )
        held_out = chain.from_iterable(self._held_out.values())
        data = self.config.data.model_copy(update={"train": train})
        return self._find_dropped(data, lambda: self._without_held_out(self._kept_pairs()), held_out)

    def _find_dropped(
        self, data: DataConfig, read: Callable[[], Iterator[SentencePair]], held_out: Iterator[SentencePair]
    ) -> DroppedRows:
        expected = expect(data, read, held_out)
        workers = bounded(self.config.training.threads) or num_cores()
        return DroppedRows.find(with_progress(read(), "filtering"), expected, workers=workers)

    def count_filtered(self, counts: CorpusCounts) -> None:
        """Add to `counts` what the filters drop and swap back."""
        for rows in (self.dropped if self.has_filters else None, self._twins):
            if rows is None:
                continue
            counts.filtered += len(rows)
            counts.swapped_back += rows.num_swapped
            counts.dropped_by_rule = dict(Counter(counts.dropped_by_rule) + Counter(rows.counts))
            of_corpora = zip_longest(counts.filtered_by_corpus, rows.by_corpus, fillvalue=0)
            counts.filtered_by_corpus = list(map(sum, of_corpora))

    def log_check(self) -> None:
        """Check the first training pairs that the filters keep, within about a second, and log their faults."""
        sample = list(islice(self.train_pairs(), _SAMPLE_PAIRS))
        held_out = chain.from_iterable(self.pairs(split) for split in SPLITS)
        expected = expect(self.config.data, lambda: sample, held_out, identify_languages=False)
        broken = chain.from_iterable(chunk.result.rules for chunk in check_pairs(sample, expected))
        counts = Counter(chain.from_iterable(map(in_order, broken)))
        faults = [f"{count:,} {name}" for name, count in counts.items() if name not in _OFTEN_HARMLESS]
        if faults:
            which = f"the first {len(sample):,}" if len(sample) == _SAMPLE_PAIRS else f"{len(sample):,}"
            found = f"check of {which} training pairs: {', '.join(faults)}"
            log.info(f"{found}; `nmt data check` shows them, data.filters drops those that are its keys")

    def direction(self, split: Split | Literal["train"], pair: SentencePair) -> Direction:
        """Return the direction of a pair of a set."""
        return self._directions.get(split, self._directions["train"])[pair.corpus]

    def tag(self, split: Split, pair: SentencePair) -> str:
        """Return the tag of a validation or test pair's corpus followed by a space; empty if it has no tag."""
        tag = self.named.get(split, self.train)[pair.corpus].tag
        return "" if tag is None else f"{tag} "

    @cached_property
    def _firsts(self) -> set[int]:
        """The indices of the training corpora, without repetitions: if a file is listed twice, only the first."""
        texts = [(paths_of(files), _form_of(files) | {"tag": None}) for files in self.train]
        return {number for number, text in enumerate(texts) if text not in texts[:number]}

    def _choose(self) -> dict[Direction, dict[int, str]]:
        """Choose the sentences of each direction to hold out; return the names of their sets, by hash.

        Memory grows with the corpus, by 8 bytes per sentence, until it is chosen.
        """
        data = self.config.data
        hashes = {direction: array("Q") for direction in self._directions["train"]}
        for pair in with_both_sides(with_progress(self._kept_pairs(), "choosing held-out sentences")):
            if pair.corpus in self._firsts:
                texts = pair[:2] if data.holdout_groups else pair[:1]
                hashes[self.direction("train", pair)].extend(map(hash_of, texts))
        sizes: dict[str, int] = dict.fromkeys(self.missing, data.holdout_size)
        choose = choose_groups if data.holdout_groups else choose_sentences
        return {direction: choose(np.asarray(numbers), sizes) for direction, numbers in hashes.items()}

    @cached_property
    def _held_out(self) -> dict[Split, list[SentencePair]]:
        """Return the held-out pairs: the saved ones, or else choose and save them."""
        saved = self._read_held_out()
        if saved is not None:
            return saved
        chosen = self._choose()
        held_out: dict[Split, list[SentencePair]] = {split: [] for split in self.missing}
        for pair in with_both_sides(with_progress(self._kept_pairs(), "collecting held-out sentences")):
            split = chosen[self.direction("train", pair)].get(hash_of(pair.src))
            if split in held_out and pair.corpus in self._firsts:
                held_out[split].append(pair)
        if self._store_root is not None:
            write_text(self._held_out_file(self._store_root), json.dumps(held_out, ensure_ascii=False))
        return held_out

    def _read_held_out(self) -> dict[Split, list[SentencePair]] | None:
        """Return the saved held-out pairs; None if there are none, or they cannot be read."""
        if self._store_root is None or not self._store_root.is_dir():
            return None
        try:
            saved = _SAVED.validate_json(self._held_out_file(self._store_root).read_bytes())
        except (OSError, ValueError):
            return None
        return saved if saved.keys() == {*self.missing} else None

    def _held_out_file(self, store_root: Path) -> Path:
        identity = json.dumps(self.identity(), sort_keys=True)
        return store_root / f"held-out-{hashlib.sha256(identity.encode()).hexdigest()[:24]}.json"


def _form_of(files: ParallelFiles) -> dict[str, object]:
    """Return the format of a corpus and every key that applies to it, without file names."""
    keys = files.model_dump(exclude={"tgt", "weight", "filters", *FORMS})
    return {"form": files.form} | {key: value for key, value in keys.items() if files.uses(key)}


def with_both_sides(pairs: Iterator[SentencePair]) -> Iterator[SentencePair]:
    """Yield the pairs that have text on both sides."""
    return (pair for pair in pairs if pair.src and pair.tgt)


def with_progress(pairs: Iterator[SentencePair], work: str) -> Iterator[SentencePair]:
    """Yield `pairs`; every 30 seconds, log how many have been read and for what `work`."""
    due = time.monotonic() + LOG_SECONDS
    for number, pair in enumerate(pairs):
        if number % PAIRS_BETWEEN_LOOKS == 0 and time.monotonic() >= due:
            log.info("%s: %s pairs read", work, f"{number:,}")
            due = time.monotonic() + LOG_SECONDS
        yield pair
