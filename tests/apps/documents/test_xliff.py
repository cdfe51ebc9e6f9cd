"""XLIFF as translation tools write it: segments, states, pairs of codes, line breaks, messages with branches."""

from __future__ import annotations

import pytest
from lxml import etree

from nmt.apps.documents.formats import read_document
from nmt.base.errors import DataError
from tests.apps.documents.written import capitals, in_capitals

STATE = ' state="needs-review-translation" state-qualifier="mt-suggestion"'


def unit(content: str, attributes: str = "") -> str:
    return (
        f'<xliff version="1.2"><file><body><trans-unit id="1"{attributes}>{content}</trans-unit></body></file></xliff>'
    )


def target(content: str, attributes: str = "") -> str:
    """The target of a unit that is translated into capitals."""
    written = capitals(unit(content, attributes).encode(), "a.xlf")
    assert read_document(written, "a.xlf").blocks == []  # a second run finds nothing to do
    found = etree.fromstring(written).find(".//target")
    assert found.get("state") in ("needs-review-translation", "final", None)
    return etree.tostring(found, encoding="unicode", with_tail=False).partition(">")[2].removesuffix("</target>")


MARKED = '<mrk mtype="seg" mid="1">a.</mrk> <mrk mid="2" mtype="seg">b</mrk>'
SEGMENTS = f"<source>a. b. c</source><seg-source>{MARKED}</seg-source>"


@pytest.mark.parametrize(
    ("content", "written"),
    [
        (SEGMENTS, '<mrk mtype="seg" mid="1">A.</mrk> <mrk mid="2" mtype="seg">B</mrk>'),
        (
            SEGMENTS + '<target><mrk mtype="seg" mid="1">z</mrk> <mrk mtype="seg" mid="2"/></target>',
            '<mrk mtype="seg" mid="1">z</mrk> <mrk mid="2" mtype="seg">B</mrk>',
        ),
        ("<source>a</source><target state='new'>a</target>", "A"),
        ("<source>a</source><target state='needs-translation'>a</target>", "A"),
        ("<source >a</source\n><target\n></target >", "A"),
        ('<source>a <bpt id="1">x</bpt>b<ept id="1">y</ept></source>', 'A <bpt id="1">x</bpt>B<ept id="1">y</ept>'),
        ('<source>a <mrk mtype="protected">b</mrk> c</source>', 'A <mrk mtype="protected">b</mrk> C'),
        ("<source>a.\\nb</source>", "A.\\nB"),
        ('<source xml:space="preserve">a\n  b</source>', "A\n  B"),
        ('<source>a <ph id="1">x<sub>b</sub>y</ph> c</source>', 'A <ph id="1">x<sub>B</sub>y</ph> C'),
        (
            '<source><it id="1">x<sub>a <g id="2">b</g></sub></it></source>',
            '<it id="1">x<sub>A <g id="2">B</g></sub></it>',
        ),
        ("<source>{n, plural, one {a} other {<x id='I'/> b}}</source>", '{n, plural, one {A} other {<x id="I"/> B}}'),
        (
            "<source>a {n, plural, one {b <x id='I'/>} other {# a}} b {m, select, x {a}} a</source>",
            'A {n, plural, one {B <x id="I"/>} other {# A}} B {m, select, x {A}} A',
        ),
        (
            "<source>a <x id='I' equiv-text='{n, plural, one {a}}'/></source>",
            'A <x id="I" equiv-text="{n, plural, one {a}}"/>',
        ),
        ("<source>{n, select, x {{m, plural, other {a}}} other {b}}</source>",) * 2,
    ],
)
def test_a_target_is_what_a_translation_tool_expects(content, written):
    if written == content:
        written = "{n, select, x {{m, plural, other {A}}} other {B}}"
    assert target(content) == written


def test_choices_in_choices_are_read_to_a_depth_of_fifty():
    text = unit(f"<source>{'{a, plural, other {' * 2000}b{'}}' * 2000}</source>").encode()
    (block,) = read_document(text, "a.xlf").blocks
    assert block.plain().endswith("b" + "}}" * 1950)


@pytest.mark.parametrize("state", ["translated", "final", "needs-review-translation", ""])
def test_a_target_of_a_person_stays(state):
    held = f'<source>a</source><target state="{state}">a</target>' if state else "<source>a</source><target>a</target>"
    assert capitals(unit(held).encode(), "a.xlf").decode() == unit(held)
    full = SEGMENTS + '<target><mrk mtype="seg" mid="1">y</mrk> <mrk mtype="seg" mid="2">z</mrk></target>'
    assert capitals(unit(full).encode(), "a.xlf").decode() == unit(full)


def test_lines_stay_where_white_space_is_preserved_and_characters_stay_a_section():
    preserve = ' xml:space="preserve"'
    assert target("<source>a\n\n\tb\nc\td</source>", preserve) == "A\n\n\tB\nC\tD"
    assert target("<source>\n  a\n  b\n</source>") == "\n  A B\n"
    written = capitals(unit("<source><![CDATA[a <b>b</b> &amp; c<br/>d]]></source>").encode(), "a.xlf").decode()
    assert "<![CDATA[A <b>B</b> &amp; C<br/>D]]></target>" in written
    written = capitals(unit("<source><![CDATA[a & b]]></source>").encode(), "a.xlf").decode()
    assert "<![CDATA[A & B]]></target>" in written


def test_the_codes_of_xliff_2_are_pairs_and_a_segment_says_that_it_is_translated():
    segment = (
        '<segment state="initial"><source>a <sc id="1"/>b<ec startRef="1"/></source><target>a b</target></segment>'
    )
    rest = "<ignorable><source> </source></ignorable><segment><source>c</source></segment>"
    text = f'<xliff version="2.0" srcLang="de"><file><unit id="1">{segment}{rest}</unit></file></xliff>'
    written = capitals(text.encode(), "a.xlf").decode()
    assert '<segment state="translated"><source>a ' in written
    assert '<target>A <sc id="1"/>B<ec startRef="1"/></target>' in written
    assert '<segment state="translated"><source>c</source><target>C</target>' in written
    document = read_document(text.encode(), "a.xlf")
    assert "{h0}" in document.blocks[0].with_marks()
    assert document.blocks[0].from_marks("{h1}x{h0}") is None  # a pair does not cross itself
    assert in_capitals(document.blocks[1]) == "C"


def test_the_codes_of_angular_are_pairs_by_their_names():
    source = 'a <x id="START_LINK"/>b <x id="START_TAG_B"/>c<x id="CLOSE_TAG_B"/><x id="CLOSE_LINK"/> <x id="ICU"/>'
    (block,) = read_document(unit(f"<source>{source}</source>").encode(), "a.xlf").blocks
    assert block.with_marks() == "a {h0}b {h1}c{h2}{h3} {h4}"
    assert block.from_marks("{h0}b {h1}c{h2}{h3} {h4} a") is not None
    assert block.from_marks("{h3}b {h1}c{h2}{h0} {h4} a") is None


@pytest.mark.parametrize("name", ["Shift_JIS", "GB18030", "Big5", "EUC-JP", "ISO-8859-1", "windows-1252"])
def test_a_file_is_read_and_written_in_the_encoding_that_its_declaration_names(name):
    word = "é" if name[0] in "Iw" else "日本"
    text = f'<?xml version="1.0" encoding="{name}"?>' + unit(f"<source>{word} a</source>")
    written = capitals(text.encode(name), "a.xlf").decode(name)
    assert f">{word.upper()} A</target>" in written


@pytest.mark.parametrize("name", ["nonsense", "utf-7", "unicode_escape", "rot13", "idna"])
def test_an_encoding_that_is_not_known_is_named(name):
    with pytest.raises(DataError, match=f"declares an encoding that is not known: {name}"):
        read_document(f'<?xml version="1.0" encoding="{name}"?>{unit("<source>a</source>")}'.encode(), "a.xlf")


def test_a_word_beside_a_placeholder_keeps_the_space_of_the_source():
    (block,) = read_document(unit('<source><x id="1"/> dogs, <x id="2"/>s</source>').encode(), "a.xlf").blocks
    assert block.from_marks("{h0}Hunde, {h1}n") == '<x id="1"/> Hunde, <x id="2"/>n'
    (block,) = read_document(unit('<source>for <x id="1"/> of (<x id="2"/>)</source>').encode(), "a.xlf").blocks
    assert block.from_marks("für{h0}von({h1})") == 'für <x id="1"/> von(<x id="2"/>)'
    assert block.from_marks("为{h0}的（{h1}）") == '为<x id="1"/>的（<x id="2"/>）'
    (block,) = read_document(unit('<source><x id="1"/> dogs, <x id="2"/>s</source>').encode(), "a.xlf").blocks
    assert block.from_marks("{h0}狗，{h1}") == '<x id="1"/>狗，<x id="2"/>'


NOTE = '<note appliesTo="target" category="nmt">{}</note>'


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ("", f"<notes>{NOTE}</notes>"),
        ("<originalData/>", f"<notes>{NOTE}</notes><originalData/>"),
        ("<notes><note>a</note></notes>", f"<notes>{NOTE}<note>a</note></notes>"),
        (
            '<m:matches xmlns:m="x"><m:match><originalData/></m:match></m:matches><originalData/>',
            '<m:matches xmlns:m="x"><m:match><originalData/></m:match></m:matches>'
            f"<notes>{NOTE}</notes><originalData/>",
        ),
    ],
)
def test_what_to_look_at_is_a_note_of_its_unit(content, written):
    segments = "<segment><source>a</source></segment><segment><source>b</source></segment>"
    units = f'<unit id="1">{content}{segments}</unit><unit id="2"><segment><source>c</source></segment></unit>'
    text = f'<xliff version="2.0" srcLang="en"><file id="f">{units}</file></xliff>'
    document = read_document(text.encode(), "a.xlf")
    assert "<note>" not in document.content_with(["A", "B", "C"]).decode().replace(content, "")
    for block, note in zip(document.blocks, ["1 < 2", "3", ""], strict=True):
        block.note = note
    saved = document.content_with(["A", "B", "C"]).decode()
    assert f'<unit id="1">{written.format("1 &lt; 2; 3")}<segment state="translated">' in saved
    assert '<unit id="2"><segment' in saved


def test_the_notes_of_xliff_1_follow_the_targets():
    document = read_document(unit("<source>a</source><note>b</note>").encode(), "a.xlf")
    document.blocks[0].note = "numbers are missing or added: 1"
    saved = document.content_with(["A"]).decode()
    assert '>A</target><note from="nmt" annotates="target">numbers are missing or added: 1</note><note>b' in saved
