"""The text for adapting a model: the new corpus, a sample of the old one, and held-out sets of both."""

from __future__ import annotations

import hashlib
import heapq
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from nmt.config.data import Characters
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


class Request(NamedTuple):
    """The text to adapt a run to, and how much of its old text to replay."""

    corpora: tuple[ParallelFiles, ...]  # the new text, with its languages
    direction: Direction
    test: tuple[ParallelFiles, ...] = ()  # empty: held out of the new text
    old_test: tuple[ParallelFiles, ...] = ()  # empty: the run's
    mix: float | None = None  # share of the old corpus in training; None: DEFAULT_MIX if the old corpus can be read
    holdout_size: int = 500


class Portion(NamedTuple):
    """Pairs of one direction in two files; for old pairs, the corpus of the run and its share in an epoch of it."""

    name: str
    direction: Direction
    pairs: _Texts
    origin: ParallelFiles | None = None
    share: float = 1.0


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
        files = {split: tuple(self._files(folder, split, part) for part in parts) for split, parts in sets.items()}
        return self.data.model_copy(update={**files, "temperature": 1.0})

    def _old_shares(self) -> dict[str, float]:
        """Return the share of each old part among the old pairs of an epoch, raised to about two pairs."""
        old, num_pairs = self.train[1:], sum(len(part.pairs) for part in self.train)
        total, smallest = sum(part.share for part in old), 2 / (self.mix * num_pairs)
        raised = {part.name: max(part.share / total, smallest) for part in old}
        return {name: share / sum(raised.values()) for name, share in raised.items()}

    def _files(self, folder: Path, split: str, part: Portion) -> ParallelFiles:
        src, tgt = (str(folder / f"{split}-{part.name}.{ending}") for ending in ("src", "tgt"))
        files = ParallelFiles(src=src, tgt=tgt, src_lang=part.direction.src, tgt_lang=part.direction.tgt)
        if split != "train":
            return files
        changes: dict[str, object] = {"name": part.name}
        if self.mix:
            changes["weight"] = 1 - self.mix if part.origin is None else self.mix * self._old_shares()[part.name]
        if part.origin is not None:
            changes |= {"tag": part.origin.tag, "filters": self.data.filters_of(part.origin)}
        return files.model_copy(update=changes)


def collect(run: RunDir, request: Request) -> AdaptationCorpus:
    """Read the new corpus, hold sentences out of it, and draw the sample of the run's old corpus to replay.

    No sentence of a validation or test set, old or new, is used for training. The sample has the size that its share
    `mix` of the training requires. It is drawn by a seeded hash, so the same text gives the same corpus. DataError if
    the new corpus has too few pairs; RunError if the old corpus is required but cannot be read.
    """
    data, old = run.config().data, old_sets(run)
    new, held_out = _hold_out(run.config(), request)
    tags = tuple(f"{tag} " for tag in corpus_tags(data))
    sources = {text for texts in held_out.values() for text, _ in texts}
    for pairs in chain.from_iterable(old.values()):
        for text in pairs.sources:
            sources.add(text.removeprefix(next((tag for tag in tags if text.startswith(tag)), "")))
    sources |= {src for src, _ in read_texts(request.old_test, data.characters)}
    train = [pair for pair in new if not _is_held_out(pair, sources, data)]
    if num_left_out := len(new) - len(train):
        log.info("%s new pairs are left out of training: a test or validation set contains them", num_left_out)
    if not train:
        hint = "choose a test set that does not contain all of them"
        raise DataError("no new pair is left to train on", path=paths_of(request.corpora)[0], hint=hint)
    replayed, mix = _replayed(run, request, len(train), sources)
    new_train, new_valid, new_test = (
        Portion(NEW, request.direction, pairs) for pairs in (train, held_out["valid"], held_out["test"])
    )
    old_valid = _sample_of_sets(old["valid"], len(held_out["valid"]))
    return AdaptationCorpus(data, [new_train, *replayed], [new_valid, *old_valid], [new_test], mix)


def old_sets(run: RunDir) -> Mapping[Split, list[DirectedPairs]]:
    """Return the validation and test sets of a run; empty ones if its model was imported."""
    if not run.data.is_dir():
        return {split: [] for split in SPLITS}
    return {split: run.read_sets(split, run.config().data.directions[0]) for split in SPLITS}


def read_texts(corpora: Sequence[ParallelFiles], characters: Characters) -> _Texts:
    """Return the pairs with text on both sides, read as `data.characters`. DataError if corpora have none."""
    pairs = _texts(read_parallel(corpora, characters))
    if corpora and not pairs:
        raise DataError("no pair with text on both sides", path=paths_of(corpora)[0])
    return pairs


def epochs_for(num_pairs: int) -> int:
    """Return the number of passes over `num_pairs` new pairs."""
    return next((epochs for limit, epochs in _EPOCHS if num_pairs <= limit), 1)


def _hold_out(config: Config, request: Request) -> tuple[_Texts, Mapping[Split, _Texts]]:
    """Return the new pairs that the filters of the run keep, and the new validation and test sets.

    The validation set is held out of the pairs, and so is the test set, unless one is requested.
    """
    named = {"train": request.corpora, "valid": None, "test": request.test or None, "temperature": 1.0}
    data = config.data.model_copy(update=named | {"holdout_size": request.holdout_size})
    corpus = Corpus(config.model_copy(update={"data": data}))
    sets = {split: _texts(corpus.pairs(split)) for split in SPLITS}
    new = _texts(corpus.train_pairs())
    counts = CorpusCounts()
    corpus.count_filtered(counts)
    for line in counts.describe_filtered():
        log.info("new text: %s", line)
    return new, sets


def _texts(pairs: Iterator[SentencePair]) -> _Texts:
    return [(pair.src, pair.tgt) for pair in with_both_sides(pairs)]


def _is_held_out(pair: tuple[str, str], held_out: Collection[str], data: DataConfig) -> bool:
    """Return whether the source of `pair` is in `held_out`; with several directions, whether either side is."""
    return pair[0] in held_out or (len(data.directions) > 1 and pair[1] in held_out)


def _replayed(run: RunDir, request: Request, num_new: int, held_out: Collection[str]) -> tuple[list[Portion], float]:
    """Return the sample of the old corpus, and its share in training; 0 if there is none."""
    mix = DEFAULT_MIX if request.mix is None else request.mix
    is_alone = len(run.config().data.directions) == 1
    if not mix and is_alone:
        return [], 0.0
    if not mix:
        hint = "replay some of it, such as --mix 0.5"
        raise RunError("a model for several directions forgets those it is not trained on", path=run.path, hint=hint)
    try:
        size = round(epochs_for(num_new) * num_new * mix / (1 - mix))
        return _sample(run, max(1, size), held_out), mix
    except NmtError as error:
        if request.mix is not None or not is_alone:
            hint = "put the files back where the run was trained on them, or adapt without them: --mix 0"
            raise RunError(f"its old corpus cannot be read: {error.message}", path=run.path, hint=hint) from error
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

    def hashed(files: ParallelFiles) -> Iterator[tuple[bytes, int, str, str]]:
        for pair in with_both_sides(read_parallel(files, data.characters)):
            if not _is_held_out((pair.src, pair.tgt), held_out, data):
                text = f"{pair.src}\t{pair.tgt}".encode("utf-8", "surrogatepass")
                yield hashlib.blake2b(text, digest_size=8).digest(), pair.line, pair.src, pair.tgt

    portions = []
    for number, (files, share) in enumerate(zip(corpora, _shares(run, len(corpora)), strict=True), start=1):
        chosen = heapq.nsmallest(max(_MIN_PAIRS, round(size * share)), hashed(files)) if share else []
        pairs = [(src, tgt) for _, _, src, tgt in sorted(chosen, key=itemgetter(1))]  # in corpus order
        if pairs:
            portions.append(Portion(f"{OLD}-{number}", data.direction_of(files), pairs, files, share))
    if not portions:
        raise DataError("all its pairs are in a test or validation set", path=paths_of(corpora)[0])
    return portions


def _shares(run: RunDir, num_corpora: int) -> list[float]:
    """Return the share of each old corpus in an epoch of the run's training."""
    try:
        parts = CorpusReport.from_json(run.read_json(run.report_file)).corpora
    except (RunError, ValueError):
        parts = ()
    counts = [part.pairs_per_epoch for part in parts]
    if len(counts) != num_corpora or not sum(counts):
        return [1 / num_corpora] * num_corpora
    return [count / sum(counts) for count in counts]


def _sample_of_sets(sets: Sequence[DirectedPairs], size: int) -> Iterator[Portion]:
    """Yield about `size` pairs of a run's validation set, evenly spaced, by direction."""
    total = sum(len(pairs.sources) for pairs in sets)
    for number, (direction, sources, references) in enumerate(sets, start=1):
        count = min(len(sources), max(1, size * len(sources) // total))
        indices = [i * len(sources) // count for i in range(count)]
        yield Portion(f"{OLD}-{number}", direction, [(sources[i], references[i]) for i in indices])
