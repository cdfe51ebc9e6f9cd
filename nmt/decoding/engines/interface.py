"""The interface of a runtime for a model: token ids in, hypotheses out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from nmt.base.errors import NmtError
from nmt.config import SearchOptions
from nmt.config.model import ModelConfig
from nmt.decoding.hypothesis import Hypothesis

if TYPE_CHECKING:
    from nmt.model.recording import AttentionWeights  # of tensors

EngineName = Literal["auto", "native", "torch", "phrase"]
PrecisionName = Literal["auto", "fp32", "bf16", "int8"]
DeviceName = Literal["auto", "cuda", "mps", "cpu"]

Input = TypeVar("Input")
Output = TypeVar("Output")
Ids = Sequence[int]  # of the tokens of a text
Weights = list[list[float]]  # of the cross-attention, [T][S]
Terms = tuple[Sequence[Ids], bytes]
"""For each source its terms, and for each target token whether the word before it ends there: 1, 0.

The terms are a row of forms, each written as the number of its term, its length and its ids:
0 2 17 5 0 1 9 1 1 4 has the forms (17 5) and (9) of term 0, and (4) of term 1. The forms of a term
stand together. At most 32 terms, with 64 forms."""


class Engine(Protocol):
    """A runtime for one model. Unsupported options raise an NmtError: "… does not support …".

    Several threads may use an engine at once, and a forked process may use its parent's.
    """

    name: str  # as `--engine` names it
    max_src_len: int  # in tokens, eos included
    num_threads: int  # concurrent calls of `map`
    takes_terms: bool  # whether a search can be made to find `terms`
    batches_per_search: int  # the batches of sources that one search takes; 0: it takes all sources, of any lengths

    @property
    def precision(self) -> str:
        """The precision of the computation, such as fp32."""

    def map(self, function: Callable[[Input], Output], inputs: Sequence[Input]) -> list[Output]:
        """Apply `function` to each of `inputs` in the engine's threads; return the results in order."""

    def search(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        prefixes: Sequence[Ids] | None = None,
        draws: Sequence[int] | None = None,
        drafts: Sequence[Ids] | None = None,
        terms: Terms | None = None,
    ) -> list[list[Hypothesis]]:
        """Return up to `num_hypotheses` outputs for each source (token ids without specials), best first.

        The outputs of source i begin with the tokens `prefixes[i]`. In sampling, equal sources get equal samples,
        unless their `draws` differ. `drafts` are outputs to expect, which may make the search faster; no output depends
        on them. If the engine takes `terms`, the outputs of a beam of up to 64 contain them, if the model's limit
        allows it.
        """

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Return the natural-log probability of each token of each target, and of the eos after it.

        A target longer than the model's limit is truncated: it gets as many numbers as the limit, and none for eos.
        """

    def cross_attention(self, source: Ids, target: Ids, layer: int = -1, head: int | None = None) -> Weights:
        """Return attention weights [T][S]: those of the step that chose each id of `target`, over source and eos.

        `layer` is the decoder layer (negative: from the last), `head` one of its heads (None: average over heads).
        `target` includes eos if the output ended with it.
        """

    def attention_weights(self, source: Ids, target: Ids) -> AttentionWeights:
        """Return the attention of every layer and head, with ids as in `cross_attention`.

        Not to be called while other threads search.
        """

    def close(self) -> None:
        """Stop the threads of the engine; the next call starts new ones."""


def check_layer_and_head(config: ModelConfig, layer: int, head: int | None) -> None:
    """Raise NmtError unless the decoder has this layer and this head."""
    num_layers, num_heads = config.decoder_layers, config.num_heads
    if not -num_layers <= layer < num_layers:
        raise NmtError(f"no decoder layer {layer}", hint=f"choose 0 to {num_layers - 1}; -1 is the last layer")
    if head is not None and not 0 <= head < num_heads:
        raise NmtError(f"no attention head {head}", hint=f"choose 0 to {num_heads - 1}")
