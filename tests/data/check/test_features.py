"""What the rules look for in a text is found, however quickly they look."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from nmt.data.check.features import Side, has_mojibake, numbers_in

TEXT = st.text(st.one_of(st.characters(), st.sampled_from("aZß ?；;#=<&{%@⟦/:w.1٣Ã¼â€™\ufffd\x07\ue000我😀я\u0301")))


@given(TEXT)
def test_a_text_that_is_looked_at_quickly_has_what_it_has(text):
    side = Side(text)
    assert bool(numbers_in(text)) == bool(re.search(r"\d", text))
    assert not side.is_latin() or not any(char > "\u036f" and char.isalpha() and ord(char) < 0x1E00 for char in text)
    assert not has_mojibake(text.encode("ascii", "ignore").decode())


def test_addresses_and_placeholders_are_spans():
    assert Side("Siehe www.example.org/a").spans() == (["www.example.org/a"], [])
    assert Side("Siehe {name} <b>").spans() == (["{name}"], ["<b"])
