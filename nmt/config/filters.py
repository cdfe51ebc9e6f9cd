"""The section `data.filters`: the rules by which pairs are checked, cleaned, and dropped before training.

The fields of `Filters` are the rules, in the order in which reports name them; a field's description is the sentence
that describes its rule everywhere.
"""

from __future__ import annotations

from pydantic import Field

from nmt.config.base import Section


class Filters(Section):
    """The rules that drop training pairs; all off unless switched on (false or null). `nmt data check` shows the cost.

    A rule with a threshold is switched on by a number. Lengths are in characters.
    """

    too_long: int | None = Field(
        None, ge=1, le=1_000_000, description="a side has more characters than this; a sentence rarely has 1,000"
    )
    too_short: int | None = Field(
        None, ge=1, le=1000, description="a side has fewer letters and digits than this; 1 drops bare punctuation"
    )
    length_ratio: float | None = Field(
        None,
        gt=0.0,
        le=1000.0,
        description="the lengths differ from the corpus's usual ratio by more than this many standard deviations "
        "(Gale and Church 1993)",
    )
    duplicate: bool = Field(False, description="the same pair stands on an earlier line")
    near_duplicate: bool = Field(
        False, description="an earlier pair differs only in case, punctuation, digits or white space"
    )
    repeated_source: bool = Field(
        False, description="the source stands on an earlier line, with another translation; often harmless"
    )
    untranslated: float | None = Field(
        None,
        gt=0.0,
        le=1.0,
        description="this share of the words is the same on both sides; names are exempt, sister languages are not",
    )
    sides_swapped: bool = Field(False, description="source and target have changed places")
    wrong_script: bool = Field(
        False, description="most letters of a side are in a script that its language does not use"
    )
    mixed_scripts: bool = Field(
        False, description="a word mixes letters of Latin, Greek and Cyrillic, which often look alike"
    )
    other_side: bool = Field(False, description="the words of a side belong to the language of the other side")
    wrong_language: float | None = Field(
        None,
        gt=0.0,
        le=1000.0,
        description="another language is more probable by this margin in nats; 2 spares names; needs the extra langid",
    )
    mojibake: bool = Field(False, description="text was decoded with the wrong encoding (Ã¼ for ü), or holds U+FFFD")
    control_characters: bool = Field(
        False, description="a side holds control, private-use or unassigned characters, or a byte order mark"
    )
    markup: bool = Field(False, description="a side holds tags or entities of HTML or XML")
    markup_mismatch: bool = Field(False, description="tags and entities differ between the sides")
    number_mismatch: bool = Field(
        False,
        description="numbers of two digits or more differ between the sides; those easily spelled out are exempt",
    )
    span_mismatch: bool = Field(
        False, description="URLs, e-mail addresses or placeholders ({name}, %s) differ between the sides"
    )
    punctuation_mismatch: bool = Field(
        False, description="one side ends in a question mark, the other does not; often harmless"
    )
    spreadsheet: bool = Field(False, description="a side is an error value (#REF!) or a formula of a spreadsheet")
    header_row: bool = Field(False, description="the row names the columns instead of holding sentences")
    shifted: bool = Field(
        False, description="translations stand one to three lines above or below their source, over a run of lines"
    )
    overlap: bool = Field(False, description="the source is in the validation or test set, which makes scores too high")
    near_overlap: bool = Field(
        False, description="the source is in the validation or test set but for case, punctuation, digits, white space"
    )


THRESHOLDS: dict[str, float] = {
    "too_long": 1000,
    "too_short": 1,
    "length_ratio": 4.5,
    "untranslated": 0.8,
    "wrong_language": 2.0,
}
"""The thresholds that `nmt data check` uses for rules that are not switched on."""

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
"""The rules that `nmt config new` switches on: they hardly ever meet a good pair."""
