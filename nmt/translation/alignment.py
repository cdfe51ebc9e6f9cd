"""Word alignment: the source token of each target token, from the attention weights."""

from __future__ import annotations

from collections.abc import Sequence


def alignment(weights: Sequence[Sequence[float]], num_tgt: int) -> list[tuple[int, int]]:
    """Return (source index, target index), from 0, for the first `num_tgt` rows of the attention weights [T][S].

    Each target token is aligned with the source token that it attends to most (Garg et al. 2019, section 4.1). If that
    is eos, the last one, the target token stays unaligned.
    """
    best = [max(range(len(row)), key=row.__getitem__) for row in weights[:num_tgt]]
    return [(source, target) for target, source in enumerate(best) if source < len(weights[target]) - 1]
