"""The parts that all engines share: results, the maximum length of outputs, numbers for sampling. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nmt.base.errors import NmtError, RunError
from nmt.config import SearchOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Hypothesis(NamedTuple):
    """One translation in tokens, without eos."""

    ids: list[int]
    score: float  # sum of natural-log probabilities of the tokens, eos included
    finished: bool  # ended with eos, not truncated at the maximum length
    # The summands of `score`, including that of eos if the output is finished; read-only.
    token_scores: list[float] = []  # noqa: RUF012


class NotFiniteError(RunError):
    """The outputs of a model are not numbers."""


def check_finite(score: float) -> None:
    """Raise NotFiniteError if `score`, the log-probability of an output, is not a number."""
    if math.isnan(score):
        raise NotFiniteError(
            "the model's output is not finite: its weights are damaged, or its training diverged",
            hint="use another checkpoint, or train again with a lower training.lr",
        )


def output_limits(
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    max_src_len: int,
    max_tgt_len: int,
    num_tags: int = 0,
) -> list[int]:
    """Return the maximum output length for each source (tokens without eos), eos counted.

    A prefix may be longer than `options` allow. NmtError if it exceeds the model's `max_tgt_len`. The first `num_tags`
    tokens of a prefix are tags, which `options` do not count.
    """
    limits = []
    for source, prefix in zip(sources, prefixes, strict=True):
        if len(prefix) >= max_tgt_len:
            raise NmtError(
                f"a prefix of {len(prefix)} tokens is too long",
                hint=f"the model's maximum output length is {max_tgt_len} tokens, end of sentence included",
            )
        wanted = options.max_len(min(len(source) + 1, max_src_len)) + min(num_tags, len(prefix))
        limits.append(min(max(wanted, len(prefix) + 1), max_tgt_len))
    return limits


def sampling_numbers(seed: int, sample: int, source: Sequence[int], count: int, draw: int) -> NDArray[np.float64]:
    """Return the numbers in [0, 1) that decide the first `count` tokens of a sample of `source`.

    They depend only on the seed, the source, the index of the sample and `draw`, not on the rest of the batch. To give
    equal sources different samples, pass different values of `draw`, such as line numbers.
    """
    import numpy as np  # slow to import, and not needed without sampling

    key = (seed, sample, *source, draw) if draw else (seed, sample, *source)
    return np.random.default_rng(key).random(count)
