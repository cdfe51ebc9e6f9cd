"""The section `data`: the parallel text, which pairs of it are kept, and how they are changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nmt.base.languages import Direction, is_variant
from nmt.config.base import Characters, Count, Rate, Section
from nmt.config.corpora import DATA_SETS, ONE_CORPUS_OR_MORE, Corpora, LanguageCode, ParallelFiles
from nmt.config.filters import Filters

Share = Annotated[float, Field(ge=0.0, le=1.0)]  # none and all included


class AugmentConfig(Section):
    """Shares of the training pairs that are changed, redrawn in every epoch. A pair is changed in at most one way.

    URLs, tags, placeholders and user symbols are never changed.
    """

    upper: Share = Field(default=0.0, description="both sides in upper case, if the source has case")
    title: Share = Field(default=0.0, description="Every Word Capitalized on both sides, if the source has case")
    typos: Share = Field(
        default=0.0, description="source with letters swapped, dropped, doubled, or replaced by a nearby key"
    )
    noise: Share = Field(
        default=0.0, description="source with words swapped, repeated or dropped, stray spaces, punctuation"
    )

    def shares(self) -> dict[str, float]:
        """Return the share of each kind of change, by name."""
        return {kind: getattr(self, kind) for kind in AUGMENT_KINDS}

    @property
    def is_on(self) -> bool:
        """Return whether any pair is changed."""
        return any(self.shares().values())


AUGMENT_KINDS = tuple(AugmentConfig.model_fields)
"""The kinds of changes."""


class DataConfig(Section):
    """The parallel text, and which pairs of it are kept."""

    src_lang: LanguageCode = Field(description="code of the source language, such as de")
    tgt_lang: LanguageCode = Field(description="code of the target language; it also chooses sacreBLEU's tokenizer")
    train: Corpora = Field(description=ONE_CORPUS_OR_MORE)
    valid: Corpora | None = Field(default=None, description="null: held out from train")
    test: Corpora | None = Field(default=None, description="null: held out from train")
    mono_tgt: str | None = Field(
        default=None, description="file of target sentences, one per line, for the language model of a phrase table"
    )
    holdout_size: Count = Field(
        default=500, description="number of source sentences held out for each of valid and test that is null"
    )
    holdout_groups: bool = Field(
        default=False,
        description="hold out pairs that share a source or a target together; false: only those that share a source",
    )
    characters: Characters = Field(
        default="normalized",
        description="normalized: read corpora in NFC, without invisible characters and unusual spaces, and sources "
        "without letters in full width; as_written: read them as they are",
    )
    filters: Filters = Field(default_factory=Filters)
    protect: bool = Field(default=False, description="teach the model to copy placeholders for URLs, tags, {name}, %s")
    placeholder_share: Rate = Field(
        default=0.1, description="with protect: share of training pairs that get an extra copy with placeholders"
    )
    temperature: float = Field(
        default=1.0,
        ge=1.0,
        le=100.0,
        description="with several corpora: sample a corpus of n pairs in proportion to n^(1/temperature); 1: by size, "
        "5: almost uniformly; instead of weights",
    )
    augment: AugmentConfig = Field(default_factory=AugmentConfig)
    store_dir: str | None = Field(
        default=None, description="folder for the tokenized corpus; null: `.store` beside the run"
    )

    def corpora(self, name: Literal["train", "valid", "test"]) -> tuple[ParallelFiles, ...]:
        """Return the corpora of one set, each with its languages; empty if the set is held out from train."""
        given: ParallelFiles | tuple[ParallelFiles, ...] | None = getattr(self, name)
        if given is None:
            return ()
        corpora = given if isinstance(given, tuple) else (given,)
        codes = [(files.src_lang or self.src_lang, files.tgt_lang or self.tgt_lang) for files in corpora]
        pairs = zip(corpora, codes, strict=True)
        return tuple(files.model_copy(update={"src_lang": src, "tgt_lang": tgt}) for files, (src, tgt) in pairs)

    @model_validator(mode="after")
    def _weights_go_together(self) -> Self:
        weighted = [files.weight is not None for files in self.corpora("train")]
        if any(weighted) and not all(weighted):
            some = f"{sum(weighted)} of the {len(weighted)} corpora of train have a weight"
            raise ValueError(f"{some}; give one to all of them or to none")
        if any(weighted) and self.temperature != 1.0:
            raise ValueError("the corpora of train have weights and temperature is not 1; use only one of them")
        for name in ("valid", "test"):
            if any(files.weight is not None for files in self.corpora(name)):
                raise ValueError(f"a corpus of {name} has a weight; only corpora of train can have weights")
            if any(files.filters is not None for files in self.corpora(name)):
                raise ValueError(f"a corpus of {name} has filters; only corpora of train can have filters")
        return self

    @model_validator(mode="after")
    def _pairs_are_changed_once(self) -> Self:
        if (total := sum(self.augment.shares().values())) > 1.0 + 1e-9:
            sums = f"the shares of augment add up to {total:g}, more than 1"
            raise ValueError(f"{sums}; a pair is changed in at most one way")
        return self

    @model_validator(mode="after")
    def _languages_go_together(self) -> Self:
        sources, targets = (dict.fromkeys(codes) for codes in zip(*self.directions, strict=True))
        for name in ("valid", "test"):
            for direction in map(self.direction_of, self.corpora(name)):
                if direction.tgt not in targets or direction.src not in {**sources, **targets}:
                    fault = f"a corpus of {name} translates from {direction.src} into {direction.tgt}"
                    known = f"contain {', '.join({**sources, **targets})}, and translate into {', '.join(targets)}"
                    raise ValueError(f"{fault}; the corpora of train {known}")
        return self

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of the training corpora, each once, in their order."""
        return tuple(dict.fromkeys(map(self.direction_of, self.corpora("train"))))

    def direction_of(self, files: ParallelFiles) -> Direction:
        """Return the direction of a corpus: its own languages, else those of the section.

        A regional variant counts as the language of the section: with `tgt_lang: pt`, a corpus in pt-BR is in pt.
        """
        pairs = (files.src_lang, self.src_lang), (files.tgt_lang, self.tgt_lang)
        src, tgt = (default if own is None or is_variant(own, default) else own for own, default in pairs)
        return Direction(src, tgt)

    def reversed(self) -> Self:
        """Return the same corpora in the other direction, without `mono_tgt`, whose language is now the source's."""
        values: dict[str, object] = {"src_lang": self.tgt_lang, "tgt_lang": self.src_lang, "mono_tgt": None}
        for name in DATA_SETS:
            given = getattr(self, name)
            several = tuple(files.reversed() for files in given) if isinstance(given, tuple) else None
            values[name] = several or (given and given.reversed())
        return self.model_copy(update=values)

    def filters_of(self, files: ParallelFiles) -> Filters:
        """Return the filters of a training corpus: its own, else those of the section."""
        return self.filters if files.filters is None else files.filters

    def with_weights(self, weights: Sequence[float]) -> Self:
        """Return the same corpora with other weights, some of which may be 0."""
        corpora = zip(self.corpora("train"), weights, strict=True)
        train = tuple(files.model_copy(update={"weight": weight}) for files, weight in corpora)
        return self.model_copy(update={"train": train, "temperature": 1.0})
