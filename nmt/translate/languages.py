"""The languages of a model, and the direction in which each text is translated."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Self

from nmt.config import Config
from nmt.data.directions import directions, user_symbols
from nmt.errors import NmtError
from nmt.languages import Direction, language_tag


class DirectedText(NamedTuple):
    """A text to translate, with its languages, and the tag to put before each of its segments, such as `<2fr> `."""

    text: str
    direction: Direction
    tag: str = ""


class LanguagePair(NamedTuple):
    """The languages of a model, by their codes, and symbols that the tokenizer never splits, such as <2de>.

    A model of several target languages has `directions`, and reads from a tag before each source which one is meant.
    `src` and `tgt` are then its first direction.
    """

    src: str
    tgt: str
    user_symbols: Collection[str] = ()
    directions: tuple[Direction, ...] = ()  # empty: from src to tgt alone

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the languages of a model that was trained with `config`."""
        learned = directions(config.data)
        several = learned if len(learned) > 1 else ()
        return cls(*learned[0], user_symbols(config), several)

    @property
    def targets(self) -> list[str]:
        """The target languages, in order."""
        return list(dict.fromkeys(direction.tgt for direction in self.directions)) or [self.tgt]

    def direct(self, text: str, to: str | None = None, from_: str | None = None) -> DirectedText:
        """Return `text` with the direction from `from_` to `to`; NmtError if the model does not know it.

        A text that begins with the tag of a target language, such as `<2fr>`, goes into that language, whatever `to`
        is. Without `from_`, the source language is the first that the model translates into `to` from.
        """
        targets = self.targets
        if len(targets) == 1:
            return DirectedText(text, self._direction(to or self.tgt, from_))
        lead = len(text) - len(text.lstrip())
        for tgt in targets:
            if text.startswith(tag := language_tag(tgt), lead):
                to, text = tgt, text[:lead] + text[lead + len(tag) :].lstrip()
        if to is None and text.strip():
            raise NmtError(
                f"this model translates into {_listed(targets)}; it must be told which",
                hint=f"name the target language: --to {targets[0]}, in Python translate(texts, to={targets[0]!r})",
            )
        direction = self._direction(to or self.tgt, from_)
        return DirectedText(text, direction, f"{language_tag(direction.tgt)} ")

    def _direction(self, to: str, from_: str | None) -> Direction:
        if to not in self.targets:
            raise NmtError(f"this model translates into {_listed(self.targets)}, not into {to}")
        directions = self.directions or (Direction(self.src, self.tgt),)
        if from_ is None:
            return next(direction for direction in directions if direction.tgt == to)
        # Directions that were not trained are allowed: a model of many languages may translate in them too.
        known = list(dict.fromkeys(code for codes in zip(*directions, strict=True) for code in codes))
        if from_ not in known:
            raise NmtError(f"this model knows {_listed(known)}, not {from_}")
        return Direction(from_, to)


def _listed(codes: Collection[str]) -> str:
    *first, last = codes
    return f"{', '.join(first)} and {last}" if first else last
