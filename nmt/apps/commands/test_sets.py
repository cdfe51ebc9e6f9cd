"""The test sets of `nmt eval`: a data set of a run, or the user's files."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nmt.artifacts.exportdir import ExportDir
from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.errors import DataError, NmtError, RunError
from nmt.base.languages import Direction
from nmt.data.read.corpus import read_rows
from nmt.data.read.lines import read_lines

if TYPE_CHECKING:
    from nmt.translation import LanguagePair

log = logging.getLogger(__name__)

_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")  # of ISO 639, with script or region

UNKNOWN_LANGUAGE = "und"  # ISO 639's code for an undetermined language


class TestSet(NamedTuple):
    """Sentences to translate, and their references, by direction."""

    name: str
    sets: list[DirectedPairs]
    paths: list[Path]  # of the references, if they are permanent files with one per line
    more_references: list[list[str]] = []  # noqa: RUF012 (of the first direction, beside those of `sets`)
    has_sources: bool = True

    @property
    def references(self) -> list[list[str]]:
        """All references of the first direction [R][N]."""
        return [self.sets[0].references, *self.more_references]


class Files(NamedTuple):
    """Files of a test set, as given on the command line."""

    src: Path | None
    refs: list[Path]
    tsv: Path | None

    def __bool__(self) -> bool:
        return bool(self.refs) or self.tsv is not None


class Languages(NamedTuple):
    """The languages given on the command line."""

    to: str | None
    from_: str | None


def languages_of(found: list[RunDir] | ExportDir) -> LanguagePair:
    """Return the languages of a model."""
    from nmt.translation import LanguagePair

    return LanguagePair.of_export(found.info()) if isinstance(found, ExportDir) else LanguagePair.of(found[0].config())


def read_set(found: list[RunDir] | ExportDir | None, files: Files, split: str, named: Languages) -> TestSet:
    """Return the test set `files`, or else a data set of the (first) run. Warn of empty references.

    Without a model, the target language must be given: NmtError if it is not.
    """
    test_set = _find_set(found, files, split, named)
    columns = [*(each.references for each in test_set.sets), *test_set.more_references]
    if num_empty := sum(not text.strip() for lines in columns for text in lines):
        log.warning("references without text: %d; scores against them mean nothing, so remove these rows", num_empty)
    return test_set


def _find_set(found: list[RunDir] | ExportDir | None, files: Files, split: str, named: Languages) -> TestSet:
    """Return the test set for `read_set`."""
    if found is not None:
        languages = languages_of(found)
        if not files:
            return _read_split(found, split, Direction(languages.src, languages.tgt), named)
        return _read_files(files, languages.direction(named.to, named.from_))
    if named.to is None:
        hint = "give the language of the translations with --to, or their model with --model"
        raise NmtError("BLEU's tokenizer depends on the target language, which is unknown", hint=hint)
    if not _CODE.fullmatch(named.to):
        log.warning("--to %s is not a language code, such as zh, so BLEU uses its default tokenizer (13a)", named.to)
    return _read_files(files, Direction(named.from_ or UNKNOWN_LANGUAGE, named.to))


def _read_split(found: list[RunDir] | ExportDir, split: str, only: Direction, named: Languages) -> TestSet:
    """Return a data set of the (first) run: all of its directions, or only the given ones."""
    if isinstance(found, ExportDir):
        hint = "give a test set with --src and --ref, or with --tsv"
        raise RunError("an export holds no test set", path=found.path, hint=hint)
    sets = found[0].read_sets(split, only)
    for other in found[1:]:
        if other.read_sets(split, only) != sets:
            log.warning(
                "%s has another %s set than %s; it may have been trained on sentences of the latter, so scores may be "
                "too high",
                other.path,
                split,
                found[0].path,
            )
    to, from_ = named
    wanted = [each for each in sets if to in (None, each.direction.tgt) and from_ in (None, each.direction.src)]
    if not wanted:
        listed = ", ".join(str(each.direction) for each in sets)
        raise RunError(f"the {split} set has no such direction; it has {listed}", path=found[0].path)
    if len(sets) == 1:
        return TestSet(split, sets, [found[0].data / f"{split}.tgt"])
    return TestSet(f"{split}.{wanted[0].direction}" if len(wanted) == 1 else split, wanted, [])


def _read_files(files: Files, direction: Direction) -> TestSet:
    """Return the test set of the given files. Reads each file once, because it may be a pipe."""
    if files.tsv is not None:
        pairs = list(read_rows(files.tsv))
        sources, references = [pair.src for pair in pairs], [[pair.tgt for pair in pairs]]
        stem, paths = files.tsv.stem, []
    else:
        references, paths = [list(read_lines(path)) for path in files.refs], files.refs
        sources = list(read_lines(files.src)) if files.src is not None else [""] * len(references[0])
        stem = (files.src or files.refs[0]).stem
    for lines, path in zip(references, paths, strict=False):
        if len(lines) != len(sources):
            first = f"{len(sources)} sources" if files.src is not None else f"{len(sources)} lines in {files.refs[0]}"
            hint = "line n of the references must translate line n of the sources"
            raise DataError(f"{first} but {len(lines)} references", path=path, hint=hint)
    name = f"{stem}-{_mark([*sources, *(line for lines in references for line in lines)])}"
    has_sources = files.tsv is not None or files.src is not None
    return TestSet(name, [DirectedPairs(direction, sources, references[0])], paths, references[1:], has_sources)


def read_hypotheses(path: Path, test_set: TestSet) -> list[str]:
    """Return the translations of a test set from a file. DataError if their number is different."""
    lines, sentences = list(read_lines(path)), len(test_set.sets[0].sources)
    if len(lines) != sentences:
        hint = "line n must translate line n of the sources"
        raise DataError(f"{len(lines)} translations but {sentences} references", path=path, hint=hint)
    return lines


def _mark(sentences: Sequence[str]) -> str:
    """Return a hash of the sentences, so that results of another test set of the same name are not overwritten."""
    return hashlib.sha256("\n".join(sentences).encode()).hexdigest()[:8]
