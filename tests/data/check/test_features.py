"""Looking at a chunk of texts at once gives what looking at each of them gives."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from nmt.data.check.features import Side, has_mojibake

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


@given(TEXT)
def test_a_text_that_is_looked_at_quickly_has_what_it_has(text):
    side = Side(text)
    assert bool(side.numbers()) == bool(re.search(r"\d", text))
    assert not side.is_latin() or not any(char > "\u036f" and char.isalpha() and ord(char) < 0x1E00 for char in text)
    assert not has_mojibake(text.encode("ascii", "ignore").decode())


def test_addresses_and_placeholders_are_spans():
    assert Side("Siehe www.example.org/a").spans() == ({"www.example.org/a": 1}, {})
    assert Side("Siehe {name} <b>").spans() == ({"{name}": 1}, {"<b": 1})
