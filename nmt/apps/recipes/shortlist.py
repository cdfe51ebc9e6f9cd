"""Build a run's lexical shortlist from its training data, and measure its cost in scores and its speedup."""

from __future__ import annotations

import logging
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nmt.apps.recipes.side_by_side import Comparison, compare_in_turns
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.data.lexicon.model1 import Lexicon, learn_lexicon
from nmt.data.lexicon.shortlist import Shortlist
from nmt.data.store.store import Side, TokenStore
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.interface import EngineName
from nmt.decoding.engines.selection import prefers_phrases
from nmt.training.corpus.prepare import find_store_root, prepare
from nmt.translation import Translator

log = logging.getLogger(__name__)

MIN_SHARE = 1e-4  # a candidate has at least this share of the links of its source token
MIN_LINKS = 0.02  # a candidate has at least this many links, as minimal evidence in the corpus
_BLOCK_TOKENS = 1 << 22


def make_shortlist(run: RunDir, best: int, frequent: int) -> None:
    """Build the shortlist of `run` from its training data, and write it into the run.

    Each source token contributes its `best` most probable translations. All sources share the `frequent` most frequent
    target tokens. RunError if the training data is not the data that the run was trained on.
    """
    if not run.data.is_dir():
        raise RunError(
            "this model was imported or packed, so it has no training data",
            path=run.path,
            hint="create the shortlist in the run that it was packed from, and pack that run again",
        )
    tokenizers = TokenizerPair.load(run.tokenizer)
    config = run.config()
    fingerprint = run.info().data_fingerprint
    store_root = find_store_root(config, run.path)
    if (store_root / fingerprint).is_dir():
        store = TokenStore(store_root / fingerprint)
    else:
        with run.locked():
            store = prepare(config, run, store_root, fingerprint).store
    log.info("learning which tokens are translations from %s training pairs", f"{len(store):,}")
    shortlist = choose_candidates(learn_lexicon(store), count_tokens(store.tgt), tokenizers, best, frequent)
    shortlist.save(run.shortlist, tokenizers)


def count_tokens(side: Side) -> NDArray[np.int64]:
    """Return how often each token of a side occurs, [V]."""
    counts = np.zeros(side.vocab_size, np.int64)
    for start in range(0, len(side.tokens), _BLOCK_TOKENS):
        block = side.tokens[start : start + _BLOCK_TOKENS]
        side.check(block)
        counts += np.bincount(block, minlength=side.vocab_size)
    return counts


def choose_candidates(
    lexicon: Lexicon, tgt_counts: NDArray[np.int64], tokenizers: TokenizerPair, best: int, frequent: int
) -> Shortlist:
    """Choose the candidates of each source token, and those shared by all sources.

    Besides its `best` translations, a source token has the target token with the same spelling, so that names and
    numbers can be copied. A byte token has all byte tokens, because it is part of a character that the vocabulary
    lacks.
    """
    src, tgt = tokenizers.src, tokenizers.tgt
    banned = set(tgt.never_generated)
    order = np.argsort(-tgt_counts, kind="stable").tolist()
    common = [i for i in order[: frequent + len(banned)] if tgt_counts[i] and i not in banned][:frequent]
    tgt_tokens = tgt.vocabulary
    # Digits spell numbers.
    digits = [i for i, token in enumerate(tgt_tokens) if len(token.removeprefix("▁")) == 1 and token[-1].isdigit()]
    always = {*common, *digits} - banned
    excluded = np.zeros(tgt.vocab_size, bool)
    excluded[[*always, *banned]] = True
    candidates = [set(ids) for ids in _best_links(lexicon, src.vocab_size, excluded, best)]
    same = {token: i for i, token in enumerate(tgt_tokens) if not excluded[i]}
    for token, tokens in zip(src.vocabulary, candidates, strict=True):
        tokens.update({same[token]} if token in same else ())
    for i in src.byte_tokens:
        candidates[i].update(byte for byte in tgt.byte_tokens if not excluded[byte])
    return Shortlist.from_lists(map(sorted, candidates), sorted(always))


def _best_links(lexicon: Lexicon, src_vocab_size: int, excluded: NDArray[np.bool_], best: int) -> list[list[int]]:
    """Return up to `best` target tokens for each source token: those with the most links that are not `excluded`."""
    totals = np.bincount(lexicon.src, lexicon.links, minlength=src_vocab_size)
    strong = lexicon.links >= np.maximum(MIN_SHARE * totals[lexicon.src], MIN_LINKS)
    strong &= ~excluded[lexicon.tgt]
    src, tgt, links = (part[strong] for part in lexicon)
    order = np.lexsort((-links, src))
    src, tgt = src[order], tgt[order]
    bounds = np.searchsorted(src, np.arange(src_vocab_size + 1)).tolist()
    return [tgt[first:last][:best].tolist() for first, last in pairwise(bounds)]


def compare_shortlist(run: RunDir) -> Comparison:
    """Translate the validation set of `run` without and with its shortlist, in turns, with the run's own options."""
    sets = [("validation", pairs) for pairs in run.read_sets("valid", run.config().data.directions[0])]
    engine: EngineName = "native" if prefers_phrases([run]) else "auto"  # a phrase table has no shortlist
    with Translator.load(run, engine=engine, scores=False) as translator:
        both = [(translator, translator.options.changed(shortlist=flag)) for flag in (False, True)]
        return compare_in_turns(both, sets)
