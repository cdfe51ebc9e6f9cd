"""Choose among candidates by their expected similarity to the others: minimum Bayes risk decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nmt.base.errors import NmtError, how_to_install
from nmt.config import SearchOptions
from nmt.translation.segments import Segment, SegmentTranslation

Search = Callable[[Sequence[Segment], SearchOptions], list[list[SegmentTranslation]]]
"""A function from segments to their translations, best first."""


def search_candidates(
    search: Search, segments: Sequence[Segment], options: SearchOptions
) -> list[list[SegmentTranslation]]:
    """Search, rerank the hypotheses of each segment by `options.rerank`, and return the best `num_hypotheses`.

    Reranking lists each text once, so there may be fewer. NmtError if the library that computes chrF is not installed.
    """
    if options.rerank == "none":
        return search(segments, options)
    pairwise_chrf = _load_chrf()
    found = search(segments, options.of_candidates())
    if not found:  # fastchrf rejects empty input
        return []
    texts = [[candidate.text for candidate in candidates] for candidates in found]
    return [
        _ranked(candidates, utilities)[: options.num_hypotheses]
        for candidates, utilities in zip(found, pairwise_chrf(texts, texts), strict=True)
    ]


def _ranked(candidates: Sequence[SegmentTranslation], utilities: Sequence[Sequence[float]]) -> list[SegmentTranslation]:
    """Sort by mean chrF against all candidates [N][N], best first, each text once; ties keep the order of the search.

    The candidates serve as samples of the references that the model expects (Eikema and Aziz 2020, section 5). So a
    text that was found several times counts as many times in the mean.
    """
    expected = [sum(row) for row in utilities]
    order = sorted(range(len(candidates)), key=lambda index: -expected[index])
    by_text: dict[str, SegmentTranslation] = {}
    for index in order:
        by_text.setdefault(candidates[index].text, candidates[index])
    return [*by_text.values()]


def _load_chrf() -> Callable[[list[list[str]], list[list[str]]], Any]:
    try:
        from fastchrf import pairwise_chrf
    except ImportError:
        hint = how_to_install("mbr")
        raise NmtError("reranking by chrF needs the package fastchrf, which is not installed", hint=hint) from None
    return pairwise_chrf
