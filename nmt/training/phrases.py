"""When training ends: build the phrase table of a small corpus, and find out whether it or the network is better."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from nmt.artifacts.run_records import PhraseScores, Quality
from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.errors import ConfigError, NmtError, counted
from nmt.config import Config
from nmt.data.phrases.alignment import Links, align
from nmt.data.phrases.table import PhraseTable
from nmt.data.phrases.words import SourceFolder, stems_of
from nmt.data.read.lines import read_lines
from nmt.data.store.report import SPLITS
from nmt.data.store.store import TokenStore
from nmt.data.text.characters import AS_WRITTEN
from nmt.data.text.tags import corpus_tags, language_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.phrase_engine import PhraseEngine
from nmt.training.corpus.prepare import Prepared
from nmt.training.parts import Training
from nmt.training.phrase_tuning import SENTENCES, tune
from nmt.translation import Translation

log = logging.getLogger(__name__)

MIN_PAIRS, MAX_PAIRS = 500, 16_000  # of the tokenized corpus, its augmented copies included
_MIN_TUNED = 20  # validation pairs
# Sets of one corpus may differ by a third in target tokens per source token. The best guess for another set is halfway
# between the validation set and the training pairs, and it gives the words per word of the validation set that are
# aimed at: more than one, because BLEU and chrF punish a word too few more than a word too many.
_SHARE_OF_PAIRS = 0.5
_LENGTHS = (1.03, 1.12)
_LONGEST = 150  # tokens of a pair that is learned from


def why_no_table(config: Config, tokenizers: TokenizerPair, num_pairs: int, num_valid: int) -> str:
    """Return why no phrase table is built; empty if one is."""
    if len(config.data.directions) > 1 or language_tags(config) or corpus_tags(config.data):
        return "phrase tables are for models with one direction and without tags"
    if "char" in (tokenizers.src.type, tokenizers.tgt.type):
        return "phrases of a few characters are no translations"
    if not MIN_PAIRS <= num_pairs <= MAX_PAIRS:
        return f"phrase tables are for {MIN_PAIRS:,} to {MAX_PAIRS:,} pairs, not {num_pairs:,}"
    if num_valid < _MIN_TUNED:
        return f"a phrase table needs at least {_MIN_TUNED} validation pairs"
    return ""


def check_more_tgt(config: Config, prepared: Prepared, run: RunDir) -> None:
    """Check `data.mono_tgt`. ConfigError if there will be no phrase table for it, DataError as `read_lines`."""
    if not config.data.mono_tgt:
        return
    log.info("%s: %s for the phrase table", config.data.mono_tgt, counted(len(read_more_tgt(config, run)), "sentence"))
    num_valid = len(run.read_pairs("valid")[0])
    if reason := why_no_table(config, prepared.tokenizers, len(prepared.store), num_valid):
        fault = "data.mono_tgt is for the language model of a phrase table, and this run will have none"
        raise ConfigError(
            f"{fault}: {reason}",
            path=config.data.mono_tgt,
            hint="leave it out; `nmt synthesize` makes training pairs of such text",
        )


def read_more_tgt(config: Config, run: RunDir) -> list[str]:
    """Return the different sentences of `data.mono_tgt`, without those of the validation and the test set."""
    if not config.data.mono_tgt:
        return []
    written = AS_WRITTEN if config.data.characters == "normalized" else str
    lines = dict.fromkeys(written(line).strip() for line in read_lines(Path(config.data.mono_tgt)))
    held_out = {"", *chain.from_iterable(run.read_pairs(split)[1] for split in SPLITS)}
    return [line for line in lines if line not in held_out]


def learn_phrases(
    store: TokenStore,
    tokenizers: TokenizerPair,
    valid: DirectedPairs,
    rivals: Sequence[str] | None = None,
    more_tgt: Sequence[str] = (),
) -> PhraseTable | None:
    """Learn a table from all pairs of `store`, and tune its weights on `valid`. RunError if the store is damaged.

    None if it cannot surpass `rivals`, other translations of `valid`. `more_tgt`: text for the language model.
    """
    folder = SourceFolder(tokenizers)
    sides = (list[list[int]](), list[list[int]]())
    for number in range(len(store)):
        src, tgt = (side.concatenated(np.array([number])).tolist() for side in (store.src, store.tgt))
        is_copy = folder.has_symbols(src) or tokenizers.tgt.decode(tgt).isupper()  # as augmentation makes them
        if src and tgt and max(len(src), len(tgt)) <= _LONGEST and not is_copy:
            sides[0].append(folder.lower(src).tolist())
            sides[1].append(tgt)
    more_tokens = tokenizers.tgt.encode_batch(more_tgt)
    table = PhraseTable.learn(*sides, _align(sides, tokenizers), tokenizers.tgt.vocab_size, more_tokens)
    valid_src, valid_tgt = tokenizers.src.encode_batch(valid.sources), tokenizers.tgt.encode_batch(valid.references)
    length = 1 + _SHARE_OF_PAIRS * (_tgt_per_src(*sides) / _tgt_per_src(valid_src, valid_tgt) - 1)
    places = np.unique(np.linspace(0, len(valid.sources) - 1, SENTENCES).astype(int)).tolist()
    tuned = DirectedPairs(valid.direction, *([texts[place] for place in places] for texts in valid[1:]))
    others = None if rivals is None else [rivals[place] for place in places]
    return tune(
        table,
        [folder.fold(valid_src[place]) for place in places],
        tuned,
        tokenizers,
        np.clip(length, *_LENGTHS),
        others,
    )


def _tgt_per_src(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> float:
    return sum(map(len, tgt), 1) / sum(map(len, src), 1)


def _align(sides: tuple[list[list[int]], list[list[int]]], tokenizers: TokenizerPair) -> list[list[Links]]:
    """Return four alignments of all pairs: two of their tokens, two of their words, which link all of their tokens.

    On three small corpora, the phrases of all four were better than those of any two.
    """
    alignments = []
    for words in (False, True):
        src, tgt = (
            stems_of(tokenizer, rows, words=words)
            for tokenizer, rows in zip((tokenizers.src, tokenizers.tgt), sides, strict=True)
        )
        for found in align(src.numbers, tgt.numbers, (src.size, tgt.size)):
            expanded = [
                [(i, j) for s, t in links for i in range(*src_ends[s : s + 2]) for j in range(*tgt_ends[t : t + 2])]
                for links, src_ends, tgt_ends in zip(found, src.ends, tgt.ends, strict=True)
            ]
            alignments.append(expanded)
    return alignments


def build_table(training: Training, translated: list[list[Translation]] | None) -> list[list[Translation]] | None:
    """Build the phrase table, and score it beside the network on the validation set; save the scores in index.json.

    Return the translations of the set by the table, None without one; `translated` are those by the network. A failure
    is only a warning: the training itself is complete.
    """
    run = RunDir(training.run.path)
    sets = training.validator.sets
    if reason := why_no_table(training.config, training.tokenizers, len(training.store), len(sets[0].sources)):
        log.debug("no phrase table: %s", reason)
        run.phrases.unlink(missing_ok=True)
        return None
    try:
        log.info("building a phrase table")
        rivals = None if translated is None else [each.text for each in translated[0]]
        more_tgt = read_more_tgt(training.config, run)
        table = learn_phrases(training.store, training.tokenizers, sets[0], rivals, more_tgt)
        if table is None:
            log.info("no phrase table: on the validation set, even the best of its lists is worse than the network")
            run.phrases.unlink(missing_ok=True)
            run.write_json(run.index_file, run.index().model_copy(update={"phrases": None}))
            return None
        table.save(run.phrases, training.tokenizers)
        engine = PhraseEngine.load(run, training.tokenizers)
        (bleu, chrf), by_table = training.validator.translate(engine)
        index = run.index()
        name = run.best_checkpoint().stem
    except (NmtError, OSError) as error:
        log.warning("no phrase table was built: %s", error)
        return None
    of_network = Quality(bleu=index.checkpoints[name]["bleu"], chrf=index.checkpoints[name]["chrf"])
    scores = PhraseScores(checkpoint=name, table=Quality(bleu=bleu, chrf=chrf), network=of_network)
    run.write_json(run.index_file, index.model_copy(update={"phrases": scores}))
    return by_table
