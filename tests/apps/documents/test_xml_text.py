"""XML fragments, such as the segments of a translation tool, keep their tags verbatim."""

from __future__ import annotations

import pytest

from nmt.apps.documents.markup import XmlText
from nmt.base.errors import DataError

FRAGMENTS = [
    "plain",
    "",
    "  ",
    'Click <x id="1"></x> or <g a=\'b"c\' d = "1">here</g>.<br/> End <!-- no --> <?pi x y?>',
    '<?xml version="1.0"?>\n<Doc><P>One &lt; two &amp; three.</P>\n</Doc>',
    "<a><b><c/></b></a>",
    'Elements <é:à translate="no">by any</é:à> name <?pi a > b?> end',
    "tail <x/></y>",
]


def rewritten(text: XmlText) -> str:
    """Put the untranslated blocks back."""
    return text.join([block.from_texts(block.texts()) for block in text.blocks])


@pytest.mark.parametrize("source", FRAGMENTS[:-1])
def test_a_fragment_translated_by_the_identity_comes_back_verbatim(source):
    assert rewritten(XmlText(source)) == source


def test_splitting_tags_end_a_block_and_the_text_in_ignored_ones_is_kept():
    text = XmlText("<p>One <b>two</b></p><p>a <x>B <b>c</b></x> d</p>", splitting=["p"], ignored=["x"])
    assert [block.plain() for block in text.blocks] == ["One two", "a d"]
    assert text.join(["1", "2"]) == "<p>1</p><p>2</p>"
    assert rewritten(text) == "<p>One <b>two</b></p><p>a <x>B <b>c</b></x> d</p>"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("<a>", "mismatched tag"),
        ("a < b", "not well-formed"),
        ("&nbsp;", "undefined entity"),
        ("</x><x>", "junk after document element"),
        ('<!DOCTYPE a [<!ENTITY e "x">]>&e;', "not well-formed"),
        ("\ud800", "not well-formed"),
        (FRAGMENTS[-1], "mismatched tag"),
    ],
)
def test_what_is_no_xml_is_refused(source, message):
    with pytest.raises(DataError, match=message):
        XmlText(source)


def test_thousands_of_tags_are_read_in_no_time():
    assert len(XmlText("<a>" * 4_000 + "x" + "</a>" * 4_000).blocks) == 1
