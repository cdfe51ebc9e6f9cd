"""Judge the outputs for a segment, each once."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.base.languages import written_without_spaces
from nmt.data.text.glossary import missed_terms
from nmt.data.text.spans import ANY_PLACEHOLDER, may_have_numbers, number_differences, numbers_in
from nmt.translation.guards import find_loop
from nmt.translation.protect import Protected, lost_spans
from nmt.translation.segments import Candidate, Segment, SegmentTranslation, Verdict

_CLEAN = Verdict(loop=False, lost_spans=[], missed_terms=[], wrong_numbers=[])  # of most outputs; made once for speed


def judge(segment: Segment, *translations: SegmentTranslation) -> Candidate:
    """Return the output of one search as a candidate for `segment`; or one for each piece of text between its spans."""
    if len(translations) > 1:
        text = _after_prefix(segment, _join(segment.protected, translations))
        lost = lost_spans(segment.protected.spans, text)
    elif segment.is_verbatim:
        text, lost = segment.protected.restore(translations[0].text)
        text = _after_prefix(segment, text)
    elif segment.restores_spans:
        text, lost = segment.protected.restore(translations[0].text)
    else:
        text, lost = translations[0].text, []
    is_compared = segment.keeps_numbers and not segment.is_verbatim
    loop = any(map(has_loop, translations))
    missed = missed_terms(segment.terms, text) if segment.terms else []
    numbers = wrong_numbers(segment.protected, text) if is_compared else []
    if not (loop or lost or missed or numbers):
        return Candidate(translations, text, _CLEAN)
    return Candidate(translations, text, Verdict(loop, lost, missed, numbers))


def has_loop(translation: SegmentTranslation) -> bool:
    """Return True if the output repeats itself."""
    return find_loop(translation.tgt_ids, translation.src_ids) is not None


def wrong_numbers(source: Protected, output: str) -> list[str]:
    """Return the numbers that are in only one of source and output; those inside of protected spans do not count."""
    if not (may_have_numbers(source.text) or may_have_numbers(output)):
        return []
    return number_differences(source.numbers(), numbers_in(source.without_spans(output)))


def _after_prefix(segment: Segment, output: str) -> str:
    """Return `output` after the prefix of a segment whose beginning no search has written."""
    prefix = segment.prefix
    if not (prefix and (segment.is_verbatim or segment.protected.begins_with_span())):
        return output
    without_spaces = written_without_spaces(segment.direction.tgt)
    is_apart = prefix[-1].isspace() or (without_spaces and not prefix[-1].isascii())
    return prefix + ("" if is_apart else " ") + output


def _join(protected: Protected, pieces: Sequence[SegmentTranslation]) -> str:
    """Join the spans, in source order, with translations of the text between them.

    Spaces separate a span from its neighbors if it would merge with them.
    """
    written, apart = [], []
    for i, (source, translation) in enumerate(zip(protected.between(), pieces, strict=True)):
        text = ANY_PLACEHOLDER.sub("", translation.text).strip()
        before, after = source[: len(source) - len(source.lstrip())], source[len(source.rstrip()) :]
        span = protected.spans[i] if i < len(protected.spans) else ""
        written += [before, text, after if source.strip() else "", span]
        apart += [text, span]
    output = "".join(written)
    return " ".join(filter(None, apart)) if lost_spans(protected.spans, output) else output
