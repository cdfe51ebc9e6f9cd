"""Build the expectations on the pairs of a configuration: its filters, its held-out sets, and a usual pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nmt.config.data import DataConfig
from nmt.data.check.checker import Expectations
from nmt.data.check.features import Side
from nmt.data.check.profile import Profile
from nmt.data.read.corpus import SentencePair


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
    directions, filters = [data.direction_of(files) for files in corpora], [data.filters_of(files) for files in corpora]
    sources = frozenset(pair.src for pair in held_out if pair.src)
    folded = frozenset(Side(src).folded for src in sources) - {""}
    profiles = {
        direction: Profile.from_pairs(pair for pair in read() if directions[pair.corpus] == direction)
        for direction in dict.fromkeys(directions)
    }
    known = {
        (direction, own): Expectations(
            src_lang=direction.src,
            tgt_lang=direction.tgt,
            filters=own,
            profile=profiles[direction],
            held_out=sources,
            held_out_folded=folded,
            identify_languages=own.wrong_language is not None if identify_languages is None else identify_languages,
        )
        for direction, own in dict.fromkeys(zip(directions, filters, strict=True))
    }
    return tuple(known[key] for key in zip(directions, filters, strict=True))
