"""What the pairs of a configuration are compared with: its filters, its held-out sets, and what is usual in it."""

from __future__ import annotations

from collections.abc import Iterable

from nmt.config.sections import DataConfig
from nmt.data.check.checker import Expectations
from nmt.data.check.features import Side
from nmt.data.check.profile import Profile
from nmt.data.corpus import SentencePair


def expect(
    data: DataConfig,
    pairs: Iterable[SentencePair],
    held_out: Iterable[SentencePair] = (),
    *,
    identify_languages: bool | None = None,
) -> Expectations:
    """Read `pairs` once to learn what is usual in them; `held_out` are the pairs of the validation and test sets.

    Languages are identified if `data.filters.wrong_language` says so, or `identify_languages`.
    """
    sources = {pair.src for pair in held_out if pair.src}
    if identify_languages is None:
        identify_languages = data.filters.wrong_language is not None
    return Expectations(
        src_lang=data.src_lang,
        tgt_lang=data.tgt_lang,
        filters=data.filters,
        profile=Profile.from_pairs(pairs),
        held_out=frozenset(sources),
        held_out_folded=frozenset(Side(src).folded for src in sources) - {""},
        identify_languages=identify_languages,
    )
