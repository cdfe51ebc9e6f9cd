"""Align translations: by the lexicon of their run, and by cross-attention for words that it does not link."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from nmt.artifacts.rundir import RunDir
from nmt.base.languages import Direction
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation.terms import occurrences

if TYPE_CHECKING:
    from nmt.data.lexicon.aligner import Aligner
    from nmt.data.lexicon.term_lexicon import TermLexicon
    from nmt.translation.segments import MisplacedTerm, Segment, SegmentTranslation

Links = list[tuple[int, int]]


class RunLexicon:
    """The lexicon of a run, which is read when it is first needed."""

    def __init__(self, run: RunDir, tokenizers: TokenizerPair):
        self._run, self._tokenizers = run, tokenizers
        self._aligners: dict[Direction, Aligner] = {}

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
        learned, opposite = self._run.config().data.directions, Direction(direction.tgt, direction.src)
        swapped = direction not in learned and opposite in learned
        key = opposite if swapped else direction
        if key not in self._aligners:
            from nmt.data.lexicon.aligner import Aligner

            self._aligners[key] = Aligner(self._lexicon, self._tokenizers, key)
        return self._aligners[key].links(segment.src_ids, segment.tgt_ids, swapped=swapped)

    def misplaced_terms(self, segment: Segment, translation: SegmentTranslation) -> list[MisplacedTerm]:
        """Return the terms of `segment` that are linked to other words than their target, in order. As `links`."""
        misplaced = []
        links = self.links(translation, segment.direction) if segment.terms else []
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
