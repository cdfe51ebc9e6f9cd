"""Apply all rules to a corpus in chunks: in this process, or in several for a large corpus, with the same result.

The rows that the filters drop are found in one pass, stored as a byte per row, and used in later passes. Or the kept
and the rejected pairs are written to files.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, groupby, zip_longest
from pathlib import Path
from typing import NamedTuple, Self

from nmt.base.errors import DataError, counted
from nmt.config.corpora import ParallelFiles
from nmt.config.filters import Filters
from nmt.data.check.checker import Checked, Checker, texts_of
from nmt.data.check.profile import Expectations
from nmt.data.check.repeats import Repeats
from nmt.data.check.rules import RULES, in_order, rules_that_drop
from nmt.data.read.lines import as_cell, open_new_text
from nmt.data.read.pairs import SentencePair, path_of

_DROPPED, _SWAPPED = 1, 2  # 0: kept as it is
MAX_EXAMPLES = 3
CHUNK_PAIRS = 10_000
_CHUNK_CHARACTERS = 10_000_000
_CHUNKS_ALONE = 3  # checked before other processes are worth their start


class CheckedPairs(NamedTuple):
    """A chunk of the corpus with the rules that each pair breaks; all its corpora have the same filters."""

    pairs: list[SentencePair]
    result: Checked
    filters: Filters

    def judged(self) -> Iterator[tuple[SentencePair, frozenset[str], bool]]:
        """Yield each pair with the rules that drop it, and whether its sides are to be exchanged if it is kept.

        A pair with an empty side, which breaks the rule `empty`, may be kept by who drops such pairs later.
        """
        that_drop = rules_that_drop(self.filters)
        swaps_back = self.filters.sides_swapped == "swap"
        for pair, broken in zip(self.pairs, self.result.rules, strict=True):
            dropping = that_drop & broken
            is_swapped = swaps_back and "sides_swapped" in broken and dropping <= {"empty"}
            yield pair, dropping, is_swapped


def check_pairs(
    pairs: Iterable[SentencePair], expected: Sequence[Expectations], *, workers: int = 1, only_active: bool = False
) -> Iterator[CheckedPairs]:
    """Check all pairs, chunk by chunk in order; the result does not depend on the number of `workers`.

    `expected` has an object per corpus. Duplicates are searched only among corpora that share an object, that is, the
    same direction and the same filters, so a file may be listed twice with different filters.
    With several workers, a large corpus is checked in that many processes. They import the main module of the program,
    so a script must guard its code with `if __name__ == "__main__"`. With `only_active`, rules that are off may be
    skipped, which saves time and memory. NmtError if a process is killed.
    """
    repeats: dict[int, Repeats] = {}
    for key, group in groupby(pairs, key=lambda pair: id(expected[pair.corpus])):
        own = next(each for each in expected if id(each) == key)
        wanted = rules_that_drop(own.filters) if only_active else frozenset(RULES)
        seen = repeats.setdefault(key, Repeats(wanted))
        for chunk, result in _map(_chunks(group), own, wanted, workers):
            seen.mark(result, chunk)
            yield CheckedPairs(chunk, result, own.filters)


def _chunks(pairs: Iterable[SentencePair]) -> Iterator[list[SentencePair]]:
    chunk: list[SentencePair] = []
    size = 0
    for pair in pairs:
        chunk.append(pair)
        size += len(pair.src) + len(pair.tgt)
        if len(chunk) == CHUNK_PAIRS or size >= _CHUNK_CHARACTERS:
            yield chunk
            chunk = []
            size = 0
    if chunk:
        yield chunk


def _map(
    chunks: Iterator[list[SentencePair]], expected: Expectations, wanted: Collection[str], workers: int
) -> Iterator[tuple[list[SentencePair], Checked]]:
    checker = Checker(expected, wanted)
    for number, chunk in enumerate(chunks):
        if workers > 1 and number == _CHUNKS_ALONE:
            from nmt.data.check.processes import check_in_processes  # not for small corpora: slow to import

            yield from check_in_processes(chain([chunk], chunks), expected, wanted, workers)
            return
        yield chunk, checker.check(*texts_of(chunk))


@dataclass(frozen=True)
class DroppedRows:
    """The rows that filters drop, by position in the stream of pairs, with counts per rule and per corpus.

    `states`: a byte per row: `_DROPPED`, `_SWAPPED` (kept, with its sides exchanged) or 0.
    """

    states: bytearray
    counts: dict[str, int]
    by_corpus: list[int]
    num_kept: int  # with text on both sides
    examples: dict[str, list[SentencePair]]  # the first that each rule drops

    @classmethod
    def find(cls, pairs: Iterable[SentencePair], expected: Sequence[Expectations], *, workers: int = 1) -> Self:
        """Check `pairs` with the filters of `expected` (one entry per corpus), using several processes if worthwhile.

        Reports count pairs with an empty side.
        """
        states = bytearray()
        num_kept = 0
        by_corpus = [0] * len(expected)
        counts: Counter[str] = Counter()
        examples: defaultdict[str, list[SentencePair]] = defaultdict(list)
        for chunk in check_pairs(pairs, expected, workers=workers, only_active=True):
            for pair, dropping, is_swapped in chunk.judged():
                num_kept += not dropping
                rules = dropping - {"empty"}
                states.append(_DROPPED if rules else _SWAPPED * is_swapped)
                if rules:
                    by_corpus[pair.corpus] += 1
                for name in rules:
                    counts[name] += 1
                    if len(examples[name]) < MAX_EXAMPLES:
                        examples[name].append(pair)
        return cls(states, {name: counts[name] for name in in_order(counts)}, by_corpus, num_kept, examples)

    def __len__(self) -> int:
        return self.states.count(_DROPPED)

    @property
    def num_swapped(self) -> int:
        """The number of pairs that are kept, but with their sides exchanged."""
        return self.states.count(_SWAPPED)

    def kept(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield the pairs of the same stream that are not dropped. DataError if its length has changed."""
        for pair, state in zip_longest(pairs, self.states):
            if pair is None or state is None:
                raise DataError(
                    "the corpus changed while it was read", hint="start again, and do not change the files meanwhile"
                )
            if state != _DROPPED:
                yield pair.swapped() if state == _SWAPPED else pair


def write_pairs(
    chunks: Iterable[CheckedPairs], corpora: Sequence[ParallelFiles], *, kept: Path, rejected: Path | None
) -> str:
    """Write the kept and the rejected pairs; return how many were kept, and how many each rule rejected, as text.

    Both files are tab-separated; a tab inside a sentence becomes a space. They appear when all pairs are written. Files
    that end in `.gz`, `.bz2`, `.xz` or `.zst` are compressed.
    """
    num_pairs = 0
    num_kept = 0
    num_swapped = 0
    by_rule: Counter[str] = Counter()
    with ExitStack() as stack:
        kept_file = open_new_text(stack, kept)
        rejected_file = None if rejected is None else open_new_text(stack, rejected)
        for pair, dropping, is_swapped in chain.from_iterable(chunk.judged() for chunk in chunks):
            num_pairs += 1
            if not dropping:
                src, tgt, *_ = pair.swapped() if is_swapped else pair
                num_kept += 1
                num_swapped += is_swapped
                kept_file.write(f"{as_cell(src)}\t{as_cell(tgt)}\n")
                continue
            by_rule.update(dropping)
            if rejected_file is not None:
                rules = ",".join(in_order(dropping))
                place = f"{as_cell(str(path_of(corpora, pair)))}:{pair.line}"
                rejected_file.write(f"{rules}\t{place}\t{as_cell(pair.src)}\t{as_cell(pair.tgt)}\n")
    rejections = ", ".join(f"{by_rule[name]:,} {name}" for name in in_order(by_rule))
    kept_pairs = f"kept {num_kept:,} of {counted(num_pairs, 'pair')}"
    swapped = f", {num_swapped:,} swapped back" if num_swapped else ""
    return kept_pairs + swapped + (f"; rejected: {rejections}" if rejections else "")
