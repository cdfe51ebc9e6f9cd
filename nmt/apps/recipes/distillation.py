"""Sequence-level knowledge distillation (Kim and Rush 2016): a student learns from the translations of its teacher.

The training pairs of a configuration are written to files once, without held-out and filtered pairs. The teacher's
translations are written beside them, line by line. The student's configuration lists both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from nmt.apps.recipes.side_by_side import Comparison, compare_in_turns
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import DataError
from nmt.base.files import new_folder, sha256_of
from nmt.base.languages import Direction
from nmt.config import Config, DataConfig, SearchOptions
from nmt.config.corpora import ParallelFiles
from nmt.config.filters import Filters
from nmt.data.read.lines import count_lines, read_lines
from nmt.data.read.pairs import SentencePair
from nmt.data.store.mixing import corpus_weights
from nmt.data.store.report import SPLITS, Split
from nmt.decoding.engines.interface import DeviceName, PrecisionName
from nmt.training.corpus.corpus import Corpus, with_both_sides
from nmt.translation import Translator

_REPEATED = ".repeated"


class Part(NamedTuple):
    """The files of one training corpus: sources, references, and the teacher's translations, written later."""

    files: ParallelFiles  # the corpus in the configuration
    direction: Direction
    src: Path
    ref: Path
    hyp: Path  # one or several translations per source
    src_of_hyp: Path  # the source of each of these
    size: int  # pairs


class DistillationText(NamedTuple):
    """All text for training a student, in one folder."""

    folder: Path
    data: DataConfig  # the student's
    parts: list[Part]  # one for each training corpus that has pairs

    def student_data(self, mix_original: float) -> DataConfig:
        """Return the data section for training the student, with a share `mix_original` of original pairs."""
        sizes = [part.size for part in self.parts]
        weights: list[float] | None = None
        if mix_original or self.data.temperature != 1.0 or any(part.files.weight for part in self.parts):
            own = self.data.model_copy(update={"train": tuple(part.files for part in self.parts)})
            weights = list(corpus_weights(own, sizes) or sizes)
        filtered = Filters(duplicate=False, overlap=False)  # they are filtered already
        original = [_files(part, part.src, part.ref, filters=filtered) for part in self.parts]
        translated = [_files(part, part.src_of_hyp, part.hyp) for part in self.parts]
        versions = [(translated, 1 - mix_original), (original, mix_original)]
        train = [files for version, share in versions if share for files in _weighted(version, weights, share)]
        held_out: dict[str, object] = {split: self._held_out(split) for split in SPLITS if not self.data.corpora(split)}
        return self.data.model_copy(update={"train": tuple(train), "temperature": 1.0, "mono_tgt": None, **held_out})

    def _held_out(self, split: Split) -> tuple[ParallelFiles, ...]:
        """Return the files of a set that was held out of the training corpora."""
        sets = []
        for number, files in enumerate(self.data.corpora("train"), start=1):
            src, tgt = (self.folder / f"{split}-{number}.{side}" for side in ("src", "tgt"))
            if src.stat().st_size:
                direction = self.data.direction_of(files)
                languages = {"src_lang": direction.src, "tgt_lang": direction.tgt, "tag": files.tag}
                sets.append(ParallelFiles(src=str(src), tgt=str(tgt)).model_copy(update=languages))
        return tuple(sets)


def _files(part: Part, src: Path, tgt: Path, **changes: object) -> ParallelFiles:
    """Return the corpus of a part with the sources `src` and the translations `tgt`, and with `changes`."""
    files = ParallelFiles(src=str(src), tgt=str(tgt), src_lang=part.direction.src, tgt_lang=part.direction.tgt)
    return files.model_copy(update={key: getattr(part.files, key) for key in ("tag", "filters")} | changes)


def _weighted(
    corpora: Sequence[ParallelFiles], weights: Sequence[float] | None, share: float
) -> Sequence[ParallelFiles]:
    """Return `corpora` with their `weights`, if any, which add up to `share`."""
    if weights is None:
        return corpora
    unit = share / sum(weights)
    return [files.model_copy(update={"weight": unit * weight}) for files, weight in zip(corpora, weights, strict=True)]


def write_distillation_text(
    config: Config,
    teachers: Sequence[RunDir],
    options: SearchOptions,
    precision: str,
    store_root: Path,
) -> DistillationText:
    """Write the training pairs of `config` and its held-out pairs into a folder in `store_root`, unless it exists.

    The folder is named after the text, the weights of the teachers, their search `options` and the requested
    `precision`, so that a resumed distillation finds the translations it already has. DataError if there are no pairs.
    """
    corpus = Corpus(config, store_root)
    identity = {
        "corpus": corpus.identity(),
        "languages": [config.data.src_lang, config.data.tgt_lang],
        "teachers": [sha256_of(run.usable_checkpoint()) for run in teachers],
        "options": options.model_dump(),
        "precision": precision,
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    folder = store_root / f"distill-{digest[:24]}"
    if not folder.is_dir():
        with new_folder(folder) as partial:
            _write_pairs(corpus, partial)
            if options.num_hypotheses > 1:
                for number in range(1, len(corpus.train) + 1):
                    src = partial / f"train-{number}.src"
                    with open(src.with_suffix(_REPEATED), "w", encoding="utf-8", newline="\n") as repeated:
                        repeated.writelines((line + "\n") * options.num_hypotheses for line in read_lines(src))
    parts = []
    for number, files in enumerate(corpus.train, start=1):
        src, ref, hyp = (folder / f"train-{number}.{side}" for side in ("src", "ref", "hyp"))
        src_of_hyp = src.with_suffix(_REPEATED) if options.num_hypotheses > 1 else src
        if size := count_lines(src):
            parts.append(Part(files, config.data.direction_of(files), src, ref, hyp, src_of_hyp, size))
    if not parts:
        raise DataError("no pair with text on both sides", path=corpus.files()[0])
    return DistillationText(folder, config.data, parts)


def _write_pairs(corpus: Corpus, folder: Path) -> None:
    """Write a pair of files for each training corpus, and for each set held out of it."""

    def write(name: str, endings: tuple[str, str], pairs: Iterator[SentencePair]) -> None:
        names = [folder / f"{name}-{number}" for number in range(1, len(corpus.train) + 1)]
        with ExitStack() as stack:
            first, second = (
                [stack.enter_context(open(f"{file}.{ending}", "w", encoding="utf-8", newline="\n")) for file in names]
                for ending in endings
            )
            for pair in with_both_sides(pairs):
                first[pair.corpus].write(pair.src + "\n")
                second[pair.corpus].write(pair.tgt + "\n")

    write("train", ("src", "ref"), corpus.train_pairs())
    for split in corpus.missing:
        write(split, ("src", "tgt"), corpus.pairs(split))


def compare_with_teacher(
    teachers: Sequence[RunDir], student: RunDir, device: DeviceName, precision: PrecisionName
) -> Comparison:
    """Score teacher and student on the student's validation and test sets; time both, alternating, on the test set."""
    direction = student.config().data.directions[0]
    valid, test = ([(split, pairs) for pairs in student.read_sets(split, direction)] for split in SPLITS)
    with ExitStack() as stack:
        both = [
            stack.enter_context(Translator.load(list(runs), device=device, precision=precision, scores=False))
            for runs in (teachers, [student])
        ]
        return compare_in_turns([(translator, None) for translator in both], test, valid)
