"""The rules by name, which is the key of a filter in `data.filters`, each with its bit in the flags of a pair."""

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


REPORTED = {
    "near_duplicate": "an earlier pair differs only in case, punctuation, digits or white space",
    "repeated_source": "the source appears on an earlier line with another translation; often harmless",
    "mixed_scripts": "a word mixes letters of Latin, Greek and Cyrillic, which often look alike",
    "punctuation_mismatch": "only one side ends in a question mark; often harmless",
    "near_overlap": "the source is in the validation or test set, ignoring case, punctuation, digits and white space",
}
"""The rules that are no filters: `nmt data check` reports them, with their descriptions."""

_DESCRIPTIONS = {name: field.description or "" for name, field in Filters.model_fields.items()} | REPORTED

RULES: tuple[Rule, ...] = (
    Rule("empty", "a side is empty; training always drops such pairs", 1),
    *(Rule(name, text, 1 << number) for number, (name, text) in enumerate(_DESCRIPTIONS.items(), start=1)),
)
BIT = {rule.name: rule.bit for rule in RULES}
ALL_BITS = sum(BIT.values())


def rules_in(flags: int) -> Iterator[Rule]:
    """Yield the rules whose bits are in `flags`."""
    return (rule for rule in RULES if flags & rule.bit)


def bits_switched_on(filters: Filters) -> int:
    """Return the bits of the rules that drop pairs: those that are turned on, and `empty`, which always is."""
    return BIT["empty"] | sum(BIT[name] for name, value in filters if value not in (None, False, "swap"))


def bit_swapped(filters: Filters) -> int:
    """Return the bit of the rule whose pairs are swapped back; 0 if they are not."""
    return BIT["sides_swapped"] if filters.sides_swapped == "swap" else 0
