"""Test sets: a data set of a run, or the user's files."""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.errors import DataError, RunError
from nmt.base.languages import Direction
from nmt.config import SearchOptions
from nmt.data.read.lines import read_lines
from nmt.data.read.table_names import split_choice
from nmt.translation import Translation, Translator

log = logging.getLogger(__name__)


class TestSet(NamedTuple):
    """Sentences to translate, and their references, by direction."""

    name: str
    sets: list[DirectedPairs]
    paths: list[Path] = []  # noqa: RUF012 (of the references, if they are permanent files with one per line)
    more_references: list[list[str]] = []  # noqa: RUF012 (of the first direction, beside those of `sets`)
    has_sources: bool = True

    @property
    def references(self) -> list[list[str]]:
        """All references of the first direction [R][N]."""
        return [self.sets[0].references, *self.more_references]

    def changed(self, kind: str, symbols: Collection[str]) -> TestSet:
        """Return the set with every pair changed in one way of `data.augment`, which leaves `symbols` as they are."""
        from nmt.data.text.augment import PairChanger, TextPair

        sets = []
        for each in self.sets:
            changer = PairChanger(each.direction, symbols)
            texts = map(TextPair, each.sources, each.references)
            pairs = [changer.change(kind, pair, random.Random(number)) for number, pair in enumerate(texts)]
            sets.append(each._replace(sources=[pair.src for pair in pairs], references=[pair.tgt for pair in pairs]))
        return TestSet(f"{self.name}-{kind}", sets)


def on_lines(translations: Sequence[Translation]) -> list[str]:
    """Return the text of each translation on one line."""
    return [translation.text.replace("\n", " ") for translation in translations]


def translate_set(
    translator: Translator, pairs: DirectedPairs, options: SearchOptions | None = None
) -> list[Translation]:
    """Translate the sources of `pairs`; warn about those that are too long."""
    translations = translator.translate(pairs.sources, options, to=pairs.direction.tgt, from_=pairs.direction.src)
    for number, translation in enumerate(translations, 1):
        if translation.truncated:
            limit = translator.max_src_len
            log.warning("source %d is longer than %d tokens; its end is not translated", number, limit)
    return translations


def read_split(
    runs: Sequence[RunDir], split: str, only: Direction, to: str | None = None, from_: str | None = None
) -> TestSet:
    """Return a data set of the first run: all of its directions, or those with the given languages.

    `only` is the direction of a set without names of languages. Warn if another run has another set.
    """
    first, *others = runs
    sets = first.read_sets(split, only)
    for other in others:
        if other.read_sets(split, only) != sets:
            effect = "it may have been trained on sentences of the latter, so scores may be too high"
            log.warning("%s has another %s set than %s; %s", other.path, split, first.path, effect)
    chosen = [each for each in sets if to in (None, each.direction.tgt) and from_ in (None, each.direction.src)]
    if not chosen:
        listed = ", ".join(str(each.direction) for each in sets)
        raise RunError(f"the {split} set has no such direction; it has {listed}", path=first.path)
    if len(sets) == 1:
        return TestSet(split, sets, [first.data / f"{split}.tgt"])
    return TestSet(f"{split}.{chosen[0].direction}" if len(chosen) == 1 else split, chosen)


def read_files(src: Path | None, refs: Sequence[Path], tsv: Path | None, direction: Direction) -> TestSet:
    """Return the test set of the given files. Reads each file once, because it may be a pipe.

    `tsv` is the name of a table, which may choose its columns. With several references, such as `a.tsv#1,2,3`, it is
    read once for each.
    """
    if tsv is not None:
        from nmt.data.read.pairs import read_named

        name, columns = split_choice(str(tsv))
        first, *others = (columns or "1,2").split(",")
        names = [f"{name}#{first},{other}" for other in others] if others[1:] else [str(tsv)]
        tables = [list(read_named(each, direction)) for each in names]
        sources = [pair.src for pair in tables[0]]
        references = [[pair.tgt for pair in table] for table in tables]
        stem = Path(name).stem
        paths: list[Path] = []
    else:
        references = [list(read_lines(path)) for path in refs]
        paths = list(refs)
        sources = list(read_lines(src)) if src is not None else [""] * len(references[0])
        stem = (src or refs[0]).stem
    for lines, path in zip(references, paths, strict=False):
        if len(lines) != len(sources):
            first = f"{len(sources)} sources" if src is not None else f"{len(sources)} lines in {refs[0]}"
            raise DataError(
                f"{first} but {len(lines)} references",
                path=path,
                hint="line n of the references must translate line n of the sources",
            )
    name = f"{stem}-{hash_of([*sources, *(line for lines in references for line in lines)])}"
    has_sources = tsv is not None or src is not None
    return TestSet(name, [DirectedPairs(direction, sources, references[0])], paths, references[1:], has_sources)


def read_hypotheses(path: Path, test_set: TestSet) -> list[str]:
    """Return the translations of a test set from a file. DataError if their number is different."""
    lines = list(read_lines(path))
    sentences = len(test_set.sets[0].sources)
    if len(lines) != sentences:
        raise DataError(
            f"{len(lines)} translations but {sentences} references",
            path=path,
            hint="line n must translate line n of the sources",
        )
    return lines


def hash_of(texts: Sequence[str]) -> str:
    """Return a hash for the name of a file, so that results for other texts of the same name are not overwritten."""
    return hashlib.sha256("\n".join(texts).encode(errors="surrogateescape")).hexdigest()[:8]
