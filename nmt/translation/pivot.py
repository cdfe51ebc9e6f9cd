"""Translate through a third language: one model translates into it, and another one out of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

from nmt.base.errors import NmtError, in_words
from nmt.base.languages import Direction, base_code
from nmt.translation.languages import LanguagePair
from nmt.translation.request import Request
from nmt.translation.translation import Translation
from nmt.translation.translator import Blocks, TranslatedBlock, Translator


def paths(first: Iterable[Direction], second: Iterable[Direction]) -> dict[Direction, tuple[Direction, Direction]]:
    """Return the directions through a third language, each with the first two that lead there, and not back."""
    found: dict[Direction, tuple[Direction, Direction]] = {}
    for into, out in product(first, [*second]):
        if base_code(into.tgt) == base_code(out.src) and base_code(into.src) != base_code(out.tgt):
            found.setdefault(Direction(into.src, out.tgt), (into, out))
    return found


class PivotTranslator:
    """Two translators, one after the other. It translates blocks as `Translator` does, each as a whole."""

    def __init__(self, first: Translator, second: Translator):
        """Join two translators. NmtError if the second one cannot translate what the first one writes."""
        self._first, self._second = first, second
        into, out = first.languages.pairs, second.languages.pairs
        self._paths = paths(into, out)
        if not self._paths:
            written, read = (in_words([str(pair) for pair in pairs]) for pairs in (into, out))
            raise NmtError(f"these models do not follow on each other: {written}, then {read}")
        self.languages = LanguagePair(*next(iter(self._paths)), directions=tuple(self._paths))
        self.options, self.tokenizers = second.options, second.tokenizers
        self.precision = f"{first.precision}, {second.precision}"
        self.max_src_len = first.max_src_len

    def translate_blocks(self, blocks: Blocks, request: Request, first: int = 1) -> Iterator[TranslatedBlock]:
        """Yield each of `blocks` with its translations, as `Translator.translate_blocks` does.

        Options that differ from those of the second translator hold for both. The score of a translation is the sum of
        both, and `Translation.through` is the translation by the first.
        """
        into, out = self._paths[self.languages.direction(request.to, request.from_)]
        given = {name: value for name, value in request.options if value != getattr(self.options, name)}
        options = self._first.options.changed(**{**given, "num_hypotheses": 1})
        to_pivot = replace(request, options=options, prefix="", to=into.tgt, from_=into.src)
        from_pivot = replace(request, to=out.tgt, from_=out.src)
        for block in blocks:
            between = self._first.translate_block(block, to_pivot, first)
            texts = [translation.text for translation in between]
            final = self._second.translate_block(texts, from_pivot, first)
            yield block, list(map(joined, between, final))
            first += len(block)


def joined(into: Translation, out: Translation) -> Translation:
    """Return `out`, a translation of the translation `into`, with the sum of the scores and the faults of both."""
    return replace(
        out,
        score=into.score + out.score,
        through=into,
        loop_retried=into.loop_retried or out.loop_retried,
        loop_unresolved=into.loop_unresolved or out.loop_unresolved,
        protected_lost=list(dict.fromkeys(into.protected_lost + out.protected_lost)),
        numbers_missed=list(dict.fromkeys(into.numbers_missed + out.numbers_missed)),
        alternatives=[joined(into, alternative) for alternative in out.alternatives],
    )
