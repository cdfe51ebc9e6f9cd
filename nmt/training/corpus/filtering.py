"""The corpus of a configuration, without the training pairs dropped by `data.filters`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from nmt.base.errors import DataError
from nmt.base.machine import bounded, num_cores
from nmt.config import Config
from nmt.data.check.profile import expect
from nmt.data.check.rules import BIT, VERSION, bits_switched_on, rules_in
from nmt.data.check.scripts import identifier_version
from nmt.data.check.stream import DroppedRows, check_pairs
from nmt.data.read.corpus import SentencePair
from nmt.data.store.report import SPLITS
from nmt.training.corpus.corpus_files import Corpus, announced

log = logging.getLogger(__name__)

_SAMPLE_PAIRS = 20_000
_OFTEN_HARMLESS = {"empty", "repeated_source", "punctuation_mismatch", "number_mismatch", "markup"}


class FilteredCorpus(Corpus):
    """A corpus whose training pairs have passed the filters, which run once, when first needed."""

    def __init__(self, config: Config, store_root: Path | None = None):
        super().__init__(config, store_root)
        self._filters = [config.data.filters_of(files) for files in self.train]
        self.has_filters = any(bits_switched_on(each) != BIT["empty"] for each in self._filters)

    def train_pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs to train on, including those with an empty side."""
        pairs = super().train_pairs()
        return self.dropped.kept(pairs) if self.has_filters else pairs

    @cached_property
    def dropped(self) -> DroppedRows:
        """The training pairs that the filters drop. DataError if no pair with text on both sides is left."""
        held_out = chain.from_iterable(self.pairs(split) for split in SPLITS)
        expected = expect(self.config.data, super().train_pairs, held_out)
        workers = bounded(self.config.training.threads) or num_cores()
        dropped = DroppedRows.find(announced(super().train_pairs(), "filtering"), expected, workers=workers)
        if len(dropped) and not dropped.num_kept:
            hint = "`nmt data check` shows what each rule drops; turn off the rules that are wrong for your data"
            rules = ", ".join(dropped.counts)
            raise DataError(f"data.filters drops every training pair ({rules})", path=self.files()[0], hint=hint)
        return dropped

    def filter_identity(self) -> dict[str, object]:
        """Return the settings that determine, besides the text, which pairs are dropped; nothing without filters."""
        if not self.has_filters:
            return {}
        identifies = any(filters.wrong_language is not None for filters in self._filters)
        filters = [filters.model_dump() for filters in self._filters]
        return {
            "rules": VERSION,
            "filters": filters[0] if all(each == filters[0] for each in filters) else filters,
            "language_identifier": identifier_version() if identifies else "",
        }

    def log_check(self) -> None:
        """Check the first training pairs that the filters keep, within about a second, and log their faults."""
        sample = list(islice(self.train_pairs(), _SAMPLE_PAIRS))
        held_out = chain.from_iterable(self.pairs(split) for split in SPLITS)
        expected = expect(self.config.data, lambda: sample, held_out, identify_languages=False)
        counts: dict[str, int] = {}
        for chunk in check_pairs(sample, expected):
            for flags in chunk.flags[chunk.flags != 0].tolist():
                for rule in rules_in(flags):
                    counts[rule.name] = counts.get(rule.name, 0) + 1
        found = [f"{count:,} {name}" for name, count in counts.items() if name not in _OFTEN_HARMLESS]
        if found:
            log.info(
                "check of %s training pairs: %s; `nmt data check` shows them, data.filters drops them",
                f"the first {len(sample):,}" if len(sample) == _SAMPLE_PAIRS else f"{len(sample):,}",
                ", ".join(found),
            )
