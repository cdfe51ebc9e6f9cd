"""The section `decoding`: options of the search for a translation."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from nmt.config.base import MAX_SEED, BatchTokens, Portion, Section, UpToMillion

Split = Literal["auto", "always", "long", "never"]

MAX_BEAM_SIZE = 1000
MAX_HYPOTHESES = 10_000
MAX_LENGTH_PENALTY = 5.0  # 32,768 tokens to this power still fit in fp32
MAX_LEN_FACTOR = 1000.0  # target tokens per source token


class SearchOptions(Section):
    """Options of the search for a translation and of the steps around it; the same for every engine.

    Lengths are in target tokens, end of sentence included. The output for a source of S tokens has at most
    `max_len_factor` x S + `max_len_offset` tokens, and never more than `model.max_tgt_len`.
    Hypotheses are ranked by log P(Y) / |Y|^`length_penalty` (Wu et al. 2016, section 7): 0 ranks by probability, 1 by
    the mean log-probability per token. ValidationError (a ValueError) if options conflict.
    """

    batch_tokens: BatchTokens = Field(default=4096, description="source tokens per batch, padding included")
    max_len_factor: float = Field(
        default=2.0,
        ge=0.0,
        le=MAX_LEN_FACTOR,
        description="maximum output length = factor x source tokens + max_len_offset",
    )
    max_len_offset: UpToMillion = Field(default=10, description="see max_len_factor")
    beam_size: int = Field(default=1, ge=1, le=MAX_BEAM_SIZE, description="beam size; 1 is greedy search")
    num_hypotheses: int = Field(
        default=1, ge=1, le=MAX_HYPOTHESES, description="number of translations per input, best first, one per line"
    )
    length_penalty: float = Field(
        default=1.0, ge=0.0, le=MAX_LENGTH_PENALTY, description="rank hypotheses by log-probability / length^penalty"
    )
    no_repeat_ngram: UpToMillion = Field(
        default=0, description="never generate an n-gram of this size twice; 0 allows repeats"
    )
    min_len: UpToMillion = Field(default=0, description="minimum output length in tokens")
    sample: bool = Field(
        default=False, description="sample translations instead of searching; `num_hypotheses` sets how many"
    )
    temperature: float = Field(
        default=1.0, ge=0.01, le=100.0, description="with `sample`: values below 1 make the output more conservative"
    )
    top_k: UpToMillion = Field(
        default=0, description="with `sample`: draw from the K most probable tokens (Fan et al. 2018); 0: all"
    )
    top_p: Portion = Field(
        default=1.0,
        description="with `sample`: draw from the smallest set of tokens whose probability reaches P "
        "(Holtzman et al. 2020)",
    )
    seed: int = Field(default=1, ge=0, le=MAX_SEED, description="with `sample`: seed of the random numbers")
    split: Split = Field(
        default="auto",
        description="when to translate the sentences of a line one by one: auto (if the model saw few training lines "
        "with so many), always, long (only beyond the model's limit), never (truncate instead)",
    )
    protect: bool = Field(
        default=True,
        description="keep URLs, tags and placeholders such as {name} and %s unchanged, if the model was trained with "
        "data.protect",
    )
    shortlist: bool = Field(
        default=False,
        description="consider only the target tokens that the run's lexical shortlist has for each source; faster, "
        "but a rare word may be lost. Build the list with `nmt shortlist`",
    )
    retry_loops: bool = Field(default=True, description="if an output repeats itself, decode it again without repeats")
    rerank: Literal["none", "mbr-chrf"] = Field(
        default="none",
        description="mbr-chrf: find `num_candidates` translations, and prefer those most similar to the others in chrF "
        "(minimum Bayes risk, Eikema and Aziz 2020); needs the extra mbr",
    )
    num_candidates: int = Field(
        default=16,
        ge=2,
        le=256,
        description="with `rerank`: number of translations to choose from, found by a beam of at least that size or by "
        "sampling",
    )

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if self.max_len_factor == 0 and self.max_len_offset == 0:
            raise ValueError("max_len_factor and max_len_offset are both 0, which leaves no room for an output")
        if self.sample and self.beam_size > 1:
            raise ValueError("sampling and beam search cannot be combined")
        if not self.sample and (self.top_k or self.top_p < 1 or self.temperature != 1):
            raise ValueError("temperature, top_k and top_p are for sampling (decoding.sample=true)")
        if not self.sample and self.rerank == "none" and self.num_hypotheses > self.beam_size:
            raise ValueError(f"{self.num_hypotheses} hypotheses need a beam of that size; it is {self.beam_size}")
        return self

    def changed(self, **changes: object) -> Self:
        """Return these options with `changes`, by field. ConfigError if they conflict, NmtError for an unknown one."""
        return type(self)(**{**self.model_dump(), **changes})

    def greedy(self) -> Self:
        """Return these options with greedy search: one hypothesis, no sampling."""
        sampling = {"sample": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        return self.changed(beam_size=1, num_hypotheses=1, rerank="none", **sampling)

    def of_candidates(self) -> Self:
        """Return the options of the search for the candidates of `rerank`."""
        count = max(self.num_candidates, self.num_hypotheses)
        beam_size = self.beam_size if self.sample else max(self.beam_size, count)
        return self.changed(num_hypotheses=count, beam_size=beam_size, rerank="none")

    def max_len(self, src_len: int) -> int:
        """Return the maximum output length for a source of `src_len` tokens; both include end of sentence."""
        return max(1, int(self.max_len_factor * src_len) + self.max_len_offset)

    def normalized(self, score: float, length: int) -> float:
        """Return the value that ranks hypotheses: `score` (log-probability) of `length` tokens, eos counted."""
        return score / length**self.length_penalty
