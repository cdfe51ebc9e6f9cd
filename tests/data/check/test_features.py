"""Looking at a chunk of texts at once gives what looking at each of them gives."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from nmt.data.check.features import (
    BEYOND_LATIN,
    CELL,
    CONTROL,
    DIGIT,
    FOLLOWING,
    LEAD,
    QUESTION,
    SPAN,
    Side,
    has_control_characters,
    has_mojibake,
    marks_of,
)

TEXT = st.text(st.one_of(st.characters(), st.sampled_from("aZß ?；;#=<&{%@⟦/:w.1٣Ã¼â€™\ufffd\x07\ue000我😀я\u0301")))
TEXTS = st.lists(TEXT, max_size=5)


@given(TEXTS)
def test_the_sides_of_a_chunk_are_those_of_its_texts(texts):
    for text, side in zip(texts, Side.of_chunk(texts), strict=True):
        alone = Side(text)
        assert (side.text, side.words, side.folded) == (text, alone.words, alone.folded)
        assert (side.numbers(), side.is_question(), side.spans()) == (
            alone.numbers(),
            alone.is_question(),
            alone.spans(),
        )


@given(TEXTS)
def test_a_mark_that_is_not_set_rules_its_kind_out(texts):
    for text, marks in zip(texts, marks_of(texts).tolist(), strict=True):
        if not text:
            continue  # its marks mean nothing
        assert marks & DIGIT or not re.search(r"\d", text)
        assert marks & SPAN or not re.search(r"[<&{%@⟦]|://|www\.", text)
        assert marks & QUESTION or not Side(text).is_question()
        assert marks & CELL or not ("#" in text or text[0] == "=")
        assert marks & CONTROL or (text.isprintable() and not has_control_characters(text))
        assert marks & BEYOND_LATIN or not any(
            char > "\u036f" and char.isalpha() and ord(char) < 0x1E00 for char in text
        )
        assert marks & (LEAD | FOLLOWING) == LEAD | FOLLOWING or not has_mojibake(text)


def test_plain_text_has_no_mark_and_an_address_has_one():
    texts = ["Ein Mann geht nach Hause.", "", "Siehe www.example.org", "Ein Mann."]
    plain, _, address, after = marks_of(texts).tolist()
    assert (plain, address & SPAN, after) == (0, SPAN, 0)
    assert marks_of([]).tolist() == []
