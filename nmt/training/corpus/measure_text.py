"""Count what the training pairs look like, and measure which placeholders a trained model copies."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Container, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from nmt.artifacts.rundir import MAX_JSON_BYTES, DirectedPairs, RunDir
from nmt.base.errors import NmtError
from nmt.base.files import read_at_most, write_text
from nmt.base.languages import Direction
from nmt.base.patterns import any_of
from nmt.config import Config
from nmt.data.check.features import Side
from nmt.data.check.twins import TwinFinder
from nmt.data.read.pairs import SentencePair
from nmt.data.text.numbers import has_letters, kinds_of_lost_digits
from nmt.data.text.placeholders import copy_with_placeholders
from nmt.data.text.spans import ANY_PLACEHOLDER, find_spans
from nmt.data.text.tags import user_symbols
from nmt.data.text.text_statistics import MAX_SENTENCES, TextStatistics, count_numbers, is_long, word_octaves
from nmt.data.text.words import UNSEEN, counted_words, printed_tokens, trigrams_of, unseen_words
from nmt.data.tokens.tokenizer import Tokenizer
from nmt.training.corpus.corpus import Corpus, with_both_sides
from nmt.translation import SearchInput, Translator, translate_segments
from nmt.translation.guards import is_in_capitals
from nmt.translation.protect import Protected, marks_left_out, odd_left_out
from nmt.translation.sentences import count_sentences

log = logging.getLogger(__name__)

# All chosen by hand: enough for shares of a percent, in some seconds.
MAX_PAIRS = 100_000  # that are counted
_MAX_TOKENIZED = 20_000  # sources
_LOW_QUANTILE = 0.005  # of the characters per token
_RARE_TEXTS = 0.002  # share of the sources whose words may count as unusual
_MAX_CHECKED = 400  # validation sources
_MAX_PLACEHOLDERS = 2  # in one source, as in most texts
_OF_PROSE = ("small", "capital ")  # kinds of words
_MIN_TOKENS = 6  # shorter texts may consist of one rare name


def record_statistics(run: RunDir, corpus: Corpus, num_pairs: int, tokenizer: Tokenizer, known: Path) -> None:
    """Write the statistics of the training pairs into `run`, unless it has them.

    They are kept in the file `known`, too, for other runs on the same corpus.
    """
    if run.statistics_file.exists():
        return
    try:
        counted = TextStatistics.model_validate_json(read_at_most(known, MAX_JSON_BYTES))
    except (OSError, ValueError, RecursionError):  # there is none, or it is damaged
        counted = count_texts(corpus, num_pairs, tokenizer)
        write_text(known, counted.model_dump_json() + "\n")
    made = round(corpus.config.data.augment.upper * counted.pairs)  # in capitals, in an epoch, by augmentation
    counted = _with_validation(run, corpus.config, counted)
    run.write_json(run.statistics_file, counted.model_copy(update={"in_capitals": counted.in_capitals + made}))


def _with_validation(run: RunDir, config: Config, counted: TextStatistics) -> TextStatistics:
    """Return what was `counted` with what the targets of validation lack, in as many pairs as were `counted`.

    Nothing is said without any.
    """
    left_out = _LeftOut(counted.octaves, counted.trigrams)
    for direction, sources, targets in run.read_sets("valid", config.data.directions[0]):
        for src, tgt in zip(sources, targets, strict=True):
            left_out.add(src, tgt, direction)
    if not left_out.pairs:
        return counted
    tokens = left_out.tokens().union(counted.left_out_tokens.split())
    in_both = left_out.kinds(tokens) + Counter(counted.left_out)
    share = counted.pairs / (counted.pairs + left_out.pairs)
    has_new_words = any(kind.startswith(_OF_PROSE) for kind, _ in left_out.lost)  # not so in a closed language
    kinds = {UNSEEN: 0}
    for kind, count in in_both.items():
        if has_new_words or not kind.startswith(_OF_PROSE):
            kinds[kind] = round(share * count)
    return counted.model_copy(update={"left_out": kinds, "left_out_tokens": " ".join(sorted(tokens))})


class _LeftOut:
    """Counts what targets lack of their sources: kinds of words and marks, and tokens."""

    def __init__(self, seen: Container[str], trigrams: Container[str]) -> None:
        """Take the words that training has seen, as of `unseen_words`."""
        self._seen = seen
        self._trigrams = trigrams
        self.pairs = 0
        self.sources = Counter[str]()  # that have a token
        self.lost = Counter[tuple[str, str]]()  # kinds and tokens; one may be empty

    def add(self, src: str, tgt: str, direction: Direction) -> None:
        """Count a pair."""
        source = Protected.from_spans(src, find_spans(src))
        outside = source.outside_spans()
        unseen = Counter(unseen_words(outside, self._seen, self._trigrams))
        words = {word[0].rstrip(".,!?") for _, word in odd_left_out(src, "")}.union(word for word, _ in unseen)
        lost = {(kind, word[0].rstrip(".,!?")) for kind, word in odd_left_out(src, tgt)}
        lost.update((kind, word) for (word, kind), count in unseen.items() if tgt.count(word) < count)
        tokens = {*source.spans, *(token for token in printed_tokens(outside) if not token.isalpha())}
        lost.update((mark, "") for mark in (*marks_left_out(src, tgt), *kinds_of_lost_digits(src, tgt, direction)))
        lost.update(("", token) for token in tokens if token not in tgt)
        self.pairs += 1
        self.sources.update(tokens | words)
        self.lost.update(lost)

    def tokens(self) -> set[str]:
        """Return the tokens that are lost more than once, and by half of the targets whose sources have them."""
        lost = Counter[str]()
        for (kind, token), count in self.lost.items():
            lost[token] = max(lost[token], 0 if kind.startswith(_OF_PROSE) else count)
        return {
            token
            for token, count in lost.items()
            if count > 1 and 2 * count >= self.sources[token] and len(ANY_PLACEHOLDER.sub(" ", token).split()) == 1
        }

    def kinds(self, tokens: Collection[str]) -> Counter[str]:
        """Return how often each kind was lost, without `tokens`."""
        kinds = Counter[str]()
        for (kind, token), count in self.lost.items():
            if kind and token not in tokens:
                kinds[kind] += count
        return kinds


def record_twins(run: RunDir, corpus: Corpus, known: Path) -> None:
    """Write the sources of the test set that have a near-twin among those of training into `run`, unless it has them.

    They are kept in the file `known`, too, for other runs on the same corpus.
    """
    if run.twins.exists():
        return
    if not known.exists():
        sources = list(dict.fromkeys(run.read_pairs("test")[0]))
        finder = TwinFinder([Side(text).folded for text in sources])
        has_twin = {number for _, number in finder.find(Side(pair.src).folded for pair in corpus.train_pairs())}
        write_text(known, "".join(f"{sources[number]}\n" for number in sorted(has_twin)))
    write_text(run.twins, known.read_text(encoding="utf-8"))
    if num_twins := len(run.sources_with_twins()):
        of = f"{num_twins:,} of {len(set(run.read_pairs('test')[0])):,} test sources"
        log.info("%s have a near-twin in the training data; data.filters.near_twin drops these pairs", of)


def count_texts(corpus: Corpus, num_pairs: int, tokenizer: Tokenizer) -> TextStatistics:
    """Count the training pairs of `corpus`, about `num_pairs`; if there are more than 100,000, every n-th."""
    step = -(-num_pairs // MAX_PAIRS)
    sentences = np.zeros((2, MAX_SENTENCES), dtype=np.int64)
    without_letters = in_capitals = 0
    numbers: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    pairs: list[tuple[str, str, Direction]] = []
    symbols = re.compile(any_of(user_symbols(corpus.config)))
    for pair in islice(with_both_sides(corpus.train_pairs()), 0, None, step):
        direction = corpus.direction("train", pair)
        for side, (text, language) in enumerate(zip((pair.src, pair.tgt), direction, strict=True)):
            sentences[side, min(max(1, count_sentences(text, language)), MAX_SENTENCES) - 1] += 1
        without_letters += not has_letters(symbols.sub("", pair.src))
        in_capitals += is_in_capitals(pair.src)
        numbers.update(count_numbers(pair.src, pair.tgt))
        seen.update(set(counted_words(pair.src)))
        pairs.append((pair.src, pair.tgt, direction))
    sources = [src for src, _, _ in pairs[:_MAX_TOKENIZED]]
    lengths = zip(map(len, sources), map(len, tokenizer.encode_batch(sources)), strict=True)
    ratios = [chars / tokens for chars, tokens in lengths if tokens >= _MIN_TOKENS]
    once, *by_octave = _by_octave(seen)
    seen_text = " ".join(["", *by_octave, ""])  # what is in a single source is unseen by the rest
    left_out = _LeftOut({*seen_text.split()}, {*trigrams_of(seen_text)})
    for each in pairs:
        left_out.add(*each)
    tokens = left_out.tokens()
    return TextStatistics(
        pairs=int(sentences[0].sum()),
        src_sentences=np.trim_zeros(sentences[0], "b").tolist(),
        tgt_sentences=np.trim_zeros(sentences[1], "b").tolist(),
        without_letters=without_letters,
        left_out=left_out.kinds(tokens),
        left_out_tokens=" ".join(sorted(tokens)),
        in_capitals=in_capitals,
        chars_per_token=round(float(np.quantile(ratios, _LOW_QUANTILE)), 3) if ratios else 0.0,
        once=once,
        words=by_octave,
        usual_octave=_usual_octave(sources, seen),
    ).model_copy(update=numbers)


def _by_octave(counts: Counter[str]) -> list[str]:
    """Return the words that occur in 1, 2 to 3, 4 to 7, 8 to 15 … sources, the words of each octave in one text."""
    octaves: list[list[str]] = [[] for _ in range(max(counts.values(), default=1).bit_length())]
    for word in sorted(counts):
        octaves[counts[word].bit_length() - 1].append(word)
    return [" ".join(octave) for octave in octaves]


def _usual_octave(sources: Sequence[str], counts: Counter[str]) -> float:
    """Return the mean octave of their words, by the other sources, that 99.8% of the longer sources reach."""
    in_others = {word: (count - 1).bit_length() - 1 for word, count in counts.items() if count > 2}
    texts = [words for words in map(counted_words, sources) if is_long(words)]
    means = [float(np.mean(word_octaves(words, in_others))) for words in texts]
    return round(float(np.quantile(means, _RARE_TEXTS)), 3) if means else -2.0


def measure_placeholders(run: RunDir, config: Config) -> None:
    """Measure the share of validation sources whose placeholders the model of a run with `config` copies, and save it.

    Nothing is measured if the model was not trained with data.protect. A failure is only a warning, because the
    training itself is complete.
    """
    statistics = run.statistics() if config.data.protect else None
    if statistics is None:
        return
    try:
        with Translator.load(run, scores=False) as translator:
            share = _share_copied(translator, run.read_sets("valid", config.data.directions[0]), config.training.seed)
    except NmtError as error:
        log.warning("placeholders were not checked: %s", error.message)
        return
    statistics = statistics.model_copy(update={"placeholders_copied": round(share, 4)})
    run.write_json(run.statistics_file, statistics)
    choice = "" if statistics.copies_placeholders else "; too few, so nmt translates URLs and tags as they are"
    log.info("placeholders: %.0f%% copied in the validation set%s", 100 * share, choice)


def _share_copied(translator: Translator, sets: Sequence[DirectedPairs], seed: int) -> float:
    """Return the share of the placeholders, one or two in a source, that its output has exactly once."""
    placeholders: list[list[str]] = []  # of each segment
    inputs: list[SearchInput] = []
    for direction, texts, references in sets:
        for line, pair in enumerate(zip(texts, references, strict=True), 1):
            copy = copy_with_placeholders(SentencePair(*pair, line), direction, share=1.0, seed=seed)
            symbols = [] if copy is None else ANY_PLACEHOLDER.findall(copy.src)
            if copy is None or len(symbols) > _MAX_PLACEHOLDERS or line > _MAX_CHECKED // len(sets):
                continue
            directed = translator.languages.direct(copy.src, direction.tgt, direction.src)
            ids = translator.tokenizers.src.encode(directed.tag + directed.text)
            placeholders.append(symbols)
            inputs.append(SearchInput(ids, tgt_tag=translator.segmenter.tgt_tag(directed.direction)))
    outputs = translate_segments(translator.engine, translator.tokenizers, inputs, translator.options.greedy())
    pairs = zip(placeholders, outputs, strict=True)
    are_copied = [best.text.count(symbol) == 1 for symbols, (best, *_) in pairs for symbol in symbols]
    return sum(are_copied) / max(1, len(are_copied))
