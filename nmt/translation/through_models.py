"""Lead a text through a translation memory, and through one model or two in a row, as a generator.

It yields the texts to translate next, receives their translations, and does no input or output. So the command, the
server and documents share it: one runs it in a loop, the other awaits the answers (`base/rounds.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Generic, TypeVar

from nmt.base.errors import DataError
from nmt.data.text.glossary import Glossary, Term, missed_terms
from nmt.translation.segments import MemoryMatch
from nmt.translation.translation import Translation, union

_FINAL_MARKS = " .!?。！？"  # which models add to a single word
# How many glossaries between two models are kept: texts with the same terms then share one, and are translated in one
# call. Chosen by hand: each has the few terms of one text.
_MAX_GLOSSARIES = 1000

Model = TypeVar("Model")
"""The name of a model for the one who translates: a number, or the model itself."""


@dataclass(frozen=True)
class TextToTranslate(Generic[Model]):
    """A text to translate next, and what is known about it."""

    text: str
    model: Model
    glossary: Glossary | None = None
    prefix: str = ""  # the beginning of the translation
    match: MemoryMatch | None = None  # the most similar pair of the memory, whose target is a draft
    through: Translation | None = None  # the translation into a third language, which is this text
    originals: Mapping[Term, Term] = field(default_factory=dict)  # the terms of the user, by those of the glossary

    def finish(self, translation: Translation) -> Translation:
        """Return a translation of this text, or of a segment of it, with what is known about the text."""
        if self.through is not None:
            translation = joined(self.through, translation, self.originals)
        return translation if translation.memory or self.match is None else replace(translation, memory=self.match)


ThroughModels = Generator[list[TextToTranslate[Model]], list[Translation], TextToTranslate[Model] | Translation]
"""Yields the texts to translate first, and returns the last one, or the translation if it is known."""


def through_models(
    text: str,
    path: Sequence[Model],
    *,
    match: MemoryMatch | None = None,
    glossary: Glossary | None = None,
    prefix: str = "",
) -> ThroughModels[Model]:
    """Lead `text` through the models of `path`, one or two, unless `match`, a pair of the memory, has the same source.

    A known translation that does not begin with `prefix`, and that of a similar source, are only drafts. `glossary` has
    terms of the text and of its final translation. Between two models, the first one's translation of a term alone
    stands for it, and both models are to follow.
    """
    if match is not None and match.similarity == 1 and match.target.startswith(prefix):
        return Translation(match.target, memory=match)
    *before, last = path
    if not before:
        return TextToTranslate(text, last, glossary, prefix, match)
    first = before[0]
    terms = list(dict.fromkeys(found.term for found in glossary.find(text))) if glossary else []
    translations = (yield [TextToTranslate(term.source, first) for term in terms]) if terms else []
    words: dict[str, Term] = {}  # the terms, by what stands for them between the models
    for term, translation in zip(terms, translations, strict=True):
        words.setdefault(translation.text.strip(_FINAL_MARKS), term)
    into = _glossary_of(tuple((term.source, word) for word, term in words.items()))
    out = _glossary_of(tuple((word, term.target) for word, term in words.items()))
    (through,) = yield [TextToTranslate(text, first, into or None)]
    placed = {term.source for term in into.terms} - {term.source for term in through.terms_missed}
    through = replace(through, terms_missed=[term for term in terms if term.source not in placed])
    originals = {Term(word, term.target): term for word, term in words.items()}
    return TextToTranslate(through.text, last, out or None, prefix, match, through, originals)


@lru_cache(_MAX_GLOSSARIES)
def _glossary_of(pairs: tuple[tuple[str, str], ...]) -> Glossary:
    """Return the glossary of those `pairs` that can be terms; equal ones are one object."""
    glossary = Glossary()
    for pair in pairs:
        with suppress(DataError):
            glossary.add(*pair)
    return glossary


def joined(into: Translation, out: Translation, originals: Mapping[Term, Term]) -> Translation:
    """Return `out`, a translation of the translation `into`, with the sum of the scores and the faults of both.

    `originals` are the terms of the user, by those of the second model.
    """
    missed = [originals.get(term, term) for term in out.terms_missed]
    return replace(
        out,
        score=into.score + out.score,
        through=into,
        loop_retried=into.loop_retried or out.loop_retried,
        loop_unresolved=into.loop_unresolved or out.loop_unresolved,
        protected_lost=union(into.protected_lost, out.protected_lost),
        numbers_missed=union(into.numbers_missed, out.numbers_missed),
        num_terms=into.num_terms,
        terms_missed=union(missed_terms(into.terms_missed, out.text), missed),
        terms_misplaced=union(into.terms_misplaced, out.terms_misplaced),
        alternatives=[joined(into, alternative, originals) for alternative in out.alternatives],
    )
