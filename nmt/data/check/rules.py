"""The rules by name, which is their key in `data.filters`, each with its bit in the flags of a pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nmt.config.filters import Filters

VERSION = 2  # increase this when a rule starts to find other pairs: stores of filtered pairs are then rebuilt


class Rule(NamedTuple):
    """A rule: its name, its description and its bit."""

    name: str
    description: str
    bit: int


RULES: tuple[Rule, ...] = (
    Rule("empty", "a side is empty; training always drops such pairs", 1),
    *(
        Rule(name, field.description or "", 1 << number)
        for number, (name, field) in enumerate(Filters.model_fields.items(), start=1)
    ),
)
BIT = {rule.name: rule.bit for rule in RULES}
ALL_BITS = sum(BIT.values())


def rules_in(flags: int) -> Iterator[Rule]:
    """Yield the rules whose bits are in `flags`."""
    return (rule for rule in RULES if flags & rule.bit)


def bits_switched_on(filters: Filters) -> int:
    """Return the bits of the rules that drop pairs: those that are turned on, and `empty`, which always is."""
    return BIT["empty"] | sum(BIT[name] for name, value in filters if value not in (None, False))
