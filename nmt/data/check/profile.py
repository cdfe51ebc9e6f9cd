"""The expectations on the pairs of a corpus, learned from a sample: the usual ratio of lengths, each side's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from math import log, sqrt
from typing import TYPE_CHECKING, Any, Self

from nmt.base.languages import Direction
from nmt.config.data import DataConfig
from nmt.config.filters import Filters
from nmt.data.check.features import Side
from nmt.data.read.pairs import SentencePair
from nmt.data.text.words import letter_runs

if TYPE_CHECKING:  # numpy is imported after the first pass over the corpus, in which no other module needs it
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_SHORT = 5.0  # characters added to the length in the variance, because short sentences vary more for their length
_MIN_SCALE = 0.75  # if all pairs are similar (digits, codes), a few extra characters are not an error
# Both are in characters of the side that has more of them: a Chinese character counts as about three letters.
_MAD_TO_SCALE = 1.4826  # median absolute deviation to standard deviation, of a normal distribution

MAX_RATIO = 10.0  # of the lengths of a text and its translation; Chinese has a quarter of the characters of English

_MIN_COUNT = 3  # occurrences in the sample; rarer words are weak evidence
_MIN_ODDS = 0.7  # of a word that is worth keeping, in nats
_MAX_ODDS = 3.0  # of one word: in a corpus with some swapped rows, none is more certain
_MAX_WORDS = 5000  # the most frequent words decide, and a small table stays in the processor's cache
_MIN_TOTAL = 6.0  # of a text, in nats
_MIN_MEAN = 0.5  # per word, so that a few words of the other language are not enough

_COMMON = 0.001  # share of the words of a side; a stray language in a corpus hardly has such a frequent word
_MIN_COMMON = 3  # words of a sentence
_MIN_COMMON_SHARE = 0.3
_NO_ODDS = repeat(0.0)

SAMPLE_PAIRS = 50_000
_TYPICAL_PAIRS = 200


@dataclass(frozen=True)
class LengthModel:
    """The expected ratio of target to source characters, and how far pairs scatter around it.

    Follows Gale and Church 1993, section 3.1: the length difference is normally distributed, with a variance in
    proportion to the length. Here both parameters are medians, so a few percent of bad pairs do not affect them.
    Differences are in target characters.
    """

    ratio: float = 1.0
    scale: float = 1.0

    @classmethod
    def from_lengths(cls, src_len: ArrayLike, tgt_len: ArrayLike) -> Self:
        """Estimate the model from the lengths of pairs, in characters. Pairs with an empty side are ignored.

        The model of a ratio that no translation has is the default, so that most pairs deviate.
        """
        import numpy as np

        src, tgt = np.asarray(src_len, dtype=np.float64), np.asarray(tgt_len, dtype=np.float64)
        whole = (src > 0) & (tgt > 0)
        if not whole.any():
            return cls()
        src, tgt = src[whole], tgt[whole]
        ratio = float(np.median(tgt / src))
        if not 1 / MAX_RATIO <= ratio <= MAX_RATIO:  # IDs or names beside text: by any other ratio, most pairs are odd
            return cls()
        scale = _MAD_TO_SCALE * float(np.median(np.abs(cls(ratio).deviations(src, tgt))))
        return cls(ratio, max(_MIN_SCALE * sqrt(min(1.0, ratio)), scale))

    def deviations(self, src_len: NDArray[Any], tgt_len: NDArray[Any]) -> NDArray[np.float64]:
        """Return how many standard deviations each target is longer (negative: shorter) than expected."""
        import numpy as np

        expected = self.ratio * src_len
        short = _SHORT * min(1.0, self.ratio)
        return (tgt_len - expected) / (self.scale * np.sqrt((expected + tgt_len) / 2 + short))


@dataclass(frozen=True)
class SideWords:
    """The log-odds, in nats, of a word being on the source side rather than on the target side.

    `common`: the words that make up at least 0.1% of a side, and hardly occur on the other side.
    """

    odds: dict[str, float] = field(default_factory=dict)
    common: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

    @classmethod
    def from_words(cls, src: Iterable[Sequence[str]], tgt: Iterable[Sequence[str]]) -> Self:
        """Count the words of source and target sentences, given in lower case."""
        src_counts, tgt_counts = (Counter(word for words in side for word in words) for side in (src, tgt))
        num_src, num_tgt = src_counts.total() + 1, tgt_counts.total() + 1
        odds = {}
        for word, count in (src_counts + tgt_counts).most_common(_MAX_WORDS):
            if count < _MIN_COUNT:
                break
            value = log((src_counts[word] + 0.1) / num_src) - log((tgt_counts[word] + 0.1) / num_tgt)
            if abs(value) >= _MIN_ODDS:
                odds[word] = max(-_MAX_ODDS, min(_MAX_ODDS, value))
        common = (
            frozenset(word for word, value in odds.items() if value > 0 and src_counts[word] >= _COMMON * num_src),
            frozenset(word for word, value in odds.items() if value < 0 and tgt_counts[word] >= _COMMON * num_tgt),
        )
        return cls(odds, common)

    def evidence(self, words: Sequence[str]) -> float:
        """Return the evidence, in nats, that a text belongs to a side: above 0 source, below 0 target, 0 unclear.

        Texts with few known words, or with words of both sides, are unclear.
        """
        total = sum(map(self.odds.get, words, _NO_ODDS))
        return total if abs(total) >= max(_MIN_TOTAL, _MIN_MEAN * len(words)) else 0.0

    def is_typical(self, words: Sequence[str], side: int) -> bool:
        """Return whether a text has many common words of its side (0: source, 1: target)."""
        num_common = sum(map(self.common[side].__contains__, words))
        return num_common >= max(_MIN_COMMON, _MIN_COMMON_SHARE * len(words))


@dataclass(frozen=True)
class Profile:
    """The profile of a corpus of `num_rows` rows."""

    num_rows: int = 0
    lengths: LengthModel = field(default_factory=LengthModel)
    side_words: SideWords = field(default_factory=SideWords)
    typical: tuple[tuple[str, str], ...] = ()  # some pairs, to identify the language of each side

    @classmethod
    def from_pairs(cls, pairs: Iterable[SentencePair]) -> Self:
        """Read all pairs once and learn from an evenly spread sample; only the sample is kept in memory."""
        num_rows, sample = sample_evenly(pairs, SAMPLE_PAIRS)
        src_words, tgt_words = [letter_runs(p.src) for p in sample], [letter_runs(p.tgt) for p in sample]
        lengths = LengthModel.from_lengths([len(p.src) for p in sample], [len(p.tgt) for p in sample])
        typical = tuple((p.src, p.tgt) for p in sample[:: max(1, len(sample) // _TYPICAL_PAIRS)])
        return cls(num_rows, lengths, SideWords.from_words(src_words, tgt_words), typical)


def sample_evenly(pairs: Iterable[SentencePair], size: int) -> tuple[int, list[SentencePair]]:
    """Return the number of pairs, and every n-th pair: at most `size`, and over half of `size` if there are enough.

    n is a power of 2 that depends only on the number of pairs.
    """
    sample: list[SentencePair] = []
    step = 1
    num_rows = 0
    for num_rows, pair in enumerate(pairs, start=1):
        if (num_rows - 1) % step == 0:
            if len(sample) == size:
                del sample[1::2]
                step *= 2
                if (num_rows - 1) % step:
                    continue
            sample.append(pair)
    return num_rows, sample


@dataclass(frozen=True)
class Expectations:
    """The facts that a pair is checked against.

    `held_out`: the sources of validation and test set; `held_out_folded`: only their letters, in folded case.
    """

    src_lang: str
    tgt_lang: str
    filters: Filters = field(default_factory=Filters)
    profile: Profile = field(default_factory=Profile)
    held_out: frozenset[str] = frozenset()
    held_out_folded: frozenset[str] = frozenset()
    identify_languages: bool = False


def expect(
    data: DataConfig,
    read: Callable[[], Iterable[SentencePair]],
    held_out: Iterable[SentencePair] = (),
    *,
    identify_languages: bool | None = None,
) -> tuple[Expectations, ...]:
    """Return the expectations for each training corpus of `data`.

    Corpora of one direction with the same filters share one object.

    `read` yields the pairs; they are read once per direction, to learn its usual pair. `held_out` are the pairs of the
    validation and test sets. Languages are identified if the filters of a corpus require it (`wrong_language`), or for
    all corpora if `identify_languages` is True.
    """
    corpora = data.corpora("train")
    directions = [data.direction_of(files) for files in corpora]
    filters = [data.filters_of(files) for files in corpora]
    sources = frozenset(pair.src for pair in held_out if pair.src)
    folded = frozenset(Side(src).folded for src in sources) - {""}
    profiles = {
        direction: Profile.from_pairs(pair for pair in read() if directions[pair.corpus] == direction)
        for direction in dict.fromkeys(directions)
    }

    @cache
    def expectations(direction: Direction, own: Filters) -> Expectations:
        identifies = own.wrong_language is not None if identify_languages is None else identify_languages
        return Expectations(*direction, own, profiles[direction], sources, folded, identifies)

    return tuple(map(expectations, directions, filters))
