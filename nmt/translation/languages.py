"""The languages of a model, and the translation direction of each text."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, Self

from nmt.artifacts.run_records import Essentials
from nmt.base.errors import NmtError, in_words
from nmt.base.languages import Direction, language_tag

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.config.base import Characters
    from nmt.config.model import LanguageTags


class DirectedText(NamedTuple):
    """A text to translate, with its languages and the tag to prepend to each of its segments, such as `<2fr> `."""

    text: str
    direction: Direction
    tag: str = ""


class LanguagePair(NamedTuple):
    """The language codes of a model, and the symbols that its tokenizer never splits, such as <2de>.

    A model with several target languages has `directions`; a tag before each source tells it the target language. `src`
    and `tgt` are then its first direction.
    """

    src: str
    tgt: str
    user_symbols: Collection[str] = ()
    directions: tuple[Direction, ...] = ()  # empty: only from src to tgt
    language_tags: LanguageTags = "source"  # as in the configuration section `model`
    characters: Characters = "as_written"  # as in the section `data`

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Return the languages of a model trained with `config`."""
        return cls.of(Essentials.of(config))

    @classmethod
    def of(cls, known: Essentials) -> Self:
        """Return the languages of a run."""
        learned = known.directions
        several = learned if len(learned) > 1 else ()
        return cls(*learned[0], known.user_symbols, several, known.model.language_tags, known.characters)

    @property
    def pairs(self) -> tuple[Direction, ...]:
        """All directions, also of a model with only one."""
        return self.directions or (Direction(self.src, self.tgt),)

    @property
    def targets(self) -> list[str]:
        """The target languages, in order."""
        return list(dict.fromkeys(direction.tgt for direction in self.directions)) or [self.tgt]

    def direct(self, text: str, to: str | None = None, from_: str | None = None) -> DirectedText:
        """Return `text` with its direction and tag. Raises as `direction`, but not for a blank text.

        A text that begins with the tag of a target language, such as `<2fr>`, is translated into that language,
        whatever `to` is.
        """
        if self.language_tags == "both":
            direction = self.direction(to, from_) if text.strip() else Direction(from_ or self.src, to or self.tgt)
            return DirectedText(text, direction, f"{language_tag(direction.src)} ")
        if len(self.targets) == 1:
            return DirectedText(text, self.direction(to, from_))
        lead = len(text) - len(text.lstrip())
        for tgt in self.targets:
            if text.startswith(tag := language_tag(tgt), lead):
                to = tgt
                text = text[:lead] + text[lead + len(tag) :].lstrip()
        direction = self.direction(to if text.strip() else to or self.tgt, from_)
        return DirectedText(text, direction, f"{language_tag(direction.tgt)} ")

    def direction(self, to: str | None = None, from_: str | None = None) -> Direction:
        """Return the direction from `from_` to `to`. NmtError if the model does not support it, or `to` is required.

        Without `from_`, the source language is the first one from which the model learned to translate into `to`.
        A model that reads tags of the source language, and has several, also requires `from_`.
        """
        targets = self.targets
        if to is None and len(targets) > 1:
            raise NmtError(
                f"this model translates into {in_words(targets)}; choose one of them",
                hint=f"set the target language: --to {targets[0]}, in Python translate(texts, to={targets[0]!r})",
            )
        to = to or self.tgt
        if to not in targets:
            raise NmtError(f"this model translates into {in_words(targets)}, not into {to}")
        if from_ is None:
            sources = [direction.src for direction in self.pairs if direction.tgt == to]
            if self.language_tags == "both" and len(sources) > 1:
                raise NmtError(
                    f"this model translates from {in_words(sources)}; choose one of them",
                    hint=f"set the source language: --from {sources[0]}, in Python from_={sources[0]!r}",
                )
            return Direction(sources[0], to)
        # Directions without training data are allowed, because a multilingual model may translate in them too.
        known = list(dict.fromkeys(code for codes in zip(*self.pairs, strict=True) for code in codes))
        if from_ not in known:
            raise NmtError(f"this model knows {in_words(known)}, not {from_}")
        return Direction(from_, to)
