"""XLIFF 1.2 and 2.x: direction, states, inline codes, segments."""

from __future__ import annotations

import pytest

from tests.data.read.formats.reading import fault, read


def xliff1(*units: str, languages: str = 'source-language="en-US" target-language="de"') -> str:
    body = "\n".join(units)
    return (
        '<?xml version="1.0"?>\n<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">'
        f'<file original="a" {languages}><header><note>text</note></header><body>\n{body}\n</body></file></xliff>'
    )


def xliff2(*units: str) -> str:
    body = "\n".join(units)
    return (
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">'
        f'<file id="f">\n{body}\n</file></xliff>'
    )


def unit(source: str, target: str, attributes: str = "") -> str:
    return f'<trans-unit id="1"><source>{source}</source><target {attributes}>{target}</target></trans-unit>'


def test_units_of_1_2_are_pairs_with_their_lines(tmp_path):
    beside = "<alt-trans><source>no</source><target>nein</target></alt-trans></trans-unit>"
    text = xliff1(unit("one", "eins"), unit("two", "zwei").replace("</trans-unit>", beside))
    assert read(tmp_path / "a.xliff", text) == [("one", "eins", 3), ("two", "zwei", 4)]
    assert read(tmp_path / "a.xliff", src_lang="de", tgt_lang="en") == [("eins", "one", 3), ("zwei", "two", 4)]
    assert read(tmp_path / "a.xliff", text.replace("<", "<x:").replace("<x:/", "</x:").replace("<x:?", "<?")) == [
        ("one", "eins", 3),
        ("two", "zwei", 4),
    ]


def test_segments_of_2_0_are_pairs(tmp_path):
    text = xliff2(
        '<unit id="u"><notes><note>no text</note></notes><originalData><data id="d">&lt;b></data></originalData>',
        '<segment state="final"><source>one</source><target>eins</target></segment>',
        "<ignorable><source> </source><target> </target></ignorable>",
        "<segment><source>two</source><target>zwei</target></segment></unit>",
    )
    assert read(tmp_path / "a.xliff", text) == [("one", "eins", 3), ("two", "zwei", 5)]


@pytest.mark.parametrize(
    ("inline", "text"),
    [
        ('a <g id="1">bold <g id="2">word</g></g> and <mrk mtype="term">term</mrk>', "a bold word and term"),
        ('one<x id="1" ctype="lb"/>two<x id="2"/>three<bx id="3"/>four<ex id="3"/>', "one twothreefour"),
        (
            'a <bpt id="1">&lt;b></bpt>b<ept id="1">&lt;/b></ept> <ph id="2">[<sub>c</sub>]</ph>d<it id="3">x</it>',
            "a b d",
        ),
        (
            'a <pc id="1">bold</pc> <ph id="2" subType="fmt:lb"/>b<sc id="3"/>c<ec/><mrk id="m">d</mrk><cp hex="1"/>',
            "a bold  bcd",
        ),
    ],
)
def test_the_text_of_inline_markup_is_kept_and_codes_are_dropped(tmp_path, inline, text):
    assert read(tmp_path / "a.xliff", xliff1(unit(inline, "x"))) == [(text, "x", 3)]


def test_segments_inside_a_unit_of_1_2_are_pairs_if_both_sides_have_them(tmp_path):
    marked = '<mrk mtype="seg" mid="1">{}</mrk> <g id="1"><mrk mtype="seg" mid="2">{}</mrk></g>'
    seg_source = f"<seg-source>{marked.format('One.', 'Two.')}</seg-source>"
    both = unit("One. Two.", marked.format("Eins.", "Zwei.")).replace("<target", seg_source + "<target")
    source_only = unit("One. Two.", "Eins. Zwei.").replace("<target", seg_source + "<target")
    assert read(tmp_path / "a.xliff", xliff1(both, source_only)) == [
        ("One.", "Eins.", 3),
        ("Two.", "Zwei.", 3),
        ("One. Two.", "Eins. Zwei.", 4),
    ]


def test_units_that_are_not_translated_are_left_out_and_counted(tmp_path, messages):
    text = xliff1(
        unit("one", "eins", 'state="final"'),
        unit("two", "two", 'state="needs-translation"'),
        unit("three", "three", 'state="new"'),
        unit("four", "vier").replace("<trans-unit", '<trans-unit translate="no"'),
        "<trans-unit><source>five</source></trans-unit>",
        unit("six", "", 'state="translated"'),
    )
    assert read(tmp_path / "a.xliff", text) == [("one", "eins", 3), ("six", "", 8)]
    assert messages == [f"{tmp_path / 'a.xliff'}: skipped 4 of 6 units: without a translation"]
    initial = '<unit><segment state="initial"><source>a</source><target>a</target></segment></unit>'
    assert read(tmp_path / "b.xliff", xliff2(initial)) == []


def test_languages_that_a_file_lacks_are_named_beside_those_it_has(tmp_path):
    text = xliff1(unit("one", "un"), languages='source-language="en" target-language="fr"')
    assert fault(tmp_path / "a.xliff", text) == (
        "a.xliff: no part of this file is from en to de\n"
        "  languages in the file: en to fr (1); set src_lang and tgt_lang of this corpus"
    )
    assert read(tmp_path / "b.xliff", xliff1(unit("one", "eins"), languages='source-language="en"')) == [
        ("one", "eins", 3)
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('<!DOCTYPE xliff [<!ENTITY a "ha">]><xliff/>', "a.xliff:1: the file contains a DTD"),
        ("<tmx/>", "a.xliff:1: this is not XLIFF: the file starts with <tmx>"),
        ("<xliff><file/></xliff>", "a.xliff: no unit (<trans-unit> or <segment>) in this file"),
        (xliff1(unit("a", "b"))[:-30], "a.xliff:3: not well-formed XML: unclosed token"),
    ],
)
def test_broken_and_hostile_files_end_in_one_message(tmp_path, content, message):
    assert fault(tmp_path / "a.xliff", content).startswith(message)
