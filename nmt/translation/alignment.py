"""Align translations: by the lexicon of their run, and by cross-attention for words that it does not link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from nmt.artifacts.rundir import RunDir
from nmt.base.languages import Direction, written_without_spaces
from nmt.data.text.glossary import Term
from nmt.data.text.spans import Span, replace_spans
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation.terms import occurrences, with_target

if TYPE_CHECKING:
    from nmt.data.lexicon.aligner import Aligner
    from nmt.data.lexicon.term_lexicon import TermLexicon
    from nmt.data.lexicon.term_places import TermPlaces
    from nmt.translation.segments import Segment, SegmentTranslation

Links = list[tuple[int, int]]
MisplacedTerm = tuple[list[int], Term, bool]
"""The target tokens that are linked to the source of a term, and whether its target is elsewhere."""


class RunLexicon:
    """The lexicon of a run, which is read when it is first needed."""

    def __init__(self, run: RunDir, tokenizers: TokenizerPair):
        self._run, self._tokenizers = run, tokenizers
        self._aligners: dict[Direction, Aligner] = {}
        self._places: dict[Direction, TermPlaces] = {}

    @cached_property
    def _lexicon(self) -> TermLexicon | None:
        from nmt.data.lexicon.term_lexicon import TermLexicon  # it imports numpy, which is slow

        return TermLexicon.load(self._run.lexicon, self._tokenizers) if self._run.lexicon.is_file() else None

    def links(self, segment: SegmentTranslation, direction: Direction) -> Links:
        """Return the links (source token, target token) of words that translate each other; none without a lexicon.

        RunError if the lexicon is damaged, or for other tokenizers.
        """
        if self._lexicon is None:
            return []
        swapped = self._is_swapped(direction)
        key = Direction(direction.tgt, direction.src) if swapped else direction
        if key not in self._aligners:
            from nmt.data.lexicon.aligner import Aligner

            self._aligners[key] = Aligner(self._lexicon, self._tokenizers, key)
        return self._aligners[key].links(segment.src_ids, segment.tgt_ids, swapped=swapped)

    def _is_swapped(self, direction: Direction) -> bool:
        """Return whether the lexicon was learned from pairs of the opposite direction only."""
        learned = self._run.essentials().directions
        return direction not in learned and Direction(direction.tgt, direction.src) in learned

    def is_joined(self, direction: Direction, translation: str) -> bool:
        """Return whether a translation is written without spaces, and there is a lexicon to find words in it."""
        return written_without_spaces(direction.tgt, translation) and self._lexicon is not None

    def with_terms(self, segment: Segment, translation: SegmentTranslation, missed: Sequence[Term]) -> list[int]:
        """Return the tokens of a translation with the targets of `missed` terms instead of its words for them.

        Terms whose translation the lexicon does not find are left out. RunError as `links`.
        """
        ids = translation.tgt_ids
        waiting = Counter(missed)
        if not self.is_joined(segment.habits.direction, translation.text):
            while movable := [
                (linked, term)
                for linked, term, _ in self.misplaced_terms(segment, translation._replace(tgt_ids=ids))
                if waiting[term] > 0
            ]:
                linked, term = movable[0]
                ids = with_target(self._tokenizers.tgt, ids, linked, term.target)
                waiting[term] -= 1
            return ids
        places = self._term_places(segment.habits.direction)
        edits: list[tuple[Span, str]] = []
        for tokens, term in occurrences(self._tokenizers.src, translation.src_ids, dict(segment.terms)):
            taken = [span for span, _ in edits]
            span = places.find(translation.src_ids, tokens, translation.text, taken) if waiting[term] > 0 else None
            if span is not None:
                edits.append((span, term.target))
                waiting[term] -= 1
        edits.sort()
        text = replace_spans(translation.text, [span for span, _ in edits], [target for _, target in edits])
        return self._tokenizers.tgt.encode(text)

    def _term_places(self, direction: Direction) -> TermPlaces:
        if direction not in self._places:
            from nmt.data.lexicon.term_places import TermPlaces

            assert self._lexicon is not None
            sets = self._run.read_sets("valid", direction) if self._run.data.is_dir() else []
            sample = (text for known, _, texts in sets if known.tgt == direction.tgt for text in texts)
            swapped = self._is_swapped(direction)
            tokens = self._tokenizers.tgt.vocabulary
            self._places[direction] = TermPlaces(self._lexicon, tokens, sample, swapped=swapped)
        return self._places[direction]

    def misplaced_terms(self, segment: Segment, translation: SegmentTranslation) -> list[MisplacedTerm]:
        """Return the terms of `segment` that are linked to other words than their target, in order. As `links`."""
        misplaced = []
        links = self.links(translation, segment.habits.direction) if segment.terms else []
        targets = {term.target: term.target for term in segment.terms}
        written = occurrences(self._tokenizers.tgt, translation.tgt_ids, targets) if links else []
        for tokens, term in occurrences(self._tokenizers.src, translation.src_ids, dict(segment.terms)):
            linked = {tgt for src, tgt in links if src in tokens}
            if linked and not any(each.target == term.target and linked & places for places, each in written):
                misplaced.append((sorted(linked), term, any(each.target == term.target for _, each in written)))
        return sorted(misplaced)


def most_attended(weights: Sequence[Sequence[float]], num_tgt: int) -> Links:
    """Return (source index, target index), from 0, for the first `num_tgt` rows of the attention weights [T][S].

    Each target token is aligned with the source token that it attends to most (Garg et al. 2019, section 4.1). If that
    is eos, the last one, the target token stays unaligned.
    """
    best = [max(range(len(row)), key=row.__getitem__) for row in weights[:num_tgt]]
    return [(source, target) for target, source in enumerate(best) if source < len(weights[target]) - 1]
