"""Prepare the data before training: held-out sets, tokenizers, tokenized corpus, and a report on the corpus."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import ConfigError, DataError, RunError, in_words
from nmt.base.languages import Direction, written_without_spaces
from nmt.config import Config
from nmt.data.lexicon.aligner import TENSION
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.read.pairs import SentencePair, paths_of
from nmt.data.store.mixing import corpus_weights, quotas
from nmt.data.store.report import SPLITS, CorpusCounts, CorpusPart, CorpusReport, SideReport, Split, SplitReport
from nmt.data.store.store import FORMAT, TokenStore, build_store
from nmt.data.text.augment import CopyMaker, PairChanger, TextPair
from nmt.data.text.placeholders import VERSION as PLACEHOLDERS_VERSION
from nmt.data.text.placeholders import copy_with_placeholders, insert_placeholders
from nmt.data.text.spans import ANY_PLACEHOLDER, PLACEHOLDERS
from nmt.data.text.tags import language_prefix, tags_before_sources, tags_before_targets, user_symbols
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.training.corpus.corpus import Corpus, with_both_sides, with_progress
from nmt.training.corpus.measure_text import record_statistics, record_twins

LEXICON_PAIRS = 100_000  # maximum number of pairs from which the lexicon of a run is learned

log = logging.getLogger(__name__)

MIN_NEW_CHARACTERS = 5
MIN_NEW_SHARE = 1e-6
"""The occurrences, and the share of all characters, from which a character of a new language becomes a token.

Rarer ones stay spelled in bytes: they would hardly be learned. Chosen by hand."""


class Prepared(NamedTuple):
    """The prepared data of a training."""

    tokenizers: TokenizerPair
    store: TokenStore
    fingerprint: str

    @classmethod
    def open(cls, run: RunDir, store_root: Path, fingerprint: str) -> Self:
        """Open the data that `prepare` created for `run`. RunError if it is damaged."""
        return cls(TokenizerPair.load(run.tokenizer), TokenStore(store_root / fingerprint), fingerprint)


def find_store_root(config: Config, path: Path) -> Path:
    """Return the folder for tokenized corpora of the run at `path`: `data.store_dir`, or `.store` beside the run.

    ConfigError if it would be in the run, which has no folder until its data is prepared.
    """
    if not (named := config.data.store_dir):
        return Path(os.path.abspath(path)).parent / ".store"
    if Path(os.path.realpath(named)).is_relative_to(os.path.realpath(path)):
        raise ConfigError(
            f"data.store_dir is {named}, which is in the run", path=path, hint="set it to a folder outside the run"
        )
    return Path(named)


def prepare(config: Config, run: RunDir, store_root: Path, expected: str | None = None) -> Prepared:
    """Create or find everything that training reads.

    Writes the validation and test sets, the tokenizer and the report into `run`, unless they exist, and the tokenized
    corpus into `store_root`, unless one with the same fingerprint exists. RunError if the fingerprint differs from
    `expected`, that of a resumed run.
    """
    base = None if run.tokenizer.is_dir() else load_base_tokenizers(config)  # fails before the corpus is read
    corpus = Corpus(config, store_root)
    _write_splits(corpus, run)
    tokenizers = _tokenizers(config, run, corpus, base)
    fingerprint = fingerprint_of(corpus, tokenizers)
    if expected not in (None, fingerprint):
        raise RunError(
            "the corpus has changed since this run was started",
            path=run.path,
            hint="restore the files the run was started with, or start a new run with training.init_from; "
            f"relative paths are resolved against {Path.cwd()}, so resume in the folder where the run was started",
        )
    folder = store_root / fingerprint
    if folder.is_dir():
        store = TokenStore(folder)
    else:
        corpus.log_check()
        log.info("tokenizing into %s", store_root)
        counts = CorpusCounts()
        store = build_store(folder, _counted(corpus, counts), tokenizers, counts)
    if not run.lexicon.exists():  # for alignments of translations
        TermLexicon.learn(store, TENSION, LEXICON_PAIRS).save(run.lexicon, tokenizers)
    report = _report(corpus, run, tokenizers, store)
    run.write_json(run.report_file, asdict(report))
    record_statistics(run, corpus, len(store), tokenizers.src, store_root / f"statistics-{fingerprint}.json")
    record_twins(run, corpus, store_root / f"twins-{fingerprint}.txt")
    _log_holdout(corpus, run)
    for line in report.describe():
        log.info(line)
    for line in report.warnings():
        log.warning(line)
    return Prepared(tokenizers, store, fingerprint)


def train_on_corpus(config: Config, corpus: Corpus | None = None) -> TokenizerPair:
    """Train the tokenizers on the training pairs of `config`, without held-out sentences."""
    text = corpus or Corpus(config)
    settings = config.tokenizer.model_copy(update={"user_symbols": _symbols(config)})

    def side(name: str) -> Callable[[], Iterable[str]]:
        return lambda: (getattr(pair, name) for pair in _tokenizer_pairs(config, text, settings.user_symbols))

    return train_tokenizers(settings, side("src"), side("tgt"), seed=config.training.seed)


def _tokenizer_pairs(config: Config, corpus: Corpus, symbols: Collection[str]) -> Iterator[TextPair]:
    """Yield the training pairs and, for the configured shares, augmented copies, which may add characters."""
    changers = [PairChanger(config.data.direction_of(files), symbols) for files in corpus.train]
    copies = CopyMaker(config.data.augment, changers, config.training.seed)
    with_placeholders = _placeholders_of(config)
    pairs = with_both_sides(with_progress(corpus.train_pairs(), "reading text for the tokenizer"))
    for number, pair in enumerate(pairs):
        texts = TextPair(*with_placeholders(pair)[:2])
        yield texts
        if copy := copies.copy_of(number, pair.corpus, texts):
            yield copy


def _symbols(config: Config) -> tuple[str, ...]:
    """Return the symbols that the tokenizers must never split."""
    placeholders = PLACEHOLDERS if config.data.protect else ()
    # Placeholders before tags, so that the symbols of a tokenizer without tags stay the same.
    return tuple(dict.fromkeys((*config.tokenizer.user_symbols, *placeholders, *user_symbols(config))))


def _write_splits(corpus: Corpus, run: RunDir) -> None:
    """Write the validation and the test set into the run, unless they exist.

    Pairs have the tags of their corpora, and are grouped by direction, in the order of training.
    """
    for split in SPLITS:
        if (run.data / f"{split}.src").exists():
            continue
        directions = corpus.config.data.directions
        by_direction: dict[Direction, list[SentencePair]] = {direction: [] for direction in directions}
        for pair in with_both_sides(corpus.pairs(split)):
            tagged = pair._replace(src=corpus.tag(split, pair) + pair.src)
            by_direction.setdefault(corpus.direction(split, pair), []).append(tagged)
        if not (pairs := [pair for group in by_direction.values() for pair in group]):
            raise DataError(f"the {split} set has no pair with text on both sides", path=corpus.files()[0])
        of_pairs = [direction for direction, group in by_direction.items() for _ in group]
        run.write_pairs(split, pairs, of_pairs if len(by_direction) > 1 else [])


def _log_holdout(corpus: Corpus, run: RunDir) -> None:
    """Log a message if the corpus is too small to hold out as many sentences as configured."""
    sizes = [len(set(run.read_pairs(split)[0])) for split in corpus.missing]
    size = min(sizes, default=0)
    holdout_size = corpus.config.data.holdout_size
    if corpus.missing and size < 0.9 * holdout_size:  # groups may leave a few sentences fewer
        instead = f"{size} source sentences for {in_words(corpus.missing)} instead of {holdout_size}"
        groups = ", in small groups that share no sentence with the rest" * corpus.config.data.holdout_groups
        log.info(f"Holding out {instead}: at most one tenth of the corpus is held out{groups}.")


def _tokenizers(config: Config, run: RunDir, corpus: Corpus, base: TokenizerPair | None) -> TokenizerPair:
    """Return the tokenizers of the run, else `base` with all symbols, else newly trained ones."""
    if run.tokenizer.is_dir():
        return TokenizerPair.load(run.tokenizer)
    if base is None:
        tokenizers = train_on_corpus(config, corpus)
    else:
        tokenizers = base.with_symbols(_symbols(config))
        origin = config.training.init_from or config.tokenizer.path
        if added := tokenizers.src.vocab_size - base.src.vocab_size:
            log.info("the tokenizer of %s gets %d new tokens for tags, placeholders or terms", origin, added)
        if config.training.init_from:
            with_tags = tokenizers
            tokenizers = _with_new_characters(config, corpus, tokenizers)
            pairs = (tokenizers.src, with_tags.src), (tokenizers.tgt, with_tags.tgt)
            if added := max(new.vocab_size - old.vocab_size for new, old in pairs):
                log.info("the tokenizer of %s gets %d characters of new languages", origin, added)
    tokenizers.save(run.tokenizer)
    return tokenizers


def _with_new_characters(config: Config, corpus: Corpus, tokenizers: TokenizerPair) -> TokenizerPair:
    """Return tokenizers with the frequent characters of languages that the run `training.init_from` does not know."""
    known = set(chain.from_iterable(find_run(config.training.init_from).config().data.directions))
    if known.issuperset(chain.from_iterable(config.data.directions)):
        return tokenizers
    counts: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for pair in with_progress(corpus.train_pairs(), "looking for new characters"):
        for count, code, text in zip(counts, corpus.direction("train", pair), pair[:2], strict=True):
            if code not in known:
                count.update(text)
    sides = []
    for count, tokenizer in zip(counts, (tokenizers.src, tokenizers.tgt), strict=True):
        least = max(MIN_NEW_CHARACTERS, MIN_NEW_SHARE * count.total())
        frequent = sorted(c for c, number in count.items() if number >= least)
        sides.append([character for character in frequent if tokenizer.lacks(character)])
    return tokenizers.with_characters(*sides)


def load_base_tokenizers(config: Config) -> TokenizerPair | None:
    """Load the tokenizers that the configuration names; None if new ones are to be trained.

    DataError if they cannot be read, ConfigError if the configuration does not suit them.
    """
    path = config.tokenizer.path
    run = config.training.init_from
    if run:
        tokenizers = TokenizerPair.load(find_run(run).tokenizer)
    elif path:
        tokenizers = TokenizerPair.load(Path(path), foreign=True)
    else:
        return None
    if tokenizers.joint != config.tokenizer.joint:
        vocabularies = "one vocabulary" if tokenizers.joint else "two vocabularies"
        raise ConfigError(
            f"tokenizer.joint is {str(config.tokenizer.joint).lower()}, but this tokenizer has {vocabularies}",
            path=run or path,
            hint=f"set tokenizer.joint to {str(tokenizers.joint).lower()}",
        )
    return tokenizers


def _placeholders_of(config: Config) -> Callable[[SentencePair], SentencePair]:
    """Return a function that inserts placeholders for protected spans, if the configuration asks for them."""
    symbols = user_symbols(config)
    return (lambda pair: insert_placeholders(pair, symbols)) if config.data.protect else (lambda pair: pair)


def fingerprint_of(corpus: Corpus, tokenizers: TokenizerPair) -> str:
    """Return a hash of everything that determines the contents of a store."""
    data = corpus.config.data
    placeholders = [PLACEHOLDERS_VERSION, data.placeholder_share, corpus.config.tokenizer.user_symbols]
    parts = {
        "format": FORMAT,
        "corpus": corpus.identity(),
        "languages": [data.src_lang, data.tgt_lang],
        "tokenizers": [tokenizers.src.fingerprint, tokenizers.tgt.fingerprint],
        "placeholders": placeholders if data.protect else [],
        "seed": corpus.config.training.seed if data.protect else 0,
        "language_tags": corpus.config.model.language_tags,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def _counted(corpus: Corpus, counts: CorpusCounts) -> Iterator[SentencePair]:
    """Yield the training pairs as the model sees them, and copies of some with more placeholders; count them."""
    data = corpus.config.data
    seed = corpus.config.training.seed
    valid_sources, test_sources = (_sources(corpus, split) for split in SPLITS)
    tags = tags_before_sources(corpus.config)
    tgt_tags = tags_before_targets(corpus.config)
    with_placeholders = _placeholders_of(corpus.config)
    num_whole = 0
    for pair in with_progress(corpus.train_pairs(), "tokenizing"):
        if not (pair.src and pair.tgt):
            counts.empty_dropped += 1
            continue
        num_whole += 1
        direction = corpus.direction("train", pair)
        counts.src_words += _count_words(pair.src, direction.src)
        counts.tgt_words += _count_words(pair.tgt, direction.tgt)
        counts.same_on_both_sides += pair.src == pair.tgt
        counts.sources_in_valid += pair.src in valid_sources[direction]
        counts.sources_in_test += pair.src in test_sources[direction]
        protected = with_placeholders(pair)
        copy = None
        counts.with_protected_spans += protected is not pair and ANY_PLACEHOLDER.search(protected.src) is not None
        if data.protect:
            copy = copy_with_placeholders(protected, direction, share=data.placeholder_share, seed=seed)
            counts.copies_with_placeholders += copy is not None
        for seen in filter(None, (protected, copy)):
            yield seen._replace(src=tags[pair.corpus] + seen.src, tgt=tgt_tags[pair.corpus] + seen.tgt)
    corpus.count_filtered(counts)
    if num_whole == 0:
        raise DataError("no pair with text on both sides", path=corpus.files()[0])


def _sources(corpus: Corpus, split: Split) -> Mapping[Direction, set[str]]:
    """Return the sources of a validation or test set by direction."""
    sources: dict[Direction, set[str]] = defaultdict(set)
    for pair in with_both_sides(corpus.pairs(split)):
        sources[corpus.direction(split, pair)].add(pair.src)
    return sources


def _count_words(text: str, language: str) -> int:
    """Count words, or characters if the language is written without spaces."""
    return len(text) if written_without_spaces(language) else len(text.split())


def _report(corpus: Corpus, run: RunDir, tokenizers: TokenizerPair, store: TokenStore) -> CorpusReport:
    data = corpus.config.data
    model = corpus.config.model
    counts = store.counts
    too_long = 0
    for src_len, tgt_len in zip(store.src.length_blocks(), store.tgt.length_blocks(), strict=True):
        too_long += int(((src_len + 1 > model.max_src_len) | (tgt_len + 1 > model.max_tgt_len)).sum())
    sources, targets = (list(dict.fromkeys(codes)) for codes in zip(*data.directions, strict=True))
    src_counts, tgt_counts = store.src.length_counts(), store.tgt.length_counts()
    return CorpusReport(
        pairs=len(store),
        too_long=too_long,
        counts=counts,
        src=SideReport.from_counts(src_counts, counts.src_words, model.max_src_len, sources),
        tgt=SideReport.from_counts(tgt_counts, counts.tgt_words, model.max_tgt_len, targets),
        valid=_split_report(corpus, run, tokenizers, "valid"),
        test=_split_report(corpus, run, tokenizers, "test"),
        corpora=_parts(corpus, store) if len(corpus.train) > 1 else (),
    )


def _parts(corpus: Corpus, store: TokenStore) -> tuple[CorpusPart, ...]:
    """Report each training corpus and its share of an epoch."""
    data = corpus.config.data
    sizes = store.sizes(len(corpus.train))
    weights = corpus_weights(data, sizes)
    per_epoch = sizes if weights is None else quotas(sizes, weights)
    filtered = store.counts.filtered_by_corpus or [0] * len(sizes)
    return tuple(
        CorpusPart(
            files=", ".join(map(str, paths_of(files))),
            direction=str(data.direction_of(files)),
            tag=files.tag,
            pairs=pairs,
            pairs_per_epoch=quota,
            filtered=num_filtered,
        )
        for files, pairs, quota, num_filtered in zip(corpus.train, sizes, per_epoch, filtered, strict=True)
    )


def _split_report(corpus: Corpus, run: RunDir, tokenizers: TokenizerPair, split: Split) -> SplitReport:
    """Report which parts of the validation or test set its scores leave out."""
    limit = corpus.config.model.max_src_len
    sets = run.read_sets(split, corpus.config.data.directions[0])
    sources = [language_prefix(corpus.config, pairs.direction) + text for pairs in sets for text in pairs.sources]
    num_rows = sum(1 for _ in corpus.pairs(split)) if split in corpus.named else len(sources)
    too_long = sum(len(ids) + 1 > limit for ids in tokenizers.src.encode_batch(sources))
    return SplitReport(pairs=len(sources), empty_dropped=num_rows - len(sources), too_long=too_long)
