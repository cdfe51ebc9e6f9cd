"""What the pairs of a configuration are compared with: its filters, its held-out sets, and what is usual in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nmt.config.sections import DataConfig
from nmt.data.check.checker import Expectations
from nmt.data.check.features import Side
from nmt.data.check.profile import Profile
from nmt.data.corpus import SentencePair


def expect(
    data: DataConfig,
    read: Callable[[], Iterable[SentencePair]],
    held_out: Iterable[SentencePair] = (),
    *,
    identify_languages: bool | None = None,
) -> tuple[Expectations, ...]:
    """Return what is expected of the pairs of each training corpus of `data`; corpora of one direction share it.

    `read` yields the pairs; they are read once for each direction, to learn what is usual in it. `held_out` are the
    pairs of the validation and test sets. Languages are identified if `data.filters.wrong_language` says so, or
    `identify_languages`.
    """
    directions = [data.direction_of(files) for files in data.corpora("train")]
    sources = {pair.src for pair in held_out if pair.src}
    if identify_languages is None:
        identify_languages = data.filters.wrong_language is not None
    known = {
        direction: Expectations(
            src_lang=direction.src,
            tgt_lang=direction.tgt,
            filters=data.filters,
            profile=Profile.from_pairs(pair for pair in read() if directions[pair.corpus] == direction),
            held_out=frozenset(sources),
            held_out_folded=frozenset(Side(src).folded for src in sources) - {""},
            identify_languages=identify_languages,
        )
        for direction in dict.fromkeys(directions)
    }
    return tuple(known[direction] for direction in directions)
