"""Retry segments whose output loops or has lost a protected span."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nmt.config import SearchOptions
from nmt.data.tokenizer import TokenizerPair
from nmt.errors import NmtError
from nmt.translate.guards import find_loop
from nmt.translate.segments import Segment, SegmentTranslation
from nmt.translate.texts import TextSegment

RETRY_BEAM_SIZE = 5
"""Beam size of the search for a hypothesis that keeps every protected span."""

Search = Callable[[Sequence[Segment], SearchOptions], list[list[SegmentTranslation]]]
"""A function from segments to their translations, best first."""


def has_loop(translation: SegmentTranslation) -> bool:
    """Return True if the output repeats itself."""
    return find_loop(translation.tgt_ids, translation.src_ids) is not None


def lost_spans(segment: TextSegment, translation: SegmentTranslation) -> list[str]:
    """Return the protected spans of `segment` that `translation` does not contain exactly once."""
    return segment.protected.restore(translation.text).lost if segment.protected.spans else []


def retry_loops(segments: Sequence[TextSegment], search: Search, options: SearchOptions) -> None:
    """Decode looping segments again: first forbid repeats of n-grams of the loop's size, then of all bigrams."""
    by_size: dict[int, list[TextSegment]] = {}
    for segment in segments:
        best = segment.hypotheses[0]
        if (loop := find_loop(best.tgt_ids, best.src_ids)) is not None:
            segment.loop_retried = True
            by_size.setdefault(loop.forbidden_ngram, []).append(segment)
    for size, looping in sorted(by_size.items()):
        _retry_without_repeats(looping, search, options.changed(no_repeat_ngram=size))
    unresolved = [segment for segment in segments if segment.loop_retried and has_loop(segment.hypotheses[0])]
    _retry_without_repeats(unresolved, search, options.changed(no_repeat_ngram=2))


def _retry_without_repeats(segments: Sequence[TextSegment], search: Search, options: SearchOptions) -> None:
    for segment, hypotheses in zip(segments, search_again(segments, search, options), strict=True):
        sound = [hypothesis for hypothesis in hypotheses if not has_loop(hypothesis)]
        segment.hypotheses = sound or segment.hypotheses


def retry_lost_spans(
    segments: Sequence[TextSegment], search: Search, tokenizers: TokenizerPair, options: SearchOptions
) -> None:
    """For segments that lost a span, find a hypothesis with all spans, else translate the text between the spans."""
    lossy = [segment for segment in segments if lost_spans(segment, segment.hypotheses[0])]
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


def _translate_around(
    segments: Sequence[TextSegment], search: Search, tokenizers: TokenizerPair, options: SearchOptions
) -> None:
    stretches: list[Segment] = []
    for segment in segments:
        first = _first_stretch(segment)
        for i, text in enumerate(segment.protected.between()):
            tag = segment.tags[min(i, 1)]
            ids = tokenizers.src.encode(tag + text) if text.strip() else []
            prefix_ids = segment.segment.prefix_ids if i == first else ()
            stretches.append(Segment(ids, prefix_ids, tgt_tag=segment.segment.tgt_tag))
    translations = iter(search(stretches, options) if stretches else [])
    for segment in segments:
        segment.around = [next(translations)[0] for _ in segment.protected.between()]
        if segment.prefix and (first := _first_stretch(segment)):  # the prefix is written before the spans instead
            found = segment.around[first]
            rest = found.tgt_ids[len(segment.segment.prefix_ids) :]
            segment.around[first] = found._replace(text=tokenizers.tgt.decode(rest))


def _first_stretch(segment: TextSegment) -> int:
    """Return the number of the first stretch between spans that is not blank."""
    return next(i for i, text in enumerate(segment.protected.between()) if text.strip())


def search_again(
    segments: Sequence[TextSegment], search: Search, options: SearchOptions
) -> list[list[SegmentTranslation]]:
    """Search with other options; return no hypotheses if the engine does not support them."""
    try:
        return search([segment.segment for segment in segments], options) if segments else []
    except NmtError:
        return [[] for _ in segments]
