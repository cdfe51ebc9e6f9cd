"""Search again for segments whose translations miss terms of the glossary."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.config import SearchOptions
from nmt.data.glossary import Term, missed_terms
from nmt.translate.retries import RETRY_BEAM_SIZE, Search, has_loop, lost_spans, search_again
from nmt.translate.segments import SegmentTranslation
from nmt.translate.texts import TextSegment


def retry_missed_terms(segments: Sequence[TextSegment], search: Search, options: SearchOptions) -> None:
    """For segments whose best translation misses terms, rank the hypotheses with the most terms first.

    The other hypotheses come from an n-best search and a beam search. Hypotheses that lost a protected span or repeat
    themselves always rank after those that did not.
    """
    missing = [segment for segment in segments if not segment.around and _missed(segment, segment.hypotheses[0])]
    beam = options.greedy().changed(beam_size=RETRY_BEAM_SIZE, num_hypotheses=RETRY_BEAM_SIZE, exact=options.exact)
    for segment, hypotheses in zip(missing, search_again(missing, search, beam), strict=True):

        def faults(hypothesis: SegmentTranslation, segment: TextSegment = segment) -> tuple[int, int]:
            degenerate = len(lost_spans(segment, hypothesis)) + has_loop(hypothesis)
            return degenerate, len(_missed(segment, hypothesis))

        found: dict[tuple[int, ...], SegmentTranslation] = {}
        for hypothesis in [*segment.hypotheses, *hypotheses]:
            found.setdefault(tuple(hypothesis.tgt_ids), hypothesis)
        ranked = sorted(found.values(), key=faults)  # stable: the better ones stay first
        segment.hypotheses = ranked[: options.num_hypotheses]


def _missed(segment: TextSegment, translation: SegmentTranslation) -> list[Term]:
    return missed_terms(segment.terms, segment.protected.restore(translation.text).text)
