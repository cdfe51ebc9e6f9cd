"""The section `data.augment`: random changes of training pairs, which make a model robust to what users type."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from nmt.config.base import Section

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class AugmentConfig(Section):
    """Shares of the training pairs that are changed, redrawn in every epoch. A pair is changed in at most one way.

    URLs, tags, placeholders and user symbols are never changed.
    """

    upper: Share = Field(0.0, description="both sides in upper case, if the source has case")
    title: Share = Field(0.0, description="Every Word Capitalized on both sides, if the source has case")
    typos: Share = Field(0.0, description="source with letters swapped, dropped, doubled, or replaced by a nearby key")
    no_final_punctuation: Share = Field(0.0, description="both sides without their final . ! ?")
    noise: Share = Field(0.0, description="source with words swapped, repeated or dropped, stray spaces, punctuation")
    merge: Share = Field(0.0, description="two pairs joined into one, so that a source has several sentences")
    emoji: Share = Field(0.0, description="the same emoji or symbols at the start or end of both sides")
    word_rate: float = Field(
        0.1, gt=0.0, le=1.0, description="share of the source words that typos and noise change; at least one word"
    )

    def shares(self) -> dict[str, float]:
        """Return the share of each kind of change, by name."""
        return {kind: getattr(self, kind) for kind in KINDS}

    @property
    def is_on(self) -> bool:
        """Return whether any pair is changed."""
        return any(self.shares().values())

    @model_validator(mode="after")
    def _not_more_than_all(self) -> Self:
        if (total := sum(self.shares().values())) > 1.0 + 1e-9:
            raise ValueError(f"the shares add up to {total:g}, more than 1; a pair is changed in at most one way")
        return self


KINDS = tuple(name for name in AugmentConfig.model_fields if name != "word_rate")
"""The kinds of changes: the fields that are shares."""
