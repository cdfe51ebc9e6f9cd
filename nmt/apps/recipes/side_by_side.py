"""Compare two models, or one with two settings: their scores on the same sets, and their time, in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from nmt.artifacts.rundir import DirectedPairs
from nmt.config import SearchOptions
from nmt.evaluation.model_comparison import SetComparison, as_json, compare_on, render_table
from nmt.evaluation.test_sets import on_lines, translate_set
from nmt.translation import Translator

ROUNDS = 3  # number of times that both translate the timed sets; the median leaves out the first, which sets up

Sets = Sequence[tuple[str, DirectedPairs]]  # with their names


class Comparison(NamedTuple):
    """Two translators side by side."""

    sets: list[SetComparison]  # those that were timed come last
    seconds: list[float]  # of each, for the timed sets: the median of ROUNDS
    precisions: list[str]

    def as_json(self, names: Sequence[str]) -> dict[str, object]:
        """Return the comparison as JSON values, with the `names` of both."""
        seconds = [round(each, 3) for each in self.seconds]
        return {
            "sets": [as_json(each) for each in self.sets],
            "seconds": dict(zip(names, seconds, strict=True)),
            "precisions": dict(zip(names, self.precisions, strict=True)),
        }

    def render(self, names: tuple[str, str]) -> str:
        """Return a table of the scores, and a line about the time, with the `names` of both."""
        values = zip(names, self.seconds, self.precisions, strict=True)
        each = ", ".join(f"{name} {seconds:.2f} s ({precision})" for name, seconds, precision in values)
        faster = self.seconds[0] / max(self.seconds[1], 1e-9)
        timing = f"{faster:.2f} times as fast (median of {ROUNDS}, in turns)"
        time_line = f"decoding the {self.sets[-1].name} set: {each}, {timing}"
        return "\n".join([*render_table(self.sets, *names), time_line])


def compare_in_turns(
    both: Sequence[tuple[Translator, SearchOptions | None]], timed: Sets, others: Sets = ()
) -> Comparison:
    """Score two translators with their options on all sets, and time them, in turns, on the `timed` ones."""

    def translate(translator: Translator, options: SearchOptions | None, sets: Sets) -> list[list[str]]:
        return [on_lines(translate_set(translator, pairs, options)) for _, pairs in sets]

    texts = [translate(*each, others) for each in both]
    on_timed: list[list[list[str]]] = [[], []]
    seconds: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for number, each in enumerate(both):
            start = time.perf_counter()
            on_timed[number] = translate(*each, timed)
            seconds[number].append(time.perf_counter() - start)
    first, second = (before + after for before, after in zip(texts, on_timed, strict=True))
    named = zip([*others, *timed], first, second, strict=True)
    compared = [compare_on(name, pairs, *lines) for (name, pairs), *lines in named]
    precisions = [translator.engine.precision for translator, _ in both]
    return Comparison(compared, list(map(median, seconds)), precisions)
