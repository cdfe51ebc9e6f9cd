"""The section `data.filters`: rules that check and clean parallel text, and drop pairs before training.

The fields of `Filters` are the rules, in the order of reports. A field's description describes its rule everywhere.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nmt.config.base import Portion, Section

Threshold = Annotated[float, Field(gt=0.0, le=1000.0)]


class Filters(Section):
    """The rules that drop training pairs. All are off by default (false or null). `nmt data check` shows their cost.

    A number turns on a rule with a threshold. Lengths are in characters.
    """

    too_long: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="a side has more characters than this; a sentence rarely has 1,000",
    )
    too_short: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="a side has fewer letters and digits than this; 1 drops bare punctuation",
    )
    length_ratio: Threshold | None = Field(
        default=None,
        description="the lengths differ from the corpus's usual ratio by more than this many standard deviations "
        "(Gale and Church 1993)",
    )
    duplicate: bool = Field(default=False, description="the same pair appears on an earlier line")
    untranslated: Portion | None = Field(
        default=None,
        description="this share of the words is the same on both sides; names are exempt, related languages are not",
    )
    sides_swapped: bool | Literal["swap"] = Field(
        default=False, description="source and target are swapped; swap: swap them back, and keep the pair"
    )
    wrong_script: bool = Field(
        default=False, description="most letters of a side are in a script that its language does not use"
    )
    other_side: bool = Field(default=False, description="the words of a side belong to the language of the other side")
    wrong_language: Threshold | None = Field(
        default=None,
        description="another language is more probable by this margin in nats; 2 keeps names; needs the extra langid",
    )
    mojibake: bool = Field(
        default=False, description="text was decoded with the wrong encoding (Ã¼ for ü), or contains U+FFFD"
    )
    control_characters: bool = Field(
        default=False, description="a side contains control, private-use or unassigned characters, or a byte order mark"
    )
    markup: bool = Field(default=False, description="a side contains HTML or XML tags or entities")
    markup_mismatch: bool = Field(default=False, description="tags and entities differ between the sides")
    number_mismatch: bool = Field(
        default=False,
        description="numbers of two or more digits differ between the sides; numbers often spelled out are exempt",
    )
    span_mismatch: bool = Field(
        default=False, description="URLs, e-mail addresses or placeholders ({name}, %s) differ between the sides"
    )
    spreadsheet: bool = Field(default=False, description="a side is a spreadsheet error value (#REF!) or formula")
    header_row: bool = Field(default=False, description="the row holds column names instead of sentences")
    shifted: bool = Field(
        default=False, description="translations are one to three lines above or below their source, over several lines"
    )
    overlap: bool = Field(
        default=False, description="the source is in the validation or test set, which makes scores too high"
    )
    near_twin: bool = Field(
        default=False, description="the source shares at least half of its 4-grams of letters with one of these sets"
    )


THRESHOLDS: dict[str, float] = {
    "too_long": 1000,
    "too_short": 1,
    "length_ratio": 4.5,
    "untranslated": 0.8,
    "wrong_language": 2.0,
}
"""The thresholds that `nmt data check` uses for rules that are off."""

SAFE_FILTERS = Filters(
    too_long=1000,
    too_short=1,
    length_ratio=4.5,
    duplicate=True,
    untranslated=0.8,
    sides_swapped=True,
    wrong_script=True,
    mojibake=True,
    spreadsheet=True,
    header_row=True,
    overlap=True,
)
"""The rules that `nmt config new` turns on: they hardly ever drop a good pair."""
