"""Judge the outputs for a segment, each once."""

from __future__ import annotations

from nmt.base.languages import written_without_spaces
from nmt.data.text.glossary import missed_terms
from nmt.data.text.numbers import wrong_numbers
from nmt.translation.guards import find_loop
from nmt.translation.protect import lost_spans
from nmt.translation.segments import Candidate, Segment, SegmentTranslation, Verdict, untranslated


def judge(segment: Segment, *translations: SegmentTranslation) -> Candidate:
    """Return a candidate for `segment`: the output of one search, or of one per piece of text between its spans.

    An output that is among the candidates of the segment has its verdict.
    """
    source = segment.protected
    habits = segment.habits
    if segment.known is not None:  # a person wrote it
        return Candidate([untranslated(segment.known.target)], segment.known.target, Verdict(False, [], [], []))
    for candidate in segment.candidates:
        if [each.tgt_ids for each in candidate.translations] == [each.tgt_ids for each in translations]:
            return candidate._replace(translations=translations)
    if len(translations) > 1:
        text = _after_prefix(segment, source.join([each.text for each in translations]))
        lost = lost_spans(source.spans, text)
    else:
        text, lost = source.restore(translations[0].text)
        text = _after_prefix(segment, text) if segment.is_verbatim else text
    text = segment.frame.around(text)
    has_loop = any(find_loop(each.tgt_ids, each.src_ids) is not None for each in translations)
    missed = missed_terms(segment.terms, text) if segment.terms else []
    numbers: list[str] = []  # those inside of protected spans do not count
    if habits.keeps_numbers and not segment.is_verbatim:
        outside = source.outside_spans(), source.without_spans(text)
        numbers = wrong_numbers(*outside, habits.direction, habits.left_out)
    return Candidate(translations, text, Verdict(has_loop, lost, missed, numbers))


def _after_prefix(segment: Segment, output: str) -> str:
    """Return `output` with the prefix of `segment` before it, if no search has written the prefix."""
    prefix = segment.prefix
    if not (prefix and (segment.is_verbatim or segment.protected.begins_with_span())):
        return output
    without_spaces = written_without_spaces(segment.habits.direction.tgt, output)
    needs_no_space = prefix[-1].isspace() or (without_spaces and not prefix[-1].isascii())
    return prefix + ("" if needs_no_space else " ") + output
