"""Score what nmt delivers after a training beside what it has to surpass: copies, words one by one, other sentences."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from nmt.artifacts.run_records import COPIES, WORDS, JudgedQuality, TrainingVerdict
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.selection import prefers_phrases
from nmt.evaluation.model_card import VERDICT_TITLE
from nmt.evaluation.significance import Scorer
from nmt.training.parts import Training
from nmt.training.validation import Validator, translate_sets
from nmt.translation import Translation, Translator

log = logging.getLogger(__name__)

MIN_SENTENCES = 20  # of a set in one direction: fewer have intervals too wide to say anything; chosen by hand

_Translated = Sequence[Sequence[Translation]]  # the translations of each validation set


def translate_by_default(
    training: Training, translated: list[list[Translation]] | None
) -> list[list[Translation]] | None:
    """Return translations of the validation set as `nmt translate` makes them with the finished run.

    `translated` are greedy ones, which are returned if the default search is greedy. None if all sets are too small to
    be judged, and after a failure, which is only a warning, because the training itself is complete.
    """
    sets = training.validator.sets
    options = training.config.decoding
    if all(len(pairs.sources) < MIN_SENTENCES for pairs in sets):
        return None
    if translated is not None and options == options.greedy().changed(shortlist=False):
        return translated
    try:
        with Translator.load(RunDir(training.run.path)) as translator:
            return translate_sets(translator, sets)
    except NmtError as error:
        log.warning("the translations were not judged: %s", error.message)
        return None


def record_verdict(
    training: Training, by_greedy_search: Mapping[str, _Translated | None], delivered: _Translated
) -> None:
    """Score all translations of the validation set, log the scores, and save them in index.json.

    `by_greedy_search` are those by each engine that was measured; `delivered` those that `nmt translate` makes by
    default.
    """
    run = RunDir(training.run.path)
    systems = {name: translated for name, translated in by_greedy_search.items() if translated is not None}
    name = "phrase table" if prefers_phrases([run]) else "network"
    if delivered is not systems.setdefault(name, delivered):
        name += " by the default search"
        systems[name] = delivered
    directions: dict[str, dict[str, JudgedQuality]] = {}
    for number, pairs in enumerate(training.validator.sets):
        if len(pairs.sources) < MIN_SENTENCES:
            continue
        texts = {COPIES: pairs.sources}
        if len(training.validator.sets) == 1:  # the lexicon of several languages mixes them
            texts |= _word_by_word(run, training.tokenizers, pairs.sources)
        texts |= {system: [each.text for each in of[number]] for system, of in systems.items()}
        directions[str(pairs.direction)] = _qualities(texts, training.validator, number)
    if not directions:
        return
    checkpoint = run.best_checkpoint().stem
    verdict = TrainingVerdict(checkpoint=checkpoint, delivered=name, directions=directions)
    run.write_json(run.index_file, run.index().model_copy(update={"verdict": verdict}))
    log.info(f"{VERDICT_TITLE}:")
    for line in verdict.describe():
        log.info(line)


def _qualities(texts: Mapping[str, Sequence[str]], validator: Validator, number: int) -> dict[str, JudgedQuality]:
    """Return the scores of each system on set `number`."""
    pairs = validator.sets[number]
    half = len(pairs.references) // 2
    of_others = pairs.references[half:] + pairs.references[:half]
    control = Scorer([of_others], pairs.direction.tgt, ("chrf",))
    qualities = {}
    for name, lines in texts.items():
        bleu, chrf = validator.measure(number, lines).scores()
        (by_chance,) = control.measure(name, lines).measured
        assert bleu.interval is not None
        assert chrf.interval is not None
        qualities[name] = JudgedQuality(
            bleu=bleu.value,
            chrf=chrf.value,
            bleu_interval=bleu.interval.half_width,
            chrf_interval=chrf.interval.half_width,
            control=by_chance.score(),
        )
    return qualities


def _word_by_word(run: RunDir, tokenizers: TokenizerPair, texts: Sequence[str]) -> dict[str, list[str]]:
    """Translate each token by what the lexicon links it with most strongly; nothing if the run has no lexicon.

    Unknown tokens are copied if both sides have one vocabulary, else left out.
    """
    try:
        lexicon = TermLexicon.load(run.lexicon, tokenizers)
    except RunError as error:
        log.warning("words were not translated one by one: %s", error.message)
        return {}
    by_strength = lexicon.keys[np.lexsort((lexicon.similarities, lexicon.keys // lexicon.tgt_vocab_size))]
    src, tgt = np.divmod(by_strength, lexicon.tgt_vocab_size)
    best = dict(zip(src.tolist(), tgt.tolist(), strict=True))  # the last of a token is the best
    known = [
        [best.get(token, token) for token in ids if token in best or tokenizers.joint]
        for ids in tokenizers.src.encode_batch(texts)
    ]
    return {WORDS: [tokenizers.tgt.decode(ids) for ids in known]}
