"""Retry segments whose output loops, has lost a protected span or a term, or has other numbers than its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nmt.base.errors import NmtError
from nmt.config import SearchOptions
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair
from nmt.translation.alignment import RunLexicon
from nmt.translation.guards import find_loop, has_loop, lost_spans, lost_terms, wrong_numbers
from nmt.translation.segments import Search, Segment, Segments, SegmentTranslation, untranslated
from nmt.translation.terms import term_ids, with_target

TERM_BEAM_SIZES = (8, 16)  # of the search that must find the missing terms, and of the next one, which must find all
RETRY_BEAM_SIZE = 5  # of the search for a hypothesis that keeps every protected span


def retry_loops(segments: Segments, search: Search, options: SearchOptions) -> None:
    """Decode looping segments again: first forbid repeats of n-grams of the loop's size, then of all bigrams."""
    if not segments:
        return
    by_size: dict[int, list[Segment]] = {}
    for segment in segments:
        best = segment.hypotheses[0]
        if (size := find_loop(best.tgt_ids, best.src_ids)) is not None:
            segment.loop_retried = True
            by_size.setdefault(size, []).append(segment)
    for size, looping in sorted(by_size.items()):
        _retry_without_repeats(looping, search, options.changed(no_repeat_ngram=size))
    unresolved = [segment for segment in segments if segment.loop_retried and has_loop(segment.hypotheses[0])]
    _retry_without_repeats(unresolved, search, options.changed(no_repeat_ngram=2))


def _retry_without_repeats(segments: Segments, search: Search, options: SearchOptions) -> None:
    for segment, hypotheses in zip(segments, search_again(segments, search, options), strict=True):
        sound = [hypothesis for hypothesis in hypotheses if not has_loop(hypothesis)]
        segment.hypotheses = sound or segment.hypotheses


def retry_lost_spans(segments: Segments, search: Search, tokenizers: TokenizerPair, options: SearchOptions) -> None:
    """For segments that lost a span, find a hypothesis with all spans, else translate the text between the spans."""
    lossy = [segment for segment in segments if lost_spans(segment, segment.hypotheses[0])]
    if not lossy:
        return
    beam = options.greedy().changed(beam_size=RETRY_BEAM_SIZE, num_hypotheses=RETRY_BEAM_SIZE, exact=options.exact)
    for segment, hypotheses in zip(lossy, search_again(lossy, search, beam), strict=True):
        segment.protected_retried = True
        complete = [
            hypothesis
            for hypothesis in [*segment.hypotheses, *hypotheses]
            if not lost_spans(segment, hypothesis) and not has_loop(hypothesis)
        ]
        segment.hypotheses = complete[: options.num_hypotheses] or segment.hypotheses
    still_lossy = [segment for segment in lossy if lost_spans(segment, segment.hypotheses[0])]
    _translate_around(still_lossy, search, tokenizers, options.changed(num_hypotheses=1))


def _translate_around(segments: Segments, search: Search, tokenizers: TokenizerPair, options: SearchOptions) -> None:
    between = [segment.protected.between() for segment in segments]
    firsts, parts = list[int](), list[Segment]()
    for segment, texts in zip(segments, between, strict=True):
        firsts.append(next((i for i, text in enumerate(texts) if segment.is_translated(text)), 0))
        for i, text in enumerate(texts):
            ids = tokenizers.src.encode(segment.tags[min(i, 1)] + text) if segment.is_translated(text) else []
            parts.append(Segment(ids, segment.prefix_ids if i == firsts[-1] else (), tgt_tag=segment.tgt_tag))
    translations = iter(search(parts, options) if parts else [])
    for segment, texts, first in zip(segments, between, firsts, strict=True):
        searched = [(text, next(translations)[0]) for text in texts]
        segment.around = [t if segment.is_translated(text) else untranslated(text.strip()) for text, t in searched]
        if segment.prefix and first:  # the prefix is written before the spans instead
            rest = segment.around[first].tgt_ids[len(segment.prefix_ids) :]
            segment.around[first] = segment.around[first]._replace(text=tokenizers.tgt.decode(rest))


def search_again(segments: Segments, search: Search, options: SearchOptions) -> list[list[SegmentTranslation]]:
    """Search with other options; return no hypotheses if the engine does not support them."""
    try:
        return search(segments, options) if segments else []
    except NmtError:
        return [[] for _ in segments]


def retry_missed(
    segments: Segments,
    search: Search,
    options: SearchOptions,
    tokenizer: Tokenizer | None = None,
    lexicon: RunLexicon | None = None,
) -> None:
    """For segments whose best translation misses terms or numbers, rank the hypotheses that miss fewest first.

    The other hypotheses come from an n-best search and a beam search, which must find the terms if the `tokenizer` of
    the target is given: then the engine takes terms. Before that, `lexicon` tells where they belong. Hypotheses that
    lost a protected span or repeat themselves always rank after those that did not. Of numbers, all must be right: a
    hypothesis with fewer wrong ones is not a better translation.
    """
    missing = [
        segment
        for segment in segments
        if segment.around is None
        # Samples keep their numbers: to replace them would change what is sampled.
        and (lost_terms(segment, segment.hypotheses[0]) or (not options.sample and wrong_numbers(segment)))
    ]
    if not missing:
        return
    beam = options.greedy().changed(beam_size=RETRY_BEAM_SIZE, num_hypotheses=RETRY_BEAM_SIZE, exact=options.exact)
    lacking, others = list[Segment](), list[Segment]()
    for segment in missing:
        requires = tokenizer is not None and lost_terms(segment, segment.hypotheses[0])
        (lacking if requires else others).append(segment)
    _rank(others, search_again(others, search, beam), options, lexicon)
    if tokenizer is not None and lexicon is not None:
        _put_in_place(lacking, search, options, tokenizer, lexicon)
    # Terms that the model chooses by itself would share the beam with those that it has to be told.
    for size, only_missed in zip(TERM_BEAM_SIZES, (True, False), strict=True):
        lacking = [segment for segment in lacking if lost_terms(segment, segment.hypotheses[0])]
        for segment in lacking:
            missed = lost_terms(segment, segment.hypotheses[0]) if only_missed else segment.terms
            segment.term_ids = term_ids(tokenizer, missed) if tokenizer is not None else ()
        wide = beam.changed(beam_size=size, num_hypotheses=size, exact=False, shortlist=False)
        _rank(lacking, search_again(lacking, search, wide), options, lexicon)


def _put_in_place(
    segments: Segments, search: Search, options: SearchOptions, tokenizer: Tokenizer, lexicon: RunLexicon
) -> None:
    """Put the target of a missing term where it is translated by other words, and search what follows; term after term.

    If what follows translates the term a second time, keep what followed before.
    """
    beam = options.greedy().changed(beam_size=RETRY_BEAM_SIZE, num_hypotheses=RETRY_BEAM_SIZE, shortlist=False)
    while segments:
        tried = list[tuple[Segment, SegmentTranslation, list[list[int]]]]()
        for segment in segments:
            best = segment.hypotheses[0]
            missed = {term.target for term in lost_terms(segment, best)}
            movable = [each for each in lexicon.misplaced_terms(segment, best) if each[1].target in missed]
            if movable and movable[0][0][0] >= len(segment.prefix_ids):
                places, term, _ = movable[0]
                tried.append((segment, best, with_target(tokenizer, best.tgt_ids, places, term.target)))
        for number in (0, 1):
            again = [
                (segment, replace(segment, prefix_ids=prefixes[number], draft_ids=()))
                for segment, before, prefixes in tried
                if segment.hypotheses[0] is before or _is_misplaced(segment, segment.hypotheses[0], lexicon)
            ]
            found = search_again([begun for _, begun in again], search, beam)
            _rank([segment for segment, _ in again], found, options, lexicon)
        segments = [segment for segment, before, _ in tried if segment.hypotheses[0] is not before]


def _rank(
    segments: Segments,
    found: Sequence[Sequence[SegmentTranslation]],
    options: SearchOptions,
    lexicon: RunLexicon | None,
) -> None:
    """Rank the hypotheses of each segment, and more that were `found`, by what they miss, then by misplaced terms."""
    for segment, hypotheses in zip(segments, found, strict=True):

        def faults(hypothesis: SegmentTranslation, segment: Segment = segment) -> tuple[int, int, int]:
            degenerate = len(lost_spans(segment, hypothesis)) + has_loop(hypothesis)
            degenerate += bool(segment.term_ids) and not hypothesis.finished
            return degenerate, len(lost_terms(segment, hypothesis)), bool(wrong_numbers(segment, hypothesis.text))

        distinct: dict[tuple[int, ...], SegmentTranslation] = {}
        for hypothesis in [*segment.hypotheses, *hypotheses]:
            distinct.setdefault(tuple(hypothesis.tgt_ids), hypothesis)
        ranked = sorted(distinct.values(), key=faults)  # stable: the better ones stay first
        equal = [each for each in ranked if faults(each) == faults(ranked[0])]
        best = next((each for each in equal if not _is_misplaced(segment, each, lexicon)), ranked[0])
        segment.hypotheses = [best, *(each for each in ranked if each is not best)][: options.num_hypotheses]


def _is_misplaced(segment: Segment, translation: SegmentTranslation, lexicon: RunLexicon | None) -> bool:
    return lexicon is not None and any(elsewhere for *_, elsewhere in lexicon.misplaced_terms(segment, translation))
