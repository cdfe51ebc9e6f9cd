"""The interface of a runtime for a model: token ids in, hypotheses out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from nmt.config import SearchOptions
from nmt.decoding.hypothesis import Hypothesis

Input = TypeVar("Input")
Output = TypeVar("Output")


class Engine(Protocol):
    """One runtime for a model. What it cannot serve it refuses with an NmtError: "… does not support …".

    Several threads may use one engine at once, and a forked process may use its parent's.
    """

    max_src_len: int  # in tokens, eos included
    num_threads: int  # calls that `map` makes at once
    forms_batches: bool  # False: a search may be given any number of sources of any lengths

    @property
    def precision(self) -> str:
        """The precision that it computes in, such as fp32."""
        ...

    def map(self, function: Callable[[Input], Output], inputs: Sequence[Input]) -> list[Output]:
        """Return `function` of each of `inputs`, in order, computed in the threads of the engine."""
        ...

    def search(
        self,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return up to `num_hypotheses` outputs for each source (tokens without specials), best first, in order.

        The outputs of source i begin with the tokens of `prefixes[i]`.
        """
        ...

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the natural-log probabilities of each token of each target and of the eos after it.

        A target longer than the model's limit is cut there: it gets as many numbers as the limit, none for eos.
        """
        ...

    def cross_attention(
        self, source: Sequence[int], target: Sequence[int], layer: int = -1, head: int | None = None
    ) -> list[list[float]]:
        """Return attention weights [T][S]: for each id of `target` as it was chosen, over source tokens and eos.

        Of decoder layer `layer` (negative: from the last) and one head, or the mean over heads. `target` holds eos if
        the output ended with it.
        """
        ...

    def close(self) -> None:
        """End the threads of the engine; the next call starts new ones."""
        ...
