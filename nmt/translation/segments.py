"""Translate segments, the units of search: sort, batch, search, restore the order, decode, rerank."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from nmt.base.errors import require
from nmt.base.languages import Direction
from nmt.config import SearchOptions
from nmt.data.text.characters import with_marker
from nmt.data.text.glossary import Term
from nmt.data.text.numbers import has_words
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.interface import Engine
from nmt.decoding.hypothesis import Hypothesis
from nmt.translation.protect import Protected
from nmt.translation.split import TextSpan
from nmt.translation.terms import word_boundaries

# Of a batch of an engine that searches in batches; all chosen by hand.
MAX_BATCH_SENTENCES = 256  # more would wait for the longest output among them
MIN_BATCH_SENTENCES = 16  # smaller batches are not worth distributing over an engine's threads
NARROW = 16  # tokens of a source: a batch of shorter ones is not faster, so they may share one of up to 32


class MemoryMatch(NamedTuple):
    """A pair of the memory whose source is like a text; `similarity` is 1 for the same source."""

    source: str
    target: str
    similarity: float


class SegmentTranslation(NamedTuple):
    """One hypothesis for one segment, as text."""

    text: str
    score: float  # sum of natural-log probabilities of the tokens, eos included
    src_ids: list[int]  # source tokens as translated, after truncation
    tgt_ids: list[int]
    truncated: bool  # the source was longer than the model's limit; its end is not translated
    finished: bool  # the output ended with eos, not at its maximum length
    # The summands of `score`, including that of eos if the output is finished; read-only.
    token_scores: Sequence[float] = ()
    tgt_tag: Sequence[int] = ()  # the tag before `tgt_ids`; it has no score


class Verdict(NamedTuple):
    """The faults of an output for a segment; see `verdicts.judge`."""

    loop: bool  # it repeats itself
    lost_spans: list[str]
    missed_terms: list[Term]
    wrong_numbers: list[str]  # that are in only one of source and output
    misplaced_terms: Sequence[Term] = ()  # whose targets are not where their sources are translated

    @property
    def is_clean(self) -> bool:
        """True if nothing is wrong."""
        return not (self.loop or self.lost_spans or self.missed_terms or self.wrong_numbers)


class Candidate(NamedTuple):
    """An output for a segment: of one search, or of one for each piece of text between its spans."""

    translations: Sequence[SegmentTranslation]
    text: str  # with the spans
    verdict: Verdict

    @property
    def is_pieced(self) -> bool:
        """True if the text between the spans was translated piece by piece."""
        return len(self.translations) > 1


class Habits(NamedTuple):
    """The habits of a model that translates in `direction`, learned from its training text."""

    direction: Direction
    tgt_tag: Sequence[int]  # the tag at the beginning of its outputs, if the model has target-side tags
    left_out: Collection[str]  # kinds of digits, marks and words that a translation may lack
    keeps_numbers: bool  # the numbers of a translation must be those of the source
    translates_numbers_alone: bool  # it translates text without words

    def is_translated(self, text: str) -> bool:
        """Return whether `text`, a part of a segment, is translated, not kept as it is."""
        return bool(text.strip()) and (self.translates_numbers_alone or has_words(text))


class Frame(NamedTuple):
    """The surroundings of the words of a segment, which belong around those of its translation."""

    list_marker: str = ""  # as in "1. First"; a model may leave it out
    lead: str = ""  # symbols and brackets
    tail: str = ""
    is_hidden: bool = False  # the search does not see `lead` and `tail`

    def around(self, output: str) -> str:
        """Return an output within the frame, but for symbols that the model has seen, if it has written some."""
        if not output.strip():
            return output  # so that an empty output is found
        output = with_marker(self.list_marker, output) if self.list_marker else output
        seen = "" if self.is_hidden else "".join((self.lead + self.tail).split())
        return output if any(symbol in output for symbol in seen) else f"{self.lead}{output}{self.tail}"


_NO_FRAME = Frame()


@dataclass
class SearchInput:
    """The input of a search, as token ids without specials."""

    src_ids: list[int]
    prefix_ids: Sequence[int] = ()  # the required beginning of the translation
    draft_ids: Sequence[int] = ()  # a translation to expect; it does not change the output
    draw: int = 0  # the number of a draw: in sampling, equal sources with equal numbers get equal samples
    tgt_tag: Sequence[int] = ()  # the tag at the beginning of the output
    term_ids: Sequence[int] = ()  # the terms that the search must find, as of `terms.term_ids`


@dataclass(kw_only=True)
class Segment(SearchInput):
    """A unit of search, one or a few sentences of a text, with its translations so far."""

    text: str  # as the model reads it, with its spans, and with its frame
    protected: Protected
    span: TextSpan  # in the text as written
    habits: Habits
    space: str = ""  # after its translation
    # Prepended to the segment, and to what follows its first span if that is translated by itself.
    tags: tuple[str, str] = ("", "")
    prefix: str = ""
    terms: Sequence[Term] = ()  # glossary terms in the source
    frame: Frame = _NO_FRAME
    is_verbatim: bool = False  # there is nothing to translate, so the text is its own translation
    known: MemoryMatch | None = None  # the pair that a memory has for it
    unknown: Sequence[str] = ()  # words with letters that the source vocabulary lacks
    candidates: list[Candidate] = field(default_factory=list)  # best first
    loop_retried: bool = False
    protected_retried: bool = False

    @property
    def best(self) -> Candidate:
        """The best candidate."""
        return self.candidates[0]

    def reset(self) -> None:
        """Forget the translations."""
        self.candidates = []
        self.term_ids = ()
        self.loop_retried = self.protected_retried = False


Item = TypeVar("Item")
Segments = Sequence[Segment]
SearchInputs = Sequence[SearchInput]
SearchSegments = Callable[[SearchInputs, SearchOptions], list[list[SegmentTranslation]]]
"""A function from segments, or parts of them, to the translations of each, best first."""


class ForcedScore(NamedTuple):
    """The log-probability of a given translation under the model."""

    score: float  # sum of natural-log probabilities of the tokens, eos included
    tgt_ids: list[int]
    token_scores: list[float]  # the summands of `score`, that of eos last
    truncated: bool  # a side exceeded the model's limit; the score does not include the truncated part


def untranslated(text: str) -> SegmentTranslation:
    """Return `text` as its own translation, with no tokens."""
    return SegmentTranslation(text, 0.0, [], [], truncated=False, finished=True)


def translate_segments(
    engine: Engine, tokenizers: TokenizerPair, segments: SearchInputs, options: SearchOptions
) -> list[list[SegmentTranslation]]:
    """Return up to `options.num_hypotheses` translations of each of `segments`, best first, in order.

    An empty segment has a single, empty translation.
    """
    limit = engine.max_src_len - 1  # eos
    sources = [segment.src_ids[:limit] for segment in segments]

    def search(batch: list[int]) -> list[list[Hypothesis]]:
        some = [segments[i] for i in batch]
        prefixes = [[*segment.tgt_tag, *segment.prefix_ids] for segment in some]
        draws = [segment.draw for segment in some] if options.sample else []
        drafts = [[*segment.tgt_tag, *segment.draft_ids] if segment.draft_ids else [] for segment in some]
        terms = [segment.term_ids for segment in some]
        return engine.search(
            [sources[i] for i in batch],
            options,
            _if_any(prefixes),
            _if_any(draws),
            _if_any(drafts),
            (terms, word_boundaries(tokenizers.tgt)) if any(terms) else None,
        )

    def decode(i: int, hypothesis: Hypothesis) -> SegmentTranslation:
        tag = segments[i].tgt_tag
        source = sources[i]
        truncated = len(segments[i].src_ids) > limit
        ids = hypothesis.ids[len(tag) :]
        scores = hypothesis.token_scores[len(tag) :]
        text = tokenizers.tgt.decode(ids)
        return SegmentTranslation(text, hypothesis.score, source, ids, truncated, hypothesis.finished, scores, tag)

    found = dict(_in_batches(engine, [*map(len, sources)], options.batch_tokens, search))
    return [
        [decode(i, hypothesis) for hypothesis in found[i]] if i in found else [untranslated("")]
        for i in range(len(segments))
    ]


def _if_any(values: Sequence[Item]) -> Sequence[Item] | None:
    """Return `values`, one for each source, or None if all are empty: the engine then has less to do."""
    return values if any(values) else None


def search_candidates(
    search: SearchSegments, segments: SearchInputs, options: SearchOptions
) -> list[list[SegmentTranslation]]:
    """Search, rerank the hypotheses of each segment by `options.rerank`, and return the best `num_hypotheses`.

    Minimum Bayes risk: candidates are ranked by their mean chrF against all candidates, which serve as samples of the
    references that the model expects (Eikema and Aziz 2020, section 5). Each text is listed once, so there may be
    fewer, but counts as often as it was found. NmtError if the library that computes chrF is not installed.
    """
    if options.rerank == "none":
        return search(segments, options)
    pairwise_chrf = require("mbr", "fastchrf", "reranking by chrF").pairwise_chrf
    found = search(segments, options.of_candidates())
    if not found:  # fastchrf rejects empty input
        return []
    texts = [[candidate.text for candidate in candidates] for candidates in found]
    ranked = []
    for candidates, utilities in zip(found, pairwise_chrf(texts, texts), strict=True):
        expected = [sum(row) for row in utilities]
        by_text: dict[str, SegmentTranslation] = {}
        for index in sorted(range(len(candidates)), key=expected.__getitem__, reverse=True):  # stable
            by_text.setdefault(candidates[index].text, candidates[index])
        ranked.append([*by_text.values()][: options.num_hypotheses])
    return ranked


def score_segments(
    engine: Engine,
    tokenizers: TokenizerPair,
    sources: Sequence[str],
    targets: Sequence[str],
    tgt_tags: Sequence[Sequence[int]],
    batch_tokens: int,
) -> list[ForcedScore]:
    """Score each of `targets` as the translation of a source with its tag; `tgt_tags` are put before the targets."""
    limit = engine.max_src_len - 1  # eos
    src_ids, tgt_ids = tokenizers.src.encode_batch(sources), tokenizers.tgt.encode_batch(targets)

    def score(batch: list[int]) -> list[list[float]]:
        found = engine.score([src_ids[i][:limit] for i in batch], [[*tgt_tags[i], *tgt_ids[i]] for i in batch])
        return [scores[len(tgt_tags[i]) :] for i, scores in zip(batch, found, strict=True)]

    # Even a pair of empty texts has a score: that of eos.
    lengths = [max(len(src), len(tgt), 1) for src, tgt in zip(src_ids, tgt_ids, strict=True)]
    scores: dict[int, ForcedScore] = {}
    for i, token_scores in _in_batches(engine, lengths, batch_tokens, score):
        truncated = len(src_ids[i]) > limit or len(tgt_ids[i]) >= len(token_scores)
        scores[i] = ForcedScore(sum(token_scores), tgt_ids[i], token_scores, truncated)
    return [scores[i] for i in range(len(sources))]


def _in_batches(
    engine: Engine, lengths: Sequence[int], batch_tokens: int, work: Callable[[list[int]], list[Item]]
) -> Iterator[tuple[int, Item]]:
    """Yield each index into `lengths` (tokens), except of empty texts, with what `work` returns for it in its batch."""
    batches = list(make_batches(lengths, engine, batch_tokens))
    for batch, results in zip(batches, engine.map(work, batches), strict=True):
        yield from zip(batch, results, strict=True)


def make_batches(lengths: Sequence[int], engine: Engine, batch_tokens: int) -> Iterator[list[int]]:
    """Yield batches of indices into `lengths` (tokens), without empty texts: similar lengths together, longest first.

    A batch has at most `batch_tokens` tokens, padding included, and is small enough to give every thread work. An
    engine that takes several batches per search gets a multiple of that; one that forms none gets all sources.
    """
    indices = [i for i, length in enumerate(lengths) if length]
    if engine.batches_per_search == 0:
        if indices:
            yield indices
        return
    max_tokens = engine.batches_per_search * batch_tokens
    share_of_thread = -(-len(indices) // engine.num_threads)
    max_sentences = engine.batches_per_search * min(MAX_BATCH_SENTENCES, max(MIN_BATCH_SENTENCES, share_of_thread))
    batch: list[int] = []
    for i in sorted(indices, key=lambda i: -lengths[i]):
        longest = min(lengths[batch[0] if batch else i] + 1, engine.max_src_len)
        is_full = (len(batch) + 1) * longest > max_tokens or len(batch) == max_sentences
        # Sources that wait for a place in a search are padded to the width of the first one.
        is_narrow = engine.batches_per_search > 1 and 2 * max(NARROW, lengths[i] + 1) < longest
        if batch and (is_full or is_narrow):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
