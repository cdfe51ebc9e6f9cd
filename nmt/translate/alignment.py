"""Which source token each target token comes from, read off the attention."""

from __future__ import annotations

from collections.abc import Sequence


def alignment(weights: Sequence[Sequence[float]], num_tgt: int) -> list[tuple[int, int]]:
    """(source token, target token) for each of the first `num_tgt` rows of weights [T][S], both counted from 0.

    A target token goes with the source token it attends to most (Garg et al. 2019, section 4.1); where that is the
    last, eos, it goes with none and is left out.
    """
    best = [max(range(len(row)), key=row.__getitem__) for row in weights[:num_tgt]]
    return [(source, target) for target, source in enumerate(best) if source < len(weights[target]) - 1]
