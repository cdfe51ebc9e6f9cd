"""Facts about the sentences that a model was trained on, which tell what it can translate: `statistics.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Annotated

from pydantic import Field

from nmt.base.languages import Direction, standard_code, written_without_spaces
from nmt.config.base import Section
from nmt.data.text.numbers import DIGITS, is_digit, number_differences, number_words, numbers_in
from nmt.data.text.words import UNSEEN, counted_words, trigrams_of

MAX_SENTENCES = 10  # texts of this many sentences and more are counted together
# All but the octave were chosen by hand. docs/explanation/text.md says what follows from them.
_COMMON = 0.05  # share of the training pairs from which a model has learned to translate as many sentences at once
_RARE = 0.01  # share below which a model has not learned a kind of text
_KEPT = 0.5  # share of the pairs with numbers, or of the placeholders, from which a model is expected to keep them
_LEFT_OUT = 0.0125  # share of the pairs, which may be flagged for all kinds together
_FORMS_LEFT_OUT = 0.005  # for forms of tokens; new ones, which no count foresees, are as many again
# What translators leave out, or write otherwise, so that without counts up to 12% of their texts would be flagged.
_OFTEN_OTHERWISE = ("opening", "closing", "dash", "semicolon", "percent", "unit", "colon", "letter")
_ELSEWHERE_OTHERWISE = ("exclamation", "question", "ellipsis", "quotation")  # in some languages
_MIN_PAIRS = 20  # too few pairs with numbers to judge by
_UNSEEN = -2  # instead of an octave: a quarter of an occurrence
_MIN_LETTERS = 20  # of the words of a long text
_MIN_WORDS = 8  # of a long text whose words are characters

Weight = Annotated[float, Field(ge=-1e6, le=1e6)]


class Confidence(Section, strict=True, extra="ignore"):
    """A linear regression that predicts the chrF of a translation, fitted on the validation set."""

    usual_ratio: Weight = Field(description="mean of the natural logarithm of target tokens per source token")
    intercept: Weight = Field(description="in points of chrF, as all weights")
    probability: Weight = Field(description="weight of the geometric mean of the token probabilities")
    short: Weight = Field(description="weight of how far the logarithm of the length ratio is below the usual one")
    long: Weight = Field(description="weight of how far it is above the usual one")
    repetition: Weight = Field(description="weight of the share of repeated tokens beyond that of the source")
    copied: Weight = Field(description="weight of the share of the output's words that are in the source")

    def expected_chrf(self, features: Sequence[float]) -> float:
        """Return the expected chrF, 0 to 100, of a translation with these features (`Translation.features`)."""
        weights = self.probability, self.short, self.long, self.repetition, self.copied
        values = bent_features(features, self.usual_ratio)
        expected = self.intercept + sum(weight * value for weight, value in zip(weights, values, strict=True))
        return min(max(expected, 0.0), 100.0)


def bent_features(features: Sequence[float], usual_ratio: float) -> list[float]:
    """Return `features` with two values instead of the length ratio, because outputs may be too short or too long."""
    probability, ratio, repetition, copied = features
    return [probability, max(0.0, usual_ratio - ratio), max(0.0, ratio - usual_ratio), repetition, copied]


def count_numbers(src: str, tgt: str) -> dict[str, int]:
    """Return what a pair adds to the counts of `TextStatistics` on numbers."""
    sides = numbers_in(src), numbers_in(tgt)
    if all(map(is_digit, [*sides[0], *sides[1]])):
        return {}
    missing, added = number_differences(*sides)
    return {"with_numbers": 1, "numbers_kept": int(all(map(is_digit, missing + added)))}


def word_octaves(words: Iterable[str], octaves: Mapping[str, int]) -> list[int]:
    """Return the octave of the frequency of each of `words`: n for 2^n training sources and more, -2 for 0 or 1."""
    return [octaves.get(word) or _UNSEEN for word in words]


def is_long(words: Sequence[str]) -> bool:
    """Return whether a text of these words has 20 letters or more, or, in Chinese and similar scripts, 8 characters."""
    return sum(map(len, words)) >= _MIN_LETTERS or len(words) >= _MIN_WORDS


class TextStatistics(Section, strict=True, extra="ignore"):
    """Counts of at most 100,000 training pairs, evenly distributed over the corpora, without tags."""

    pairs: int = Field(ge=1, description="pairs counted")
    src_sentences: list[int] = Field(description="sources with 1, 2, … sentences; the last: that many or more")
    tgt_sentences: list[int] = Field(description="targets with 1, 2, … sentences; the last: that many or more")
    without_letters: int = Field(default=0, ge=0, description="sources without letters, such as numbers")
    in_capitals: int = Field(default=0, ge=0, description="sources in capital letters")
    with_numbers: int = Field(default=0, ge=0, description="pairs with numbers of two digits or more")
    numbers_kept: int = Field(default=0, ge=0, description="of these: pairs with the same numbers on both sides")
    left_out: dict[str, int] | None = Field(
        default=None,
        description="pairs whose target lacks a digit or a mark of its source, by its kind; null: not counted",
    )
    left_out_tokens: str = Field(
        default="",
        description="spans, words and tokens that most targets lack whose sources have them, separated by spaces",
    )
    chars_per_token: float = Field(default=0.0, ge=0.0, description="characters per token that 99.5% of sources reach")
    words: list[str] = Field(
        default=[], description="the words in 2 sources and more, in 4 and more, in 8 and more …, separated by spaces"
    )
    once: str = Field(default="", description="the words in a single source, separated by spaces")
    usual_octave: float = Field(
        default=0.0, description="mean octave of the frequencies of their words that 99.8% of longer sources reach"
    )
    placeholders_copied: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="share of the placeholders in validation sources that the model copies",
    )
    confidence: Confidence | None = Field(
        default=None, description="what the model's scores say about quality; null: unknown"
    )

    @property
    def max_sentences(self) -> int:
        """The largest number of sentences that at least 5% of the pairs reach on both sides; at least 1."""
        sides = self.src_sentences, self.tgt_sentences
        reached = ([*accumulate(reversed(counts))][::-1] for counts in sides)  # texts with at least 1, 2, … sentences
        common = (k for k, both in enumerate(zip(*reached, strict=False), 1) if min(both) >= _COMMON * self.pairs)
        return max(common, default=1)

    @property
    def translates_numbers_alone(self) -> bool:
        """True if at least 1% of the sources have no letters, so that the model has learned what to do with them."""
        return self.without_letters >= _RARE * self.pairs

    @property
    def keeps_numbers(self) -> bool:
        """True unless most pairs with numbers have other numbers on the other side."""
        return self.with_numbers < _MIN_PAIRS or self.numbers_kept >= _KEPT * self.with_numbers

    def kinds_left_out(self, direction: Direction) -> frozenset[str]:
        """Return the kinds of digits, marks and words that a translation may lack, because those of training often do.

        With them, single tokens that it may lack, which are not counted in their kinds. The others together are left
        out in at most 1.25% of the pairs, and forms of tokens in at most 0.5%. If they were not counted, these are
        digits in languages whose number words nmt does not know, and punctuation: all of it in such languages, marks
        that other languages may do without in the others.
        """
        if self.left_out is not None:
            counts = {UNSEEN: self.pairs} | self.left_out  # older versions did not count them
            left_out = self.left_out_tokens.split()
            for kind, count in counts.items():
                is_form = kind.startswith("form ")
                as_rare = sum(n for each, n in counts.items() if n <= count and each.startswith("form ") == is_form)
                if as_rare > (_FORMS_LEFT_OUT if is_form else _LEFT_OUT) * self.pairs:
                    left_out.append(kind)
            return frozenset(left_out)
        src, tgt = map(standard_code, direction)
        is_unmarked = tgt != "zh" and written_without_spaces(tgt)  # か。 asks
        has_marks = number_words(src) and number_words(tgt) and not is_unmarked and "el" not in (src, tgt)
        digits = [] if number_words(tgt) else [DIGITS]
        return frozenset([UNSEEN, *_OFTEN_OTHERWISE, *([] if has_marks else _ELSEWHERE_OTHERWISE), *digits])

    @property
    def knows_capitals(self) -> bool:
        """True if at least 1% of the sources are in capital letters."""
        return self.in_capitals >= _RARE * self.pairs

    @cached_property
    def octaves(self) -> dict[str, int]:
        """The octave of the frequency of each word of the sources; 0: it is in a single one."""
        return {word: octave for octave, words in enumerate([self.once, *self.words]) for word in words.split()}

    @cached_property
    def trigrams(self) -> set[str]:
        """The trigrams of the words in 2 sources and more, with the spaces around them."""
        return {*trigrams_of(" ".join(["", *self.words, ""]))}

    def knows_words(self, text: str) -> bool:
        """Return whether half of the words of `text` were in two sources; of a longer text, one, and not too rare ones.

        Texts without words, and those of models whose words were not counted, are known.
        """
        words = counted_words(text)
        if not (words and self.words):
            return True
        octaves = word_octaves(words, self.octaves)
        if is_long(words):
            return max(octaves) > _UNSEEN and sum(octaves) >= self.usual_octave * len(octaves)
        return 2 * octaves.count(_UNSEEN) <= len(octaves)

    @property
    def copies_placeholders(self) -> bool:
        """True unless the model, measured after its training, loses the placeholders of most validation sources."""
        return self.placeholders_copied is None or self.placeholders_copied >= _KEPT


UNKNOWN = TextStatistics(pairs=1, src_sentences=[1], tgt_sentences=[1], in_capitals=1)
"""Statistics that no text is unlike, of a model whose training text is unknown."""
