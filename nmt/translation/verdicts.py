"""Judge the outputs for a segment, each once."""

from __future__ import annotations

from nmt.base.languages import written_without_spaces
from nmt.data.text.glossary import missed_terms
from nmt.data.text.numbers import wrong_numbers
from nmt.translation.guards import find_loop
from nmt.translation.protect import lost_spans
from nmt.translation.segments import Candidate, Segment, SegmentTranslation, Verdict

_CLEAN = Verdict(loop=False, lost_spans=[], missed_terms=[], wrong_numbers=[])  # of most outputs; made once for speed


def judge(segment: Segment, *translations: SegmentTranslation) -> Candidate:
    """Return a candidate for `segment`: the output of one search, or of one per piece of text between its spans."""
    if len(translations) > 1:
        text = _after_prefix(segment, segment.protected.join([each.text for each in translations]))
        lost = lost_spans(segment.protected.spans, text)
    else:
        text, lost = segment.protected.restore(translations[0].text)
        text = _after_prefix(segment, text) if segment.is_verbatim else text
    text = segment.with_edges(text)
    is_compared = segment.keeps_numbers and not segment.is_verbatim
    loop = any(map(has_loop, translations))
    missed = missed_terms(segment.terms, text) if segment.terms else []
    numbers = _wrong_numbers(segment, text) if is_compared else []
    if not (loop or lost or missed or numbers):
        return Candidate(translations, text, _CLEAN)
    return Candidate(translations, text, Verdict(loop, lost, missed, numbers))


def has_loop(translation: SegmentTranslation) -> bool:
    """Return True if the output repeats itself."""
    return find_loop(translation.tgt_ids, translation.src_ids) is not None


def _wrong_numbers(segment: Segment, output: str) -> list[str]:
    """Return the numbers that are in only one of source and output; those inside of protected spans do not count."""
    source = segment.protected
    outside = source.outside_spans(), source.without_spans(output)
    return wrong_numbers(*outside, segment.direction, keeps_digits=segment.keeps_digits)


def _after_prefix(segment: Segment, output: str) -> str:
    """Return `output` with the prefix of `segment` before it, if no search has written the prefix."""
    prefix = segment.prefix
    if not (prefix and (segment.is_verbatim or segment.protected.begins_with_span())):
        return output
    without_spaces = written_without_spaces(segment.direction.tgt, output)
    needs_no_space = prefix[-1].isspace() or (without_spaces and not prefix[-1].isascii())
    return prefix + ("" if needs_no_space else " ") + output
