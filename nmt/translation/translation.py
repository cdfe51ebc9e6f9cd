"""The translation of a text, assembled from the translations of its segments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TypeVar

from nmt.base.languages import Direction
from nmt.data.text.glossary import Term, missed_terms
from nmt.data.text.text_statistics import TextStatistics
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation.guards import (
    count_copied,
    find_unusual,
    is_in_wrong_language,
    is_mostly_copied,
)
from nmt.translation.protect import lost_marks, lost_spans, without_parts
from nmt.translation.segments import MemoryMatch, SegmentTranslation
from nmt.translation.texts import SegmentedText

USABLE_CHRF = 30.0  # below this, `nmt eval` calls translations unusable
_TAG_TOKENS = 2  # at most, before each segment: the tag of a language and a space

FLAGS = {
    "empty": "there is no translation",
    "truncated": "longer than the model's limit: its end is not translated",
    "loop_unresolved": "the translation repeats itself",
    "copied_source": "most words are copied from the source",
    "wrong_language": "the translation seems to be in another language",
    "protected_lost": "protected text is missing or changed",
    "terms_misplaced": "glossary terms are not where their sources are translated",
    "numbers_missed": "numbers are missing or added",
    "unusual_source": "the text is unlike the model's training text",
    "pivot": "translated through a third language",
    "from_memory": "taken from the translation memory",
    "doubtful": "the model expects that little of the translation is right",
}
"""Each flag, an attribute of `Translation`, with what it means."""

Flags = dict[str, bool | list[str]]  # those flags that are set: True, or a list of what is missing


_FIELDS = ("truncated", "sentence_split", "loop_retried", "loop_unresolved", "copied_source", "wrong_language",
    "num_segments", "num_protected", "protected_translated_around", "protected_lost", "numbers_missed",
    "unusual_source")  # fmt: skip

Item = TypeVar("Item")


@dataclass(frozen=True)
class Translation:
    """The translation of one text. Its lists are read-only.

    >>> from nmt import Translator
    >>> print(Translator.load("runs/demo-en-zh").translate(["I am from China"])[0])  # doctest: +SKIP
    我来自中国。
    """

    text: str
    score: float = 0.0
    """Sum of natural-log probabilities of all tokens, eos of each segment included."""
    segments: list[SegmentTranslation] = field(default_factory=list)
    """The segments of the text, each translated by one search, with their tokens."""
    sentence_split: bool = False
    """A sentence was longer than the model's limit, so nmt split it."""
    loop_retried: bool = False
    """An output repeated itself, and was decoded again."""
    loop_unresolved: bool = False
    """An output repeats itself."""
    num_protected: int = 0
    """Spans of the source, such as URLs, that the translation must keep."""
    protected_retried: bool = False
    """The first output lost a protected span, and nmt searched again."""
    protected_translated_around: list[str] = field(default_factory=list)
    """Spans that the model lost, so that nmt translated the text between them separately."""
    protected_lost: list[str] = field(default_factory=list)
    """Spans that do not occur in the translation as often as in the source."""
    num_terms: int = 0
    """Glossary terms in the source, each as many times as it occurs."""
    terms_missed: list[Term] = field(default_factory=list)
    """Terms in the source whose glossary translation is missing in the text."""
    terms_misplaced: list[str] = field(default_factory=list)
    """Terms that nmt made the model use, as `term = translation`, that are not where the model translates the term."""
    numbers_missed: list[str] = field(default_factory=list)
    """Numbers that only one of source and translation has as often, or in another order (`numbers_in`)."""
    alternatives: list[Translation] = field(default_factory=list)
    """The other hypotheses of an n-best search, best first; they have no alternatives themselves."""
    without_spans: tuple[str, str] = field(default=("", ""), repr=False)
    """The source, as the model reads it, and the output, without protected spans."""
    direction: Direction | None = field(default=None, repr=False)
    """The source and target language of the translation; None for a blank text."""
    statistics: TextStatistics | None = field(default=None, repr=False)
    """Facts about the text that the model was trained on; None if unknown."""

    memory: MemoryMatch | None = field(default=None, repr=False)
    """The most similar pair of the translation memory; the text is its target if the sources are the same."""
    through: Translation | None = field(default=None, repr=False)
    """The translation into a third language, of which this is the translation; None if a model translates directly."""

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        """Return the hash of the text; equal translations have equal texts."""
        return hash(self.text)

    @property
    def from_memory(self) -> bool:
        """True if the text is the target of a pair of the translation memory with the same source."""
        return self.memory is not None and self.memory.similarity == 1

    @property
    def pivot(self) -> list[str]:
        """The code of the third language, if there is one."""
        return [self.through.direction.tgt] if self.through is not None and self.through.direction is not None else []

    @property
    def num_segments(self) -> int:
        """The number of segments that were translated; 0 if there was nothing to translate."""
        return len(self.segments)

    @property
    def src_ids(self) -> list[int]:
        """The source tokens as translated, with placeholders for protected spans."""
        return [i for segment in self.segments for i in segment.src_ids]

    @property
    def tgt_ids(self) -> list[int]:
        """The target tokens, without eos."""
        return [i for segment in self.segments for i in segment.tgt_ids]

    @property
    def token_scores(self) -> list[float]:
        """The summands of `score`, segment by segment; empty if the engine does not return them."""
        return [score for segment in self.segments for score in segment.token_scores]

    @property
    def truncated(self) -> bool:
        """True if a segment exceeded the model's limit, so that its end was not translated."""
        is_first_truncated = self.through is not None and self.through.truncated
        return is_first_truncated or any(segment.truncated for segment in self.segments)

    @property
    def finished(self) -> bool:
        """True if every output ended with eos, not at its maximum length."""
        return all(segment.finished for segment in self.segments)

    @property
    def empty(self) -> bool:
        """True if nothing came out of the search for a text that has something to translate."""
        return bool(self.segments) and not self.text.strip()

    @property
    def copied_source(self) -> bool:
        """True if more than half of the output's words come from the source: it was copied, not translated."""
        return (
            self.direction is not None and self.direction.src != self.direction.tgt and is_mostly_copied(*self._copied)
        )

    @cached_property
    def _copied(self) -> tuple[int, int]:
        return count_copied(*self.without_spans)

    @cached_property
    def wrong_language(self) -> bool:
        """True if the output is in the wrong script or, with the extra langid, in the wrong language."""
        return self.direction is not None and is_in_wrong_language(self.without_spans[1], self.direction.tgt)

    @cached_property
    def unusual_source(self) -> list[str]:
        """Reasons why the source is unlike the text that the model was trained on: see `find_unusual`."""
        return self.find_unusual()

    def find_unusual(self, *, identify: bool = True) -> list[str]:
        """Return the reasons of `unusual_source`; unless told to `identify` languages, by scripts and words alone."""
        if self.through is not None:
            return self.through.find_unusual(identify=identify)
        if self.direction is None:
            return []
        num_tokens = len(self.src_ids) - _TAG_TOKENS * len(self.segments)
        return find_unusual(self.without_spans[0], num_tokens, self.direction.src, self.statistics, identify=identify)

    @property
    def length_ratio(self) -> float:
        """The number of target tokens per source token; 0 for a blank text."""
        return len(self.tgt_ids) / len(self.src_ids) if self.src_ids else 0.0

    @property
    def mean_log_prob(self) -> float:
        """The natural-log probability per token, counting the eos of each segment; 0 for a blank text."""
        segments = self.segments + (self.through.segments if self.through is not None else [])
        count = sum(len(segment.tgt_ids) + segment.finished for segment in segments)
        return self.score / count if count else 0.0

    @property
    def features(self) -> tuple[float, float, float, float]:
        """The signs of quality that the search gives, for `Confidence`; all but the second are 0 to 1.

        The geometric mean of the token probabilities, the natural logarithm of target tokens per source token (eos
        counted in both), the share of repeated tokens beyond that of the source, and the share of copied words.
        """
        repeated = [1 - len(set(ids)) / max(1, len(ids)) for ids in (self.tgt_ids, self.src_ids)]
        ratio = math.log((len(self.tgt_ids) + 1) / (len(self.src_ids) + 1))
        copied = self._copied[0] / max(1, self._copied[1])
        return math.exp(min(self.mean_log_prob, 0.0)), ratio, max(0.0, repeated[0] - repeated[1]), copied

    @property
    def expected_chrf(self) -> float | None:
        """The chrF, 0 to 100, that such a translation had on average in the validation set, by linear regression.

        None if the model has no `Confidence` (it was imported, or is an ensemble), if the engine returned no scores, if
        there was nothing to translate, or if another model did the first half of it.
        """
        return None if self.through is not None else self._expected_of_model

    @cached_property
    def _expected_of_model(self) -> float | None:
        confidence = self.statistics and self.statistics.confidence
        if not confidence or not self.src_ids or math.isnan(self.score):
            return None
        return confidence.expected_chrf(self.features)

    @property
    def doubtful(self) -> bool:
        """True if the model expects a chrF below 30, so that little of the translation may be right."""
        return self._expected_of_model is not None and self._expected_of_model < USABLE_CHRF

    @cached_property
    def flags(self) -> Flags:
        """Those of `FLAGS` that are set, also by the translation into a third language."""
        flags: Flags = {name: value for name in FLAGS if (value := getattr(self, name))}
        return flags if self.through is None else merge([self.through.flags, flags])

    def as_json(
        self,
        tokenizers: TokenizerPair | None = None,
        *,
        memory: bool = False,
        terms: bool = False,
        hypotheses: bool = False,
        alignments: Mapping[str, str] | None = None,
    ) -> dict[str, object]:
        """Return the fields of docs/reference/jsonl.md, with the tokens if the model's `tokenizers` are given.

        `memory`, `terms` and `hypotheses` add the fields of a translation memory, a glossary and an n-best list;
        `alignments` are fields to add.
        """
        fields = {
            **self._as_hypothesis(tokenizers),
            **({} if tokenizers is None else {"src_tokens": tokenizers.src.tokens(self.src_ids)}),
            **{name: getattr(self, name) for name in _FIELDS},
            "length_ratio": round(self.length_ratio, 4),
            "mean_log_prob": round(self.mean_log_prob, 6),
        }
        if memory:
            fields["memory"] = self.memory and self.memory._asdict()
        if self.through is not None:
            fields |= {"pivot": self.pivot[0] if self.pivot else None, "pivot_text": self.through.text}
        if terms:
            fields |= {name: getattr(self, name) for name in ("num_terms", "terms_missed", "terms_misplaced")}
        fields |= alignments or {}
        if hypotheses:
            fields["hypotheses"] = [each._as_hypothesis(tokenizers) for each in (self, *self.alternatives)]
        return fields

    def _as_hypothesis(self, tokenizers: TokenizerPair | None) -> dict[str, object]:
        return {
            "text": self.text,
            "score": round(self.score, 6),
            **({} if tokenizers is None else {"tokens": tokenizers.tgt.tokens(self.tgt_ids)}),
            "token_scores": [round(score, 6) for score in self.token_scores],
            "finished": self.finished,
            **({} if self.expected_chrf is None else {"expected_chrf": round(self.expected_chrf, 2)}),
        }


def merge(parts: Sequence[Flags]) -> Flags:
    """Return the flags of a text from those of its parts."""
    merged: Flags = {}
    for name in FLAGS if any(parts) else ():
        values = [part[name] for part in parts if name in part]
        lists = [value for value in values if isinstance(value, list)]
        if values:
            merged[name] = union(*lists) if len(lists) == len(values) else True
    return merged


def union(*lists: Sequence[Item]) -> list[Item]:
    """Return the items of `lists` in order, each once."""
    return list(dict.fromkeys(chain.from_iterable(lists)))


def put_together(text: SegmentedText) -> Translation:
    """Assemble the best translation of `text` from those of its segments, with its alternatives.

    Alternative n of a text consists of alternative n of each segment.
    """
    if not text.segments:
        return Translation("")
    num_outputs = max(len(segment.candidates) for segment in text.segments)
    best, *others = [_assemble(text, position) for position in range(num_outputs)]
    return replace(best, alternatives=others) if others else best


def _assemble(text: SegmentedText, position: int) -> Translation:
    """Join the candidates at `position` of each segment, or the last one of a segment that has fewer."""
    written: list[str] = []  # the output of each segment
    segments: list[SegmentTranslation] = []
    translated_around: list[str] = []
    lost: list[str] = []  # spans
    numbers: list[str] = []  # wrong ones
    terms: list[Term] = []
    misplaced: list[Term] = []
    sentence_split = loop_retried = loop_unresolved = protected_retried = False
    num_protected = 0
    source_parts: list[str] = []  # of both, without protected spans
    output_parts: list[str] = []
    is_in_source = "\ufffd" in text.text  # the replacement character
    for segment in text.segments:  # one loop, because it runs for every text
        candidate = segment.candidates[min(position, len(segment.candidates) - 1)]
        verdict = candidate.verdict
        spans = segment.protected.spans
        written.append((candidate.text if is_in_source else candidate.text.replace("\ufffd", "")) + segment.space)
        segments += [translation for translation in candidate.translations if translation.src_ids]
        if spans:
            num_protected += len(spans)
            translated_around += spans if candidate.is_pieced else []
            lost += verdict.lost_spans
        source_parts.append(segment.protected.without_spans(segment.text + segment.span.space))
        output_parts.append(segment.protected.without_spans(written[-1]))
        if text.spans is not None and segment.known is None:
            lost += lost_marks(segment.text, candidate.text, spans, segment.habits.left_out, segment.unknown)
        numbers += verdict.wrong_numbers
        terms += segment.terms
        misplaced += verdict.misplaced_terms
        sentence_split = sentence_split or segment.span.cut
        loop_retried = loop_retried or segment.loop_retried
        loop_unresolved = loop_unresolved or verdict.loop
        protected_retried = protected_retried or segment.protected_retried
    output = text.lead + "".join(written)
    if len(text.spans or ()) != num_protected:  # some had no placeholder, which is possible only without splitting
        spans = [text.text[span.start : span.end] for span in text.spans or ()]
        lost += lost_spans(spans, output)
    return Translation(
        output,
        sum([segment.score for segment in segments]),
        segments,
        sentence_split=sentence_split,
        loop_retried=loop_retried,
        loop_unresolved=loop_unresolved,
        num_protected=num_protected,
        protected_retried=protected_retried,
        protected_translated_around=translated_around,
        protected_lost=without_parts(lost, text.text) if lost else [],
        num_terms=len(terms),
        terms_missed=missed_terms(terms, output) if terms else [],
        terms_misplaced=[*map(str, misplaced)],
        numbers_missed=numbers,
        without_spans=("".join(source_parts), "".join(output_parts)),
        direction=text.direction,
        statistics=text.statistics,
        memory=text.known,
    )
