"""Files, hold-out, tokenizer and store brought together before training, and the report on them."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Config
from nmt.config.sections import ParallelFiles
from nmt.data.corpus import SentencePair, paths_of, read_parallel
from nmt.data.holdout import Holdout, choose_holdout
from nmt.data.placeholders import VERSION as PLACEHOLDERS_VERSION
from nmt.data.placeholders import copy_with_placeholders, insert_placeholders
from nmt.data.spans import ANY_PLACEHOLDER, PLACEHOLDERS
from nmt.data.store import FORMAT, Sampling, Side, StoreNotes, TokenStore, build_store
from nmt.data.tokenizer import TokenizerPair, train_tokenizers
from nmt.errors import ConfigError, DataError, RunError
from nmt.files import FileHashes
from nmt.languages import written_without_spaces
from nmt.rundir import RunDir

log = logging.getLogger(__name__)

SPLITS = ("valid", "test")
_GZ_GROWS = 4  # text is about this much larger than its .gz


@dataclass
class Prepared:
    """What training needs of the data."""

    tokenizers: TokenizerPair
    store: TokenStore
    fingerprint: str
    report: dict[str, Any]


class Corpus:
    """The training files of one configuration, with what is held out of them."""

    def __init__(self, config: Config):
        self.config = config
        self.named = {name: getattr(config.data, name) for name in SPLITS}
        self.missing = [name for name, files in self.named.items() if files is None]

    @cached_property
    def holdout(self) -> Holdout | None:
        """What is held out of the training files, chosen in a pass over them; None where all sets are named."""
        if not self.missing:
            return None
        counts = dict.fromkeys(self.missing, self.config.data.holdout_size)
        sources = (pair.src for pair in read_parallel(self.config.data.train) if pair.src and pair.tgt)
        return choose_holdout(sources, counts, self.config.training.seed)

    def pairs(self, split: str) -> Iterator[SentencePair]:
        """All pairs of `split`, those with an empty side included."""
        if split != "train" and self.named[split] is not None:
            yield from read_parallel(self.named[split])
            return
        for pair in read_parallel(self.config.data.train):
            if self.holdout is None or self.holdout.split_of(pair.src) == split:
                yield pair

    def whole_pairs(self, split: str) -> Iterator[SentencePair]:
        """The pairs of `split` in which neither side is empty."""
        return (pair for pair in self.pairs(split) if pair.src and pair.tgt)

    def files(self) -> list[Path]:
        """Every file the corpus is read from."""
        named: list[ParallelFiles] = [self.config.data.train, *(files for files in self.named.values() if files)]
        return [path for files in named for path in paths_of(files)]


def prepare(config: Config, run: RunDir, store_root: Path, expected: str | None = None) -> Prepared:
    """Make or find all that training reads.

    Writes the validation and test sets and the tokenizer into `run` where they are not there yet, and the tokenized
    corpus under `store_root`, unless one with the same fingerprint lies there.
    RunError where the fingerprint is not the one `expected` (by a run that is resumed).
    """
    corpus = Corpus(config)
    for split in SPLITS:
        if not (run.data / f"{split}.src").exists():
            pairs = list(corpus.whole_pairs(split))
            if not pairs:
                raise DataError(f"the {split} set has no pair with text on both sides", path=corpus.files()[0])
            run.write_pairs(split, pairs)
    tokenizers = _tokenizers(config, run, corpus)
    fingerprint = _fingerprint(corpus, tokenizers, FileHashes(store_root / "hashes.json"))
    if expected not in (None, fingerprint):
        hint = "restore the files the run was started with, or start a new run with training.init_from"
        raise RunError("the corpus has changed since this run was started", path=run.path, hint=hint)
    folder = store_root / fingerprint
    if folder.is_dir():
        store = TokenStore(folder)
    else:
        _announce_need(corpus, tokenizers, store_root)
        notes = StoreNotes()
        store = build_store(folder, _counted(corpus, run, notes), tokenizers, notes, _sampling(config))
    report = _report(config, store) | {split: _split_report(config, corpus, run, tokenizers, split) for split in SPLITS}
    if report["too_long"] == len(store) and config.data.on_too_long == "drop":
        hint = "raise model.max_src_len and model.max_tgt_len, or set data.on_too_long to truncate"
        raise DataError("every training pair is too long, so all would be dropped", path=corpus.files()[0], hint=hint)
    run.write_json(run.report_file, report)
    if corpus.holdout and min(corpus.holdout.sizes.values()) < config.data.holdout_size:
        names, size = " and for ".join(corpus.missing), min(corpus.holdout.sizes.values())
        asked = config.data.holdout_size
        log.info(f"only {size} source sentences are held out for {names}, not {asked}: at most a tenth is taken")
    for line in describe(report):
        log.info(line)
    for line in warnings_about(report):
        log.warning(line)
    return Prepared(tokenizers, store, fingerprint, report)


def open_prepared(run: RunDir, store_root: Path, fingerprint: str) -> Prepared:
    """What `prepare` made for `run`."""
    tokenizers, store = TokenizerPair.load(run.tokenizer), TokenStore(store_root / fingerprint)
    return Prepared(tokenizers, store, fingerprint, run.read_json(run.report_file))


def _tokenizers(config: Config, run: RunDir, corpus: Corpus) -> TokenizerPair:
    """Those of the run; else those named by the configuration; else newly trained ones."""
    if run.tokenizer.is_dir():
        return TokenizerPair.load(run.tokenizer)
    if config.training.init_from:
        tokenizers = TokenizerPair.load(RunDir(Path(config.training.init_from)).tokenizer)
    elif config.tokenizer.path:
        tokenizers = TokenizerPair.load(Path(config.tokenizer.path))
    else:
        tokenizers = train_on_corpus(config, corpus)
    if tokenizers.joint != config.tokenizer.joint:
        has = "one vocabulary" if tokenizers.joint else "two vocabularies"
        raise ConfigError(
            f"tokenizer.joint is {str(config.tokenizer.joint).lower()}, but this tokenizer has {has}",
            path=config.tokenizer.path or config.training.init_from,
            hint=f"set tokenizer.joint to {str(tokenizers.joint).lower()}",
        )
    if config.data.protect and not tokenizers.know(PLACEHOLDERS):
        hint = "set data.protect to false, or train a new tokenizer (with `nmt vocab` or without tokenizer.path)"
        place = config.tokenizer.path or config.training.init_from
        raise ConfigError("data.protect is true, but this tokenizer has no placeholders", path=place, hint=hint)
    tokenizers.save(run.tokenizer)
    return tokenizers


def train_on_corpus(config: Config, corpus: Corpus | None) -> TokenizerPair:
    """Train the tokenizers on the training pairs of `config` (held-out sentences are not seen)."""
    whole = corpus or Corpus(config)
    wanted = config.tokenizer
    if config.data.protect:
        symbols = (*wanted.user_symbols, *(symbol for symbol in PLACEHOLDERS if symbol not in wanted.user_symbols))
        wanted = wanted.model_copy(update={"user_symbols": symbols})

    def side(name: str) -> Callable[[], Iterable[str]]:
        return lambda: (getattr(_masked(pair, config), name) for pair in whole.whole_pairs("train"))

    return train_tokenizers(wanted, side("src"), side("tgt"), seed=config.training.seed)


def _masked(pair: SentencePair, config: Config) -> SentencePair:
    """The pair as the model is to see it."""
    return insert_placeholders(pair, config.tokenizer.user_symbols) if config.data.protect else pair


def _announce_need(corpus: Corpus, tokenizers: TokenizerPair, store_root: Path) -> None:
    """Say how much disk a large store will take, by its first pairs; DataError where there is less."""
    first = list(islice(corpus.whole_pairs("train"), 2000))
    files = paths_of(corpus.config.data.train)
    num_bytes = sum(
        path.stat().st_size * (_GZ_GROWS if path.suffix == ".gz" else 1) for path in files if path.is_file()
    )
    sample_bytes = sum(len(f"{pair.src}{pair.tgt}".encode(errors="replace")) + 2 for pair in first)
    sides = (tokenizers.src.encode_batch(p.src for p in first), tokenizers.tgt.encode_batch(p.tgt for p in first))
    num_tokens = sum(len(ids) for side in sides for ids in side)
    need = int(num_bytes / max(1, sample_bytes) * (2 * num_tokens + 16 * len(first))) * corpus.config.tokenizer.samples
    existing = next(folder for folder in (store_root, *store_root.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    if need > free:
        hint = "make room, or name a folder on another disk in data.store_dir"
        raise DataError(
            f"the tokenized corpus needs about {need >> 20:,} MB; {free >> 20:,} MB are free", path=existing, hint=hint
        )
    log.info(f"tokenizing into {store_root}: about {-(-need >> 20):,} MB of disk, of {free >> 20:,} MB free")


def _fingerprint(corpus: Corpus, tokenizers: TokenizerPair, hashes: FileHashes) -> str:
    """Of all that decides the contents of a store: an edited corpus or another tokenizer makes another one."""
    config = corpus.config
    parts = {
        "format": FORMAT,
        "files": [hashes.sha256(path) for path in corpus.files()],
        "data": config.data.model_dump(include={"src_lang", "tgt_lang", "holdout_size"}),
        "columns": [files.columns for files in (config.data.train, *corpus.named.values()) if files],
        "held_out": [corpus.missing, config.training.seed if corpus.missing else None],
        "tokenizers": [tokenizers.src.fingerprint, tokenizers.tgt.fingerprint],
    }
    if config.data.protect:  # else absent: stores made before there were placeholders keep their names
        parts["placeholders"] = [
            PLACEHOLDERS_VERSION,
            config.data.placeholder_share,
            config.training.seed,
            config.tokenizer.user_symbols,
        ]
    if config.tokenizer.samples > 1:
        parts["sampling"] = _sampling(config)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def _sampling(config: Config) -> Sampling:
    return Sampling(config.tokenizer.samples, config.tokenizer.sampling_alpha, config.training.seed)


def _counted(corpus: Corpus, run: RunDir, notes: StoreNotes) -> Iterator[SentencePair]:
    """The training pairs to keep, counted into `notes` as they pass."""
    data = corpus.config.data
    count_src = len if written_without_spaces(data.src_lang) else lambda text: len(text.split())
    count_tgt = len if written_without_spaces(data.tgt_lang) else lambda text: len(text.split())
    sources = {split: set(run.read_pairs(split)[0]) for split in SPLITS}
    spaced = (not written_without_spaces(data.src_lang), not written_without_spaces(data.tgt_lang))
    num_kept = 0
    for pair in corpus.pairs("train"):
        if not (pair.src and pair.tgt):
            notes.empty += 1
            continue
        num_kept += 1
        notes.src_words += count_src(pair.src)
        notes.tgt_words += count_tgt(pair.tgt)
        notes.same_on_both_sides += pair.src == pair.tgt
        notes.in_valid += pair.src in sources["valid"]
        notes.in_test += pair.src in sources["test"]
        masked = _masked(pair, corpus.config)
        notes.masked += masked is not pair and ANY_PLACEHOLDER.search(masked.src) is not None
        yield masked
        seed, share = corpus.config.training.seed, data.placeholder_share
        if data.protect and (copy := copy_with_placeholders(masked, share=share, seed=seed, spaced=spaced)):
            notes.copies += 1
            yield copy
    if num_kept == 0:
        raise DataError("no pair with text on both sides", path=corpus.files()[0])


def _report(config: Config, store: TokenStore) -> dict[str, Any]:
    notes, samples = store.info.notes, config.tokenizer.samples
    sides = {
        "src": _side_report(store.src, config.model.max_src_len, notes.src_words * samples, config.data.src_lang),
        "tgt": _side_report(store.tgt, config.model.max_tgt_len, notes.tgt_words * samples, config.data.tgt_lang),
    }
    too_long = 0
    for src_len, tgt_len in zip(store.src.length_blocks(), store.tgt.length_blocks(), strict=True):
        too_long += int(((src_len + 1 > config.model.max_src_len) | (tgt_len + 1 > config.model.max_tgt_len)).sum())
    return {
        "pairs": len(store) // samples,
        "segmentations": samples,
        "empty_dropped": notes.empty,
        "too_long": too_long,
        "too_long_are": {"truncate": "truncated", "drop": "dropped"}[config.data.on_too_long],
        "same_on_both_sides": notes.same_on_both_sides,
        "with_protected_spans": notes.masked,
        "copies_with_placeholders": notes.copies,
        "train_sources_in_valid": notes.in_valid,
        "train_sources_in_test": notes.in_test,
        **sides,
    }


def _split_report(config: Config, corpus: Corpus, run: RunDir, tokenizers: TokenizerPair, split: str) -> dict[str, int]:
    """What is left out of the scores on the validation or test set."""
    sources = run.read_pairs(split)[0]
    lengths = [len(ids) + 1 for ids in tokenizers.src.encode_batch(sources)]
    num_rows = len(sources) if split in corpus.missing else sum(1 for _ in corpus.pairs(split))
    return {
        "pairs": len(sources),
        "empty_dropped": num_rows - len(sources),
        "too_long": sum(length > config.model.max_src_len for length in lengths),
    }


def _side_report(side: Side, limit: int, num_words: int, language: str) -> dict[str, Any]:
    counts = side.length_counts()  # how many sentences have each length
    up_to = counts.cumsum() / counts.sum()
    num_tokens = int((counts * np.arange(len(counts))).sum())
    return {
        "language": language,
        "tokens": num_tokens,
        "length_median": int(np.searchsorted(up_to, 0.5)),
        "length_99_percent": int(np.searchsorted(up_to, 0.99)),
        "length_longest": len(counts) - 1,
        "limit": limit,
        "tokens_per": "character" if written_without_spaces(language) else "word",
        "tokens_per_word": round(num_tokens / max(1, num_words), 2),
    }


def describe(report: dict[str, Any]) -> list[str]:
    """The report as lines for a person."""
    drawn = f", each in {report['segmentations']} segmentations" if report["segmentations"] > 1 else ""
    lines = [f"corpus: {report['pairs']:,} training pairs{drawn}"]
    for name in ("src", "tgt"):
        side = report[name]
        lines.append(
            f"  {side['language']}: {side['tokens']:,} tokens; {side['tokens_per_word']} a {side['tokens_per']}; "
            f"sentence length median {side['length_median']}, 99% up to {side['length_99_percent']}, "
            f"longest {side['length_longest']}"
        )
    if report["too_long"]:
        limits = f"{report['src']['limit']} source or {report['tgt']['limit']} target tokens"
        counted = "pairs, counted in every segmentation," if drawn else "pairs"
        lines.append(f"  {report['too_long']:,} {counted} longer than {limits} are {report['too_long_are']}")
    if report["empty_dropped"]:
        lines.append(f"  {report['empty_dropped']:,} pairs with an empty side are dropped")
    if report["copies_with_placeholders"] or report["with_protected_spans"]:
        lines.append(
            f"  {report['with_protected_spans']:,} pairs hold protected spans; "
            f"{report['copies_with_placeholders']:,} copies with placeholders are among the pairs"
        )
    return lines


def warnings_about(report: dict[str, Any]) -> list[str]:
    """Return what a person should know before training on the corpus of `report`."""
    lines = []
    if report["same_on_both_sides"] * 2 > report["pairs"]:
        lines.append("most pairs have the same text on both sides; are the columns right?")
    for split in SPLITS:
        if dropped := report[split]["empty_dropped"]:
            lines.append(f"{dropped:,} pairs of the {split} set have an empty side; its scores leave them out")
        if cut := report[split]["too_long"]:
            lines.append(f"{cut:,} sources of the {split} set are too long; their ends are not translated")
        if overlap := report[f"train_sources_in_{split}"]:
            lines.append(f"{overlap:,} training pairs have a source of the {split} set; its scores will flatter")
    return lines
