"""Weak spots of translations: scores of groups of sentences, the worst sentences, degenerate outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

import numpy as np

from nmt.base.languages import Direction
from nmt.data.text.text_statistics import TextStatistics
from nmt.data.text.words import counted_words
from nmt.evaluation.significance import SentenceStatistics, System, correlation
from nmt.translation.guards import count_copied, find_loop, is_in_wrong_language, is_mostly_copied

NUM_WORST = 30
NUM_BINS = 10
EXPECTED = "expected chrF"
FLAGS = ("empty", "copied", "wrong language", "looped", "too short", "too long")
"""Signs of a degenerate output, in reporting order."""

_LENGTHS = (1, 6, 11, 21, 31, 51)  # words: the smallest length in each group
_FREQUENCIES = (2, 16, 128, 1024)  # powers of two, as the statistics of a training text have them
_UNSEEN = (0, 1, 2)
_MAX_RATIO = 2  # a length that differs by more than this factor from every reference is suspicious
_MIN_CHARACTERS = 10  # smaller differences, which are common in short sentences, are ignored


@dataclass(frozen=True)
class TestSentence:
    """A sentence of a test set with its translation; `number` is its line, from 1."""

    number: int
    source: str | None
    hypothesis: str
    references: list[str]
    chrf: float
    flags: list[str]
    expected_chrf: float | None = None


@dataclass(frozen=True)
class Group:
    """The number of sentences in a group, and their corpus scores by metric."""

    label: str
    sentences: int
    scores: dict[str, float]


@dataclass(frozen=True)
class Grouping:
    """The sentences of a test set divided by one property, such as their length; empty groups are left out."""

    property: str
    groups: list[Group]


@dataclass(frozen=True)
class Details:
    """The scores of a system in detail. `flags` counts the outputs with each of `FLAGS`."""

    sentences: list[TestSentence] = field(repr=False)
    groupings: list[Grouping]
    flags: dict[str, int]

    def worst(self, count: int = NUM_WORST) -> list[TestSentence]:
        """Return the `count` sentences with the lowest chrF, worst first; ties in test-set order."""
        return sorted(self.sentences, key=lambda sentence: sentence.chrf)[:count]


def examine(
    system: System,
    sources: Sequence[str] | None,
    src_lang: str,
    statistics: TextStatistics | None = None,
    expected_chrf: Sequence[float | None] = (),
) -> Details:
    """Examine the translations of `sources` (None: unknown) by a system.

    With the `statistics` of the training text, sentences are also grouped by rare words. `expected_chrf` has what the
    model expects of each sentence.
    """
    direction = Direction(src_lang, system.tgt_lang)
    known = [None] * len(system.hypotheses) if sources is None else sources
    expected = [None if each is None else round(each, 2) for each in expected_chrf] or [None] * len(known)
    rows = zip(
        known, system.hypotheses, zip(*system.references, strict=True), rounded_chrf(system), expected, strict=True
    )
    sentences = [
        TestSentence(number, source, text, list(refs), chrf, find_flags(source, text, refs, direction), each)
        for number, (source, text, refs, chrf, each) in enumerate(rows, 1)
    ]
    flags = Counter(flag for sentence in sentences for flag in sentence.flags)
    groupings = [*_group_all(system, sources, statistics), *_calibration(sentences)]
    return Details(sentences, groupings, {flag: flags[flag] for flag in FLAGS if flags[flag]})


def rounded_chrf(system: System) -> list[float]:
    """Return chrF of each sentence [N], rounded to two digits as all reports print it."""
    return [round(chrf, 2) for chrf in system.sentence_chrf()]


def find_flags(source: str | None, hypothesis: str, references: Sequence[str], direction: Direction) -> list[str]:
    """Return which of `FLAGS` an output has: empty, copied, in the wrong language, in a loop, too short, too long.

    An output is not flagged for anything that a reference does too. It is too short or too long if it is less than half
    or more than twice as long as every reference, by at least 10 characters.
    """
    if not hypothesis.strip():
        return ["empty"] if all(reference.strip() for reference in references) else []
    signs: dict[str, Callable[[str], bool]] = {
        "copied": lambda text: (
            source is not None and direction.src != direction.tgt and is_mostly_copied(*count_copied(source, text))
        ),
        "wrong language": lambda text: is_in_wrong_language(text, direction.tgt),
    }
    found = (name for name, has in signs.items() if has(hypothesis) and not any(map(has, references)))
    flags = [*islice(found, 1)]
    known = [counted_words(text) for text in (source or "", *references)]
    if all(find_loop(counted_words(hypothesis), words) for words in known):
        flags.append("looped")
    lengths = [len(reference.strip()) for reference in references]
    length = len(hypothesis.strip())
    if length * _MAX_RATIO < min(lengths) and min(lengths) - length >= _MIN_CHARACTERS:
        flags.append("too short")
    if length > max(lengths) * _MAX_RATIO and length - max(lengths) >= _MIN_CHARACTERS:
        flags.append("too long")
    return flags


def _group_all(system: System, sources: Sequence[str] | None, statistics: TextStatistics | None) -> list[Grouping]:
    """Return the groupings of sentences by their sources, or by their references if there are no sources."""
    words = [counted_words(text) for text in (system.references[0] if sources is None else sources)]
    side = "reference" if sources is None else "source"
    groupings = [_group(system.measured, f"number of words of the {side}", list(map(len, words)), _LENGTHS)]
    if statistics is None or not statistics.words or sources is None:
        return groupings
    frequencies = [
        [1 << statistics.octaves[word] if statistics.octaves.get(word) else 0 for word in of_sentence]
        for of_sentence in words
    ]
    title = "number of words of the source that are in fewer than two training sources"
    groupings.append(_group(system.measured, title, [each.count(0) for each in frequencies], _UNSEEN))
    rarest = [min(each, default=-1) for each in frequencies]
    title = "number of training sources that have the rarest word of the source"
    by_rarest = _group(system.measured, title, rarest, _FREQUENCIES)
    return [*groupings, by_rarest] if by_rarest.groups else groupings


def _calibration(sentences: Sequence[TestSentence]) -> list[Grouping]:
    """Return expected beside true chrF in ten bins of the same size; nothing if the model expects nothing."""
    pairs = sorted((each.expected_chrf, each.chrf) for each in sentences if each.expected_chrf is not None)
    if len(pairs) < NUM_BINS:
        return []
    expected, chrf = np.array(pairs).T
    groups = []
    for bin_ in np.array_split(np.array(pairs), NUM_BINS):
        scores = {"expected": round(float(bin_[:, 0].mean()), 2), "chrF": round(float(bin_[:, 1].mean()), 2)}
        groups.append(Group(f"{bin_[0][0]:.1f} to {bin_[-1][0]:.1f}", len(bin_), scores))
    return [
        Grouping(f"{EXPECTED} (correlation with the chrF of a sentence: {correlation(expected, chrf):.2f})", groups)
    ]


def _group(
    measured: Sequence[SentenceStatistics], title: str, values: Sequence[int], starts: Sequence[int]
) -> Grouping:
    """Group the sentences by `values`: a group begins at each of `starts`; smaller values form a separate group."""
    edges = [*([0] if starts[0] else []), *starts]
    ranges = [*pairwise(edges), (edges[-1], max([*values, edges[-1]]) + 1)]
    groups = []
    for first, end in ranges:
        indices = [index for index, value in enumerate(values) if first <= value < end]
        if indices:
            up_to = f"{first:,}" if end == first + 1 else f"{first:,} to {end - 1:,}"
            label = f"{first:,} or more" if first == edges[-1] else up_to
            scores = {each.name: round(each.score(indices), 2) for each in measured}
            groups.append(Group(label, len(indices), scores))
    return Grouping(title, groups)
