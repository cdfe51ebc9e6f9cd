"""Search again for segments whose output loops, lost a span, missed a term, or has other numbers than its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from nmt.base.errors import NmtError
from nmt.config import SearchOptions
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation.alignment import RunLexicon
from nmt.translation.guards import find_loop
from nmt.translation.segments import (
    Candidate,
    SearchInput,
    SearchSegments,
    Segment,
    Segments,
    SegmentTranslation,
    untranslated,
)
from nmt.translation.terms import term_ids
from nmt.translation.verdicts import judge

# All chosen by hand: few outputs are searched again, so that a wide beam costs little.
RETRY_BEAM_SIZE = 5  # of the search for a hypothesis without faults
NUMBERS_BEAM_SIZE = 3  # finds right numbers for 8 sentences where 5 finds them for 9, in two thirds of the time
TERM_BEAM_SIZES = (8, 16)  # of the search that must find the missed terms, and of the next one, which must find all

Retried = Iterable[tuple[Segment, list[Candidate]]]
"""Segments with their new candidates; none: those that the segment has stay."""


@dataclass(frozen=True)
class Retries:
    """Strategies for each fault of the best candidate of a segment, in order."""

    search: SearchSegments
    tokenizers: TokenizerPair
    options: SearchOptions
    takes_terms: bool = False  # whether the engine can be made to write terms
    lexicon: RunLexicon | None = None  # tells where terms belong

    def run(self, segments: Segments) -> None:
        """Replace the candidates of each of `segments` by those of the strategies, if these find any.

        The verdict on the best one then has its misplaced terms, too.
        """
        strategies: list[tuple[Callable[[Segment], bool], Callable[[Segments], Retried]]] = [
            (self._has_loop, self._without_the_loop),
            (self._has_loop, partial(self._without_repeats, ngram=2)),
            (self._has_lost_spans, self._with_all_spans),
            (self._has_lost_spans, self._between_spans),
            (self._has_missed_terms, self._with_terms_written),
            (self._needs_beam_for_terms, partial(self._with_more, size=RETRY_BEAM_SIZE)),
            (self._has_wrong_numbers, partial(self._with_more, size=NUMBERS_BEAM_SIZE)),
            # Terms that the model chooses by itself would compete for the beam with those that must be forced.
            (self._may_require_terms, partial(self._with_terms, size=TERM_BEAM_SIZES[0], only_missed=True)),
            (self._may_require_terms, partial(self._with_terms, size=TERM_BEAM_SIZES[1], only_missed=False)),
        ]
        for is_faulty, strategy in strategies:
            faulty = [segment for segment in segments if is_faulty(segment)]
            for segment, candidates in strategy(faulty) if faulty else ():
                self._rank(segment, candidates)
        if self.lexicon is not None:
            for segment in segments:
                if segment.terms:
                    self._judge_places_of_terms(segment, self.lexicon)

    def _has_loop(self, segment: Segment) -> bool:
        return self.options.retry_loops and segment.best.verdict.loop

    def _has_lost_spans(self, segment: Segment) -> bool:
        return bool(segment.best.verdict.lost_spans) and not segment.best.is_pieced

    def _has_missed_terms(self, segment: Segment) -> bool:
        return bool(segment.best.verdict.missed_terms) and not segment.best.is_pieced

    def _may_require_terms(self, segment: Segment) -> bool:
        """Return whether a search may find the missed terms.

        In languages without spaces, a search with a term that the model does not know ends in fragments of words.
        """
        is_joined = self.lexicon is not None and self.lexicon.is_joined(segment.habits.direction, segment.best.text)
        return self.takes_terms and self._has_missed_terms(segment) and not is_joined

    def _needs_beam_for_terms(self, segment: Segment) -> bool:
        return self._has_missed_terms(segment) and not self._may_require_terms(segment)

    def _has_wrong_numbers(self, segment: Segment) -> bool:
        """Return whether the numbers are all that is wrong. Samples keep theirs: another would not be a sample."""
        verdict = segment.best.verdict
        is_wrong = bool(verdict.wrong_numbers) and not verdict.missed_terms
        return is_wrong and not segment.best.is_pieced and not self.options.sample

    def _judge_places_of_terms(self, segment: Segment, lexicon: RunLexicon) -> None:
        """Add the misplaced terms to the verdict on the best candidate."""
        best = segment.best
        places = lexicon.misplaced_terms(segment, best.translations[0])
        misplaced = [term for _, term, is_elsewhere in places if is_elsewhere]
        segment.candidates[0] = best._replace(verdict=best.verdict._replace(misplaced_terms=misplaced))

    def _rank(self, segment: Segment, candidates: Sequence[Candidate]) -> None:
        """Let `candidates`, if there are any, be those of `segment`: those with the fewest faults first.

        Of numbers, all must be right: a hypothesis with fewer wrong ones is not a better translation.
        """

        def faults(candidate: Candidate) -> tuple[int, int, int]:
            verdict = candidate.verdict
            # A search for terms goes on until it has all of them, or reaches the maximum length.
            is_cut = bool(segment.term_ids) and not candidate.translations[0].finished
            num_failures = len(verdict.lost_spans) + verdict.loop + is_cut
            return num_failures, len(verdict.missed_terms), bool(verdict.wrong_numbers)

        distinct: dict[tuple[int, ...], Candidate] = {}
        for candidate in candidates:
            distinct.setdefault(tuple(candidate.translations[0].tgt_ids), candidate)
        ranked = sorted(distinct.values(), key=faults)  # stable: the better ones stay first
        segment.candidates = ranked[: self.options.num_hypotheses] or segment.candidates

    def _search(self, segments: Segments, options: SearchOptions) -> Retried:
        """Search with other options; find nothing if the engine does not support them."""
        try:
            found = self.search(segments, options)
        except NmtError:
            return []
        return [
            (segment, [judge(segment, each) for each in some]) for segment, some in zip(segments, found, strict=True)
        ]

    def _with_more(self, segments: Segments, size: int, *, shortlist: bool = True) -> Retried:
        """Return the candidates of each segment, and those of a beam of `size`; without a `shortlist`, of all words."""
        shortlist = shortlist and self.options.shortlist
        options = self.options.greedy().changed(beam_size=size, num_hypotheses=size, shortlist=shortlist)
        return [(segment, [*segment.candidates, *more]) for segment, more in self._search(segments, options)]

    def _without_the_loop(self, segments: Segments) -> Retried:
        """Forbid repeats of n-grams of the loop's size."""
        by_size: dict[int, list[Segment]] = {}
        for segment in segments:
            segment.loop_retried = True
            (best,) = segment.best.translations
            by_size.setdefault(find_loop(best.tgt_ids, best.src_ids) or 0, []).append(segment)
        for size, looping in sorted(by_size.items()):
            yield from self._without_repeats(looping, size)

    def _without_repeats(self, segments: Segments, ngram: int) -> Retried:
        found = self._search(segments, self.options.changed(no_repeat_ngram=ngram))
        return [(segment, [each for each in some if not each.verdict.loop]) for segment, some in found]

    def _with_all_spans(self, segments: Segments) -> Retried:
        """Find hypotheses with all spans."""
        for segment in segments:
            segment.protected_retried = True
        for segment, candidates in self._with_more(segments, RETRY_BEAM_SIZE):
            yield segment, [each for each in candidates if not (each.verdict.lost_spans or each.verdict.loop)]

    def _between_spans(self, segments: Segments) -> Retried:
        """Translate the text between the spans."""
        between = [[piece.core for piece in segment.protected.pieces()] for segment in segments]
        firsts: list[int] = []  # of each segment, the first text that is translated: it gets the prefix
        parts: list[SearchInput] = []  # of all segments, one for each text
        for segment, texts in zip(segments, between, strict=True):
            firsts.append(next((i for i, text in enumerate(texts) if segment.habits.is_translated(text)), 0))
            sources = [
                segment.tags[min(i, 1)] + text if segment.habits.is_translated(text) else ""
                for i, text in enumerate(texts)
            ]
            for i, ids in enumerate(self.tokenizers.src.encode_batch(sources)):
                prefix_ids = segment.prefix_ids if i == firsts[-1] else ()
                parts.append(SearchInput(ids, prefix_ids, tgt_tag=segment.tgt_tag))
        translations = iter(self.search(parts, self.options.changed(num_hypotheses=1)))
        for segment, texts, first in zip(segments, between, firsts, strict=True):
            searched = [(text, next(translations)[0]) for text in texts]
            pieces = [t if segment.habits.is_translated(text) else untranslated(text) for text, t in searched]
            if segment.prefix and first:  # the prefix is written before the spans instead
                rest = pieces[first].tgt_ids[len(segment.prefix_ids) :]
                pieces[first] = pieces[first]._replace(text=self.tokenizers.tgt.decode(rest))
            yield segment, [judge(segment, *pieces)]

    def _with_terms(self, segments: Segments, size: int, *, only_missed: bool) -> Retried:
        """Require terms: those that the best candidate missed, or all."""
        for segment in segments:
            required = segment.best.verdict.missed_terms if only_missed else segment.terms
            segment.term_ids = term_ids(self.tokenizers.tgt, required)
        return self._with_more(segments, size, shortlist=False)

    def _with_terms_written(self, segments: Segments) -> Retried:
        """Write the targets of missed terms over the words that translate them, where these are found."""
        if self.lexicon is None:
            return
        for segment in segments:
            (translation,) = segment.best.translations
            verdict = segment.best.verdict
            ids = self.lexicon.with_terms(segment, translation, verdict.missed_terms)
            if ids[: len(segment.prefix_ids)] == [*segment.prefix_ids]:
                written = judge(segment, _rewritten(translation, self.tokenizers.tgt.decode(ids), ids))
                yield segment, [written, *segment.candidates]


def _rewritten(translation: SegmentTranslation, text: str, ids: list[int]) -> SegmentTranslation:
    """Return `translation` with another text. Its new tokens are certain, because nmt was told to write them."""
    from difflib import SequenceMatcher  # only here, because few translations need it

    before = translation.tgt_ids
    scores = translation.token_scores
    if scores:
        known = [0.0] * len(ids)
        for old, new, size in SequenceMatcher(None, before, ids, autojunk=False).get_matching_blocks():
            known[new : new + size] = scores[old : old + size]
        scores = [*known, *scores[len(before) :]]
    score = sum(scores) if scores else translation.score
    return translation._replace(text=text, tgt_ids=ids, score=score, token_scores=scores)
