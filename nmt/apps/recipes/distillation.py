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

from nmt.apps.recipes.side_by_side import Comparison, compare_in_turns
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import DataError
from nmt.base.files import new_folder, sha256_of
from nmt.config import Config, DataConfig, SearchOptions
from nmt.config.corpora import ParallelFiles
from nmt.config.filters import Filters
from nmt.data.read.lines import count_lines
from nmt.data.read.pairs import SentencePair
from nmt.data.store.mixing import corpus_weights
from nmt.data.store.report import SPLITS
from nmt.decoding.engines.interface import DeviceName, PrecisionName
from nmt.training.corpus.corpus import Corpus, with_both_sides
from nmt.translation import Translator


def student_data(text: DataConfig, mix_original: float, num_hypotheses: int) -> DataConfig:
    """Return the data section for training the student on `text`, with a share `mix_original` of original pairs."""
    original = text.corpora("train")
    weights: Sequence[float] | None = None
    if mix_original or text.temperature != 1.0 or any(files.weight for files in original):
        sizes = [num_sources(files) for files in original]
        weights = corpus_weights(text, sizes) or sizes
    filtered = Filters(duplicate=False, overlap=False)  # they are filtered already
    translated = [_translated(files, num_hypotheses) for files in original]
    versions = (
        (translated, 1 - mix_original),
        ([files.model_copy(update={"filters": filtered}) for files in original], mix_original),
    )
    train = [files for version, share in versions if share for files in _weighted(version, weights, share)]
    return text.model_copy(update={"train": tuple(train), "temperature": 1.0, "mono_tgt": None})


def _weighted(
    corpora: Sequence[ParallelFiles], weights: Sequence[float] | None, share: float
) -> Sequence[ParallelFiles]:
    """Return `corpora` with their `weights`, if any, which add up to `share`."""
    if weights is None:
        return corpora
    unit = share / sum(weights)
    return [files.model_copy(update={"weight": unit * weight}) for files, weight in zip(corpora, weights, strict=True)]


def num_sources(files: ParallelFiles) -> int:
    """Return the number of sources of a corpus in a distillation's folder."""
    return count_lines(Path(str(files.src)))


def translations_of(files: ParallelFiles) -> Path:
    """Return the file for the teacher's translations of a corpus in a distillation's folder."""
    return Path(str(files.src)).with_suffix(".hyp")


def _translated(files: ParallelFiles, num_hypotheses: int) -> ParallelFiles:
    """Return a corpus with the teacher's translations, one or several per source, instead of the original ones."""
    translations = translations_of(files)
    src = translations.with_suffix(".src" if num_hypotheses == 1 else ".repeated")
    return files.model_copy(update={"src": str(src), "tgt": str(translations)})


def write_distillation_text(
    config: Config,
    teachers: Sequence[RunDir],
    options: SearchOptions,
    precision: str,
    store_root: Path,
) -> DataConfig:
    """Write the training pairs of `config` and its held-out pairs into a folder in `store_root`, unless it exists.

    The folder is named after the text, the weights of the teachers, their search `options` and the requested
    `precision`, so that a resumed distillation finds the translations it already has. Returns the data section with
    these files, one corpus for each training corpus that has pairs. DataError if there are none.
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
            endings = ("src", "ref", "repeated") if options.num_hypotheses > 1 else ("src", "ref")
            _write_pairs(partial, "train", endings, corpus.train_pairs(), len(corpus.train), options.num_hypotheses)
            for split in corpus.missing:
                _write_pairs(partial, split, ("src", "tgt"), corpus.pairs(split), len(corpus.train))
    sets: dict[str, object] = {split: _written(corpus, folder, split, "tgt", "tag") for split in corpus.missing}
    train = _written(corpus, folder, "train", "ref", "tag", "weight", "filters")
    if not train:
        raise DataError("no pair with text on both sides", path=corpus.files()[0])
    return config.data.model_copy(update={"train": train, **sets})


def _write_pairs(
    folder: Path,
    name: str,
    endings: Sequence[str],
    pairs: Iterator[SentencePair],
    num_corpora: int,
    num_hypotheses: int = 1,
) -> None:
    """Write files of sources, targets and, with a third of `endings`, repeated sources, for each training corpus."""
    with ExitStack() as stack:
        files = [
            [
                stack.enter_context(open(folder / f"{name}-{number}.{ending}", "w", encoding="utf-8", newline="\n"))
                for ending in endings
            ]
            for number in range(1, num_corpora + 1)
        ]
        for pair in with_both_sides(pairs):
            src = pair.src + "\n"
            for file, text in zip(files[pair.corpus], (src, pair.tgt + "\n", src * num_hypotheses), strict=False):
                file.write(text)


def _written(corpus: Corpus, folder: Path, name: str, ending: str, *keys: str) -> tuple[ParallelFiles, ...]:
    """Return the files in `folder` with the pairs of training corpora, their languages and some of their `keys`."""
    written = []
    for number, files in enumerate(corpus.train, start=1):
        src = folder / f"{name}-{number}.src"
        if src.stat().st_size:
            direction = corpus.config.data.direction_of(files)
            kept = {"src_lang": direction.src, "tgt_lang": direction.tgt} | {key: getattr(files, key) for key in keys}
            written.append(ParallelFiles(src=str(src), tgt=str(src.with_suffix(f".{ending}"))).model_copy(update=kept))
    return tuple(written)


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
