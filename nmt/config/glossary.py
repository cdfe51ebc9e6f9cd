"""The section `data.glossary`: training pairs with annotated terms, which teach a model to follow a glossary."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nmt.config.base import Section

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class GlossaryConfig(Section):
    """Training pairs in which source words are followed by their translations, redrawn in every epoch.

    The model learns to use the given translations (Dinu et al. 2019).
    """

    share: Share = Field(
        0.0, description="share of the training pairs with annotated terms, such as 0.1; 0: the model learns no terms"
    )
    substitute: Share = Field(
        0.5,
        description="share of these pairs in which the target words of terms are replaced by words of another pair, so "
        "that the model learns to follow unseen terms",
    )
    max_terms: int = Field(3, ge=1, le=100, description="maximum number of terms annotated per pair")
    max_words: int = Field(3, ge=1, le=20, description="maximum number of words per term")

    @property
    def is_on(self) -> bool:
        """Return whether any pair is annotated."""
        return self.share > 0
