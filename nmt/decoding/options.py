"""How to search: one value for every engine. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from nmt.config.sections import MAX_BEAM_SIZE, MAX_LEN_FACTOR, MAX_LENGTH_PENALTY, MAX_SEED, DecodingConfig


@dataclass(frozen=True)
class SearchOptions:
    """What a search is asked for; ValueError, in plain words, where that makes no sense.

    Lengths are in target tokens. The longest output of a source of S tokens (eos counted) is
    `max_len_factor` x S + `max_len_offset`, eos counted, and never more than the model's limit. `min_len` does not
    count eos. Hypotheses are ranked by log P(Y) / |Y|^`length_penalty`, |Y| with eos (Wu et al. 2016, section 7): 0
    ranks by probability, 1 by the mean log-probability of a token.
    """

    beam_size: int = 1  # 1: greedy
    num_hypotheses: int = 1  # outputs a sentence, best first
    length_penalty: float = 1.0
    exact: bool = False  # the n-best of the beam run to the longest length; else a sentence ends with its beam
    no_repeat_ngram: int = 0  # no n-gram of this many tokens comes twice in an output; 0: any may
    min_len: int = 0
    max_len_factor: float = 2.0
    max_len_offset: int = 10
    sample: bool = False  # draw tokens at random instead of choosing the best
    temperature: float = 1.0  # of sampling: logits are divided by it
    top_k: int = 0  # sample among the k most probable tokens (Fan et al. 2018); 0: among all
    top_p: float = 1.0  # sample among the fewest tokens with this probability together (Holtzman et al. 2020)
    seed: int = 1  # of sampling

    def __post_init__(self) -> None:
        for name, least in (("beam_size", 1), ("num_hypotheses", 1), ("max_len_factor", 0), ("max_len_offset", 0),
                            ("no_repeat_ngram", 0), ("min_len", 0), ("length_penalty", 0), ("top_k", 0)):  # fmt: skip
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name, most in (("beam_size", MAX_BEAM_SIZE), ("length_penalty", MAX_LENGTH_PENALTY),
                           ("max_len_factor", MAX_LEN_FACTOR), ("seed", MAX_SEED)):  # fmt: skip
            if not getattr(self, name) <= most:
                raise ValueError(f"{name} must be at most {most}, not {getattr(self, name)}")
        if self.max_len_factor == 0 and self.max_len_offset == 0:
            raise ValueError("max_len_factor and max_len_offset are both 0, which leaves no room for an output")
        if not self.temperature > 0:
            raise ValueError(f"temperature must be more than 0, not {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be more than 0 and at most 1, not {self.top_p}")
        if self.sample and (self.beam_size > 1 or self.exact):
            raise ValueError("sampling and beam search exclude each other")
        if not self.sample and (self.top_k or self.top_p < 1 or self.temperature != 1):
            raise ValueError("temperature, top_k and top_p are for sampling")
        if not self.sample and self.num_hypotheses > self.beam_size:
            raise ValueError(f"{self.num_hypotheses} hypotheses need a beam of that size; it is {self.beam_size}")

    @classmethod
    def from_config(cls, config: DecodingConfig) -> Self:
        """What the `decoding` section of a run asks for."""
        return cls(
            beam_size=config.beam_size,
            length_penalty=config.length_penalty,
            exact=config.exact,
            no_repeat_ngram=config.no_repeat_ngram,
            min_len=config.min_len,
            max_len_factor=config.max_len_factor,
            max_len_offset=config.max_len_offset,
        )

    def max_len(self, src_len: int) -> int:
        """The longest output, eos counted, of a source of `src_len` tokens, eos counted."""
        return max(1, int(self.max_len_factor * src_len) + self.max_len_offset)

    def normalized(self, score: float, length: int) -> float:
        """What hypotheses are ranked by: `score` (log-probability) of `length` tokens, eos counted."""
        return score / length**self.length_penalty
