"""The text for adapting a model: the new corpus, a sample of the old one, and held-out sets of both."""

from __future__ import annotations

import hashlib
import heapq
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.errors import DataError, NmtError, RunError
from nmt.base.files import new_folder
from nmt.base.languages import Direction
from nmt.config import Config, DataConfig
from nmt.config.corpora import ParallelFiles
from nmt.data.read.pairs import SentencePair, paths_of, read_parallel
from nmt.data.store.report import SPLITS, CorpusCounts, CorpusReport, Split
from nmt.data.text.tags import corpus_tags
from nmt.training.corpus.corpus import Corpus, with_both_sides

log = logging.getLogger(__name__)

DEFAULT_MIX = 0.5  # the default share of the old corpus in training
NEW, OLD = "new", "old"  # the names of the two corpora, in file names and messages
_EPOCHS = ((2_000, 20), (10_000, 10), (100_000, 3))  # (largest number of pairs, passes); one pass for larger corpora

_MIN_PAIRS = 50  # of a corpus in the sample

_Texts = Sequence[tuple[str, str]]


class Portion(NamedTuple):
    """Pairs of one direction, which become two files, and the other keys of their corpus in the configuration."""

    name: str
    pairs: _Texts
    keys: dict[str, object]


class AdaptationCorpus(NamedTuple):
    """All text of an adaptation, in memory; `write` creates the files that training reads."""

    data: DataConfig  # of the run
    train: list[Portion]  # the new text first
    valid: list[Portion]
    test: list[Portion]
    mix: float

    def write(self, store_root: Path) -> DataConfig:
        """Write the files into a folder named after their contents, if it is missing; return the data section."""
        sets = {"train": self.train, "valid": self.valid, "test": self.test}
        named = {f"{split}-{part.name}": part.pairs for split, parts in sets.items() for part in parts}
        digest = hashlib.sha256(json.dumps(list(named.items())).encode()).hexdigest()
        folder = store_root / f"adapt-{digest[:24]}"
        if not folder.is_dir():
            with new_folder(folder) as partial:
                for name, pairs in named.items():
                    for side, ending in enumerate(("src", "tgt")):
                        text = "".join(pair[side] + "\n" for pair in pairs)
                        (partial / f"{name}.{ending}").write_text(text, encoding="utf-8", newline="\n")
        files: dict[str, object] = {}
        for split, parts in sets.items():
            names = (str(folder / f"{split}-{part.name}") for part in parts)
            files[split] = tuple(
                ParallelFiles(src=f"{name}.src", tgt=f"{name}.tgt").model_copy(update=part.keys)
                for name, part in zip(names, parts, strict=True)
            )
        return self.data.model_copy(update={**files, "temperature": 1.0, "mono_tgt": None})


def collect(
    run: RunDir, new: DataConfig, mix: float | None = None, old_test: Sequence[DirectedPairs] = ()
) -> AdaptationCorpus:
    """Read the new corpus, hold sentences out of it, and draw the sample of the run's old corpus to replay.

    `new` is the data section of the new text, in one direction; `mix` the share of the old corpus in training (None:
    DEFAULT_MIX if it can be read); `old_test` the old test set, if it is not the run's.

    No sentence of a validation or test set, old or new, is used for training. The sample has the size that its share
    `mix` of the training requires. It is drawn by a seeded hash, so the same text gives the same corpus. DataError if
    the new corpus has too few pairs; RunError if the old corpus is required but cannot be read.
    """
    data = run.config().data
    old = old_sets(run)
    direction = new.directions[0]
    pairs, held_out = _hold_out(run.config(), new)
    tags = ("", *(f"{tag} " for tag in corpus_tags(data)))
    sources = {src for texts in held_out.values() for src, _ in texts}
    for each in chain(*old.values(), old_test):
        sources |= {text.removeprefix(tag) for text in each.sources for tag in tags}
    directions = data.directions
    train = [pair for pair in pairs if not _is_held_out(pair, sources, directions)]
    if num_left_out := len(pairs) - len(train):
        log.info("%s new pairs are left out of training: a test or validation set contains them", num_left_out)
    if not train:
        raise DataError(
            "no new pair is left to train on",
            path=paths_of(new.corpora("train"))[0],
            hint="choose a test set that does not contain all of them",
        )
    replayed, mix = _replayed(run, mix, len(train), sources)
    keys = _languages(direction)
    first = Portion(NEW, train, keys)
    valid, test = (Portion(NEW, held_out[split], keys) for split in SPLITS)
    old_valid = _sample_of_sets(old["valid"], len(valid.pairs))
    return AdaptationCorpus(data, weighted([first, *replayed], mix), [valid, *old_valid], [test], mix)


def weighted(portions: Sequence[Portion], mix: float) -> list[Portion]:
    """Return portions of a training corpus, new and old, with weights that give the old ones the share `mix`."""
    first, *old = portions
    sizes = [max(len(part.pairs), _MIN_PAIRS) for part in old]  # so that an epoch has some of each
    weights = [1 - mix, *(mix * size / sum(sizes) for size in sizes)] if old else [None]
    return [
        part._replace(keys=part.keys | {"weight": weight}) for part, weight in zip([first, *old], weights, strict=True)
    ]


def _languages(direction: Direction) -> dict[str, object]:
    return {"src_lang": direction.src, "tgt_lang": direction.tgt}


def old_sets(run: RunDir) -> Mapping[Split, list[DirectedPairs]]:
    """Return the validation and test sets of a run; empty ones if its model was imported."""
    if not run.data.is_dir():
        return {split: [] for split in SPLITS}
    return {split: run.read_sets(split, run.config().data.directions[0]) for split in SPLITS}


def epochs_for(num_pairs: int) -> int:
    """Return the number of passes over `num_pairs` new pairs."""
    return next((epochs for limit, epochs in _EPOCHS if num_pairs <= limit), 1)


def _hold_out(config: Config, new: DataConfig) -> tuple[_Texts, Mapping[Split, _Texts]]:
    """Return the new pairs that the filters of the run keep, and the new validation and test sets.

    The validation set is held out of the pairs, and so is the test set, unless `new` names one.
    """
    corpus = Corpus(config.model_copy(update={"data": new}))
    sets = {split: _texts(corpus.pairs(split)) for split in SPLITS}
    pairs = _texts(corpus.train_pairs())
    counts = CorpusCounts()
    corpus.count_filtered(counts)
    for line in counts.describe_filtered():
        log.info("new text: %s", line)
    return pairs, sets


def _texts(pairs: Iterator[SentencePair]) -> _Texts:
    return [(pair.src, pair.tgt) for pair in with_both_sides(pairs)]


def _is_held_out(pair: tuple[str, str] | SentencePair, held_out: Collection[str], directions: Sized) -> bool:
    """Return whether the source of `pair` is in `held_out`; with several directions, whether either side is."""
    return any(text in held_out for text in pair[: len(directions)])  # with a line, too, which is no text


def _replayed(
    run: RunDir, wanted: float | None, num_new: int, held_out: Collection[str]
) -> tuple[list[Portion], float]:
    """Return the sample of the old corpus, and its share in training; 0 if there is none."""
    mix = DEFAULT_MIX if wanted is None else wanted
    is_alone = len(run.config().data.directions) == 1
    if not mix and is_alone:
        return [], 0.0
    if not mix:
        raise RunError(
            "a model for several directions forgets those it is not trained on",
            path=run.path,
            hint="replay some of it, such as --mix 0.5",
        )
    try:
        size = round(epochs_for(num_new) * num_new * mix / (1 - mix))
        return _sample(run, max(1, size), held_out), mix
    except NmtError as error:
        if wanted is not None or not is_alone:
            raise RunError(
                f"its old corpus cannot be read: {error.message}",
                path=run.path,
                hint="put the files back where the run was trained on them, or adapt without them: --mix 0",
            ) from error
        log.warning(
            f"the old corpus of {run.path} cannot be read ({error.message}), so none of it is replayed: the model may "
            "lose quality on text unlike the new corpus"
        )
        return [], 0.0


def _sample(run: RunDir, size: int, held_out: Collection[str]) -> list[Portion]:
    """Return up to `size` pairs of the old training corpora, in the same proportions as in an epoch.

    The filters come later, so that a corpus with a small share needs some pairs more than its share.
    """
    data = run.config().data
    corpora = data.corpora("train")
    directions = data.directions

    def hashed(files: ParallelFiles) -> Iterator[tuple[bytes, int, str, str]]:
        for pair in with_both_sides(read_parallel(files, data.characters)):
            if not _is_held_out(pair, held_out, directions):
                text = f"{pair.src}\t{pair.tgt}".encode("utf-8", "surrogatepass")
                yield hashlib.blake2b(text, digest_size=8).digest(), pair.line, pair.src, pair.tgt

    portions = []
    for number, (files, share) in enumerate(zip(corpora, _shares(run, len(corpora)), strict=True), start=1):
        chosen = heapq.nsmallest(max(_MIN_PAIRS, round(size * share)), hashed(files)) if share else []
        pairs = [(src, tgt) for _, _, src, tgt in sorted(chosen, key=itemgetter(1))]  # in corpus order
        if pairs:
            keys = {"tag": files.tag, "filters": data.filters_of(files)}
            portions.append(Portion(f"{OLD}-{number}", pairs, _languages(data.direction_of(files)) | keys))
    if not portions:
        raise DataError("all its pairs are in a test or validation set", path=paths_of(corpora)[0])
    return portions


def _shares(run: RunDir, num_corpora: int) -> list[float]:
    """Return the share of each old corpus in an epoch of the run's training."""
    try:
        parts = CorpusReport.from_json(run.read_json(run.report_file)).corpora
    except (RunError, ValueError):
        parts = ()
    counts = [part.pairs_per_epoch for part in parts] or [1] * num_corpora
    return [count / sum(counts) for count in counts]


def _sample_of_sets(sets: Sequence[DirectedPairs], size: int) -> Iterator[Portion]:
    """Yield about `size` pairs of a run's validation set, evenly spaced, by direction."""
    total = sum(len(pairs.sources) for pairs in sets)
    for number, (direction, sources, references) in enumerate(sets, start=1):
        count = min(len(sources), max(1, size * len(sources) // total))
        indices = [i * len(sources) // count for i in range(count)]
        yield Portion(f"{OLD}-{number}", [(sources[i], references[i]) for i in indices], _languages(direction))
