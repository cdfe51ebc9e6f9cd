"""The report on a prepared corpus: `report.json` of a run, its description in the log, and its warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from nmt.base.errors import counted, printable
from nmt.base.languages import written_without_spaces

Split = Literal["valid", "test"]
SPLITS: tuple[Split, ...] = ("valid", "test")
MANY_UNKNOWN = 0.01  # share of the tokens of a side
MAX_NAMED = 20  # unknown characters


@dataclass
class CorpusCounts:
    """Counts of the training pairs, accumulated while they are read."""

    src_words: int = 0  # characters, in languages that are written without spaces
    tgt_words: int = 0
    empty_dropped: int = 0
    same_on_both_sides: int = 0
    sources_in_valid: int = 0
    sources_in_test: int = 0
    with_protected_spans: int = 0
    copies_with_placeholders: int = 0
    src_unknown: int = 0  # tokens
    tgt_unknown: int = 0
    src_unknown_characters: dict[str, int] = field(default_factory=dict)  # the most frequent first
    tgt_unknown_characters: dict[str, int] = field(default_factory=dict)
    filtered: int = 0
    swapped_back: int = 0  # pairs whose sides were swapped
    dropped_by_rule: dict[str, int] = field(default_factory=dict)  # a pair counts for each rule that it breaks
    filtered_by_corpus: list[int] = field(default_factory=list)

    def describe_filtered(self) -> Iterator[str]:
        """Yield lines on the pairs that the filters drop and swap back."""
        if self.filtered:
            rules = ", ".join(f"{count:,} {name}" for name, count in self.dropped_by_rule.items())
            yield f"dropped by data.filters: {counted(self.filtered, 'pair')} ({rules})"
        if self.swapped_back:
            yield f"swapped back: {counted(self.swapped_back, 'pair')} whose sides were swapped"


@dataclass(frozen=True)
class SideReport:
    """One language of the training pairs; lengths in tokens, eos not included."""

    language: str
    tokens: int
    length_median: int
    length_99_percent: int
    length_longest: int
    limit: int  # of the model, eos included
    tokens_per: Literal["word", "character"]
    tokens_per_word: float

    @classmethod
    def from_counts(cls, counts: NDArray[np.int64], num_words: int, limit: int, languages: Sequence[str]) -> SideReport:
        """Build the report from the number of sentences of each length (`counts[n]`: of n tokens)."""
        up_to = counts.cumsum() / counts.sum()
        num_tokens = int((counts * np.arange(len(counts))).sum())
        return cls(
            language=", ".join(languages),
            tokens=num_tokens,
            length_median=int(np.searchsorted(up_to, 0.5)),
            length_99_percent=int(np.searchsorted(up_to, 0.99)),
            length_longest=len(counts) - 1,
            limit=limit,
            tokens_per="character" if all(map(written_without_spaces, languages)) else "word",
            tokens_per_word=round(num_tokens / max(1, num_words), 2),
        )

    def __str__(self) -> str:
        return (
            f"{self.language}: {self.tokens:,} tokens; {self.tokens_per_word} tokens per {self.tokens_per}; "
            f"sentence length: median {self.length_median}, 99th percentile {self.length_99_percent}, "
            f"longest {self.length_longest} tokens"
        )


@dataclass(frozen=True)
class SplitReport:
    """A validation or test set: its pairs, and the pairs that its scores ignore or truncate."""

    pairs: int
    empty_dropped: int
    too_long: int  # sources


@dataclass(frozen=True)
class CorpusPart:
    """One of several training corpora; pairs count every copy."""

    files: str
    direction: str
    tag: str | None
    pairs: int
    pairs_per_epoch: int
    filtered: int = 0  # pairs of the text that the filters drop

    def __str__(self) -> str:
        tag = f", tag {self.tag}" if self.tag else ""
        part = counted(self.pairs, "pair")
        if self.pairs_per_epoch != self.pairs:
            part += f", {self.pairs_per_epoch:,} per epoch"
        if self.filtered:
            part += f", {self.filtered:,} dropped by its filters"
        return f"{self.files} ({self.direction}{tag}): {part}"


@dataclass(frozen=True)
class CorpusReport:
    """A prepared corpus."""

    pairs: int
    too_long: int
    counts: CorpusCounts
    src: SideReport
    tgt: SideReport
    valid: SplitReport
    test: SplitReport
    corpora: tuple[CorpusPart, ...] = ()  # empty: there is one

    @classmethod
    def from_json(cls, value: object) -> CorpusReport:
        """Build a report from the JSON values in a run. ValueError if they are something else."""
        return TypeAdapter(cls).validate_python(value)

    def describe(self) -> Iterator[str]:
        """Yield the report as lines for the log."""
        yield f"corpus: {counted(self.pairs, 'training pair')}"
        yield from (f"  {part}" for part in self.corpora)
        yield f"  {self.src}"
        yield f"  {self.tgt}"
        yield from (f"  {line}" for line in self._unknown())
        if self.too_long:
            limits = f"{self.src.limit} source or {self.tgt.limit} target tokens"
            yield f"  truncated: {counted(self.too_long, 'pair')} longer than {limits}"
        if self.counts.empty_dropped:
            yield f"  dropped: {counted(self.counts.empty_dropped, 'pair')} with an empty side"
        yield from (f"  {line}" for line in self.counts.describe_filtered())
        if self.counts.copies_with_placeholders or self.counts.with_protected_spans:
            yield (
                f"  pairs with protected spans: {self.counts.with_protected_spans:,}; "
                f"copies with placeholders among the pairs: {self.counts.copies_with_placeholders:,}"
            )

    def _unknown(self, min_share: float = 0.0) -> Iterator[str]:
        """Yield a line on the unknown tokens of each side in which they have more than a share of all tokens."""
        counts = self.counts
        for side, number, unknown in (
            (self.src, counts.src_unknown, counts.src_unknown_characters),
            (self.tgt, counts.tgt_unknown, counts.tgt_unknown_characters),
        ):
            if number > min_share * side.tokens:
                characters = ", ".join(f"{char} ({count:,})" for char, count in unknown.items())
                of = f"; unknown characters: {printable(characters)}" if characters else ""
                yield f"{side.language}: {counted(number, 'unknown token')} ({number / side.tokens:.2%}){of}"

    def warnings(self) -> Iterator[str]:
        """Yield the warnings that a user should read before training on this corpus."""
        for line in self._unknown(MANY_UNKNOWN):
            yield f"{line}; the model cannot learn them: let nmt train a tokenizer, or choose one that has them"
        if self.counts.same_on_both_sides * 2 > self.pairs:
            yield "most pairs have the same text on both sides; are the columns right?"
        overlaps = (self.counts.sources_in_valid, self.counts.sources_in_test)
        for split, report, overlap in zip(SPLITS, (self.valid, self.test), overlaps, strict=True):
            name = "test" if split == "test" else "validation"
            if report.empty_dropped:
                dropped = counted(report.empty_dropped, "pair")
                yield f"the {name} set has {dropped} with an empty side; its scores ignore them"
            if report.too_long:
                cut = counted(report.too_long, "source")
                yield f"the {name} set has {cut} longer than the model's limit; their ends are not translated"
            if overlap:
                shared = counted(overlap, "training pair")
                yield f"the {name} set shares its sources with {shared}; {name} scores will be too high"
