"""Units translated apart and joined are the text translated at once."""

from __future__ import annotations

import pytest

from nmt import Translator
from nmt.apps.server.models import _UnitTranslator
from nmt.apps.server.units import Wanted, cut
from nmt.base.languages import Direction

TEXTS = [
    "", " \n", "12", " 12\n\n 34 \r\n56 ", "12345. 6789! 24680? 13579. 86420! 97531.", "7" * 100, "1 {x} 2\n3 {y}",
    "{a}{b}{c}{d}{e}{f}{g}{h}{i} 12", "http://a.org/x\n45", "12 \ufffd 3\n4", "1. " * 60,
]  # fmt: skip


@pytest.fixture(scope="module", params=["two_run", "letters_run"])
def translator(request):
    return Translator.load(request.getfixturevalue(request.param), device="cpu", precision="fp32")


@pytest.mark.parametrize("text", TEXTS)
def test_units_joined_are_the_translation_of_the_text(translator, text):
    to = translator.languages.tgt
    wanted = Wanted(Direction(translator.languages.src, to), num_alternatives=2)
    pieces = cut(translator, text, wanted)
    translated = _UnitTranslator(translator)(pieces.units)
    options = translator.options.changed(beam_size=3, num_hypotheses=3)
    assert pieces.join([unit.text for unit in translated]) == translator.translate([text], options, to=to)[0].text


def test_long_lines_become_one_unit_for_each_segment(translator):
    wanted = Wanted(Direction(translator.languages.src, translator.languages.tgt))
    units = cut(translator, "12345. " * 30 + "\n6", wanted).units
    assert len(units) > 3
    assert all(unit.num_tokens < translator.max_src_len for unit in units)
    assert units[-1].text == "6"
