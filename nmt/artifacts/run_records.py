"""The records of a run: the contents of its JSON files, validated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from nmt.base.languages import Direction
from nmt.config.base import Characters, Section
from nmt.config.model import ModelConfig
from nmt.config.search import SearchOptions

if TYPE_CHECKING:
    from nmt.config import Config

FORMAT = 1  # version of the run directory's format, recorded in each run
VALID_SCORES = {"bleu": "valid BLEU", "chrf": "valid chrF2"}  # scores of a checkpoint in its index, as tables name them


class Environment(Section, strict=True):
    """The software and hardware on which a run is trained."""

    nmt: str
    commit: str | None
    python: str
    torch: str
    packages: dict[str, str | None]
    platform: str
    processor: str  # the choice of kernels also depends on facts that `instruction_set` does not tell
    instruction_set: str
    device: str
    gpu: str | None
    threads: int
    world_size: int


class Resumption(Section, strict=True):
    """A resumption on a changed machine."""

    after_update: int
    changed: list[str]


class RunInfo(Environment):
    """The contents of run.json: how and on which machine a run is trained."""

    format: Literal[1] = 1  # FORMAT
    command: list[str]
    seed: int
    precision: Literal["fp32", "bf16", "fp16"] = Field(description="precision of the whole run, set when it starts")
    data_fingerprint: str = Field(pattern=r"^[0-9a-f]+$", description="name of the tokenized corpus in the store")
    packed: bool | None = Field(
        default=None, description="whether padding is left out of the computation; null: not known yet"
    )
    packed_reason: str = ""
    resumed: list[Resumption] = Field(default_factory=list)


class Essentials(Section):
    """The contents of essentials.json: what translating needs of the configuration, which takes longer to read."""

    config_sha256: str = Field(default="", description="of config.yaml; if it is that of another, the file is not used")
    directions: tuple[Direction, ...] = Field(min_length=1)
    user_symbols: tuple[str, ...]
    characters: Characters
    model: ModelConfig
    decoding: SearchOptions

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the essentials of `config`."""
        from nmt.data.text.tags import user_symbols

        return cls(
            directions=config.data.directions,
            user_symbols=user_symbols(config),
            characters=config.data.characters,
            model=config.model,
            decoding=config.decoding,
        )


COPIES, WORDS = "copied sources", "word by word"  # systems that need no training
_CONTROL = "with the references of other sentences"
MAX_DIFFERENCE = 0.0005  # between two engines; rounding gives some 0.00001, an epsilon of 0.001 in a norm 0.0009


class Int8Scores(Section, strict=True):
    """BLEU of the native engine on the validation set with one checkpoint, in int8 and in fp32.

    `difference` is the largest between the log-probabilities that it and PyTorch give a token of that set, in fp32.
    """

    checkpoint: str
    int8_bleu: float = Field(ge=0.0, le=100.0)
    fp32_bleu: float = Field(ge=0.0, le=100.0)
    difference: float = Field(default=0.0, ge=0.0)

    @property
    def differs(self) -> bool:
        """True if the native engine computes something else than PyTorch."""
        return self.difference > MAX_DIFFERENCE

    @property
    def loss(self) -> float:
        """The BLEU that int8 costs; negative if int8 scores higher."""
        return self.fp32_bleu - self.int8_bleu


class Quality(Section, strict=True):
    """Scores of translations of the validation set."""

    bleu: float = Field(ge=0.0)
    chrf: float = Field(ge=0.0)


class PhraseScores(Section, strict=True, extra="ignore"):
    """Scores of the phrase table and of the network on the validation set."""

    checkpoint: str = Field(description="the best one, when the network was scored")
    table: Quality
    network: Quality = Field(description="by greedy search, in fp32")

    @property
    def table_is_better(self) -> bool:
        """True if the sum of BLEU and chrF of the table is higher than that of the network."""
        return self.table.bleu + self.table.chrf > self.network.bleu + self.network.chrf


class JudgedQuality(Quality):
    """Scores with half of their 95% intervals, and chrF with the references of other sentences."""

    bleu_interval: float = Field(ge=0.0)
    chrf_interval: float = Field(ge=0.0)
    control: float = Field(ge=0.0)


class TrainingVerdict(Section, strict=True):
    """Scores on the validation set of the translations that nmt gives, and of what they have to surpass."""

    checkpoint: str = Field(description="the best one, when they were measured")
    delivered: str = Field(description="the system whose translations nmt gives")
    directions: dict[str, dict[str, JudgedQuality]] = Field(description="of each system, by direction, such as de-en")

    def describe(self) -> list[str]:
        """Return the scores in words, a line for each system, and what nmt translates with."""
        lines = []
        for direction, systems in self.directions.items():
            of_direction = f"{direction}, " if len(self.directions) > 1 else ""
            for name, found in systems.items():
                bleu = f"BLEU {found.bleu:.2f} ± {found.bleu_interval:.2f}"
                chrf = f"chrF {found.chrf:.2f} ± {found.chrf_interval:.2f}"
                lines.append(f"{of_direction}{name}: {bleu}, {chrf}, control {found.control:.2f}")
        return [*lines, f"nmt translates with: {self.delivered}"]

    def unsurpassed(self) -> str:
        """Describe what nmt's translations do not surpass in chrF, by more than both intervals; else return ""."""
        for direction, systems in self.directions.items():
            ours = systems[self.delivered]
            copies = systems[COPIES]
            highest = {COPIES: copies.chrf + copies.chrf_interval, _CONTROL: ours.control}
            name, most = max(highest.items(), key=lambda found: found[1])
            if ours.chrf - ours.chrf_interval <= most:
                of_direction = f" ({direction})" if len(self.directions) > 1 else ""
                return f"no better than {name}{of_direction}"
        return ""


class CheckpointIndex(Section, strict=True, extra="ignore", allow_inf_nan=True):
    """The contents of checkpoints/index.json: the checkpoints of a run with their scores.

    Other versions of nmt may write other keys. The loss of a diverged model may be infinite.
    """

    last: str | None = Field(default=None, description="newest checkpoint of the training itself")
    early_stopping_metric: str = "loss"
    checkpoints: dict[str, dict[str, float]] = Field(default_factory=dict, description="scores by name, oldest first")
    best: str | None = None
    validations_since_best: int = 0
    signatures: dict[str, str] = Field(default_factory=dict, description="sacreBLEU signatures of the scores")
    int8: Int8Scores | None = Field(default=None, description="measured at the end of training; null: not measured")
    phrases: PhraseScores | None = Field(default=None, description="scores of the phrase table; null: there is none")
    verdict: TrainingVerdict | None = Field(
        default=None, description="measured at the end of training; null: not measured"
    )

    def scores_of(self, checkpoint: str | None, engine: str | None = None) -> dict[str, float]:
        """Return the scores of `checkpoint`, empty if unknown; BLEU and chrF of the phrase table if that translates.

        `engine`: the name of the engine that translates; None: the better one.
        """
        of_network = self.checkpoints.get(checkpoint or "", {})
        phrases = self.phrases
        if phrases is None or phrases.checkpoint != checkpoint:
            return of_network
        by_table = phrases.table_is_better if engine is None else engine == "phrase"
        return of_network | phrases.table.model_dump() if by_table else of_network


class DirectionSize(Section):
    """The number of pairs of one direction in a validation or test set."""

    src: str
    tgt: str
    pairs: int = Field(ge=1)


class SplitInfo(Section, extra="ignore"):
    """The contents of data/valid.json and data/test.json: which lines belong to which direction."""

    directions: tuple[DirectionSize, ...] = Field(min_length=1, description="in the order of the lines")


class _Saved(Section, strict=True, extra="ignore"):
    """The base of what `nmt eval` saves; other versions of nmt may write other keys."""


class SavedInterval(_Saved):
    """The 95% confidence interval of a score."""

    mean: float | None = None
    half_width: float


class SavedScore(_Saved):
    """A score with the signature of its metric."""

    value: float
    signature: str = ""
    interval: SavedInterval | None = None


class SavedTwins(_Saved):
    """The number of test sentences with a near-twin in the training data, and the scores of the others."""

    sentences: int
    scores_without: dict[str, float] = Field(default_factory=dict)


class SavedEvaluation(_Saved):
    """The contents of eval/test.json, without its texts and paths: the scores of the test set by `nmt eval`."""

    set: str = "test"
    sentences: int | None = None
    beam_size: int | None = None
    length_penalty: float | None = None
    engine: str | None = None
    precision: str | None = None
    checkpoints: list[str]
    near_twins: SavedTwins | None = None
    scores: dict[str, SavedScore] = Field(min_length=1, description="by the name of the metric")


def checkpoint_quality(scores: Mapping[str, float], metric: str) -> tuple[float, ...]:
    """Return the quality of a checkpoint with `scores` (value by metric) according to `metric`: larger is better.

    Ties are broken by chrF, then by loss. A score that is missing or NaN counts as negative infinity.
    """

    def quality(name: str) -> float:
        value = scores.get(name, math.nan)
        if math.isnan(value):
            return -math.inf
        return -value if name == "loss" else value

    return tuple(map(quality, (metric, "chrf", "loss")))
