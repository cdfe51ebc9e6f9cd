"""TMX: languages, inline codes, variants, and files that strangers made to do harm."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from nmt.base.errors import DataError
from nmt.base.languages import Direction
from nmt.config.corpora import ParallelFiles
from nmt.data.read.formats.tmx import directions_in
from nmt.data.read.pairs import read_parallel
from tests.data.read.formats.reading import fault, read

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="en"/><body>\n'
END = "</body></tmx>\n"


def tu(*variants: tuple[str, str]) -> str:
    inside = "".join(f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>' for language, text in variants)
    return f"<tu>{inside}</tu>\n"


def tmx(*units: str) -> str:
    return HEAD + "".join(units) + END


def test_units_are_read_with_their_lines_in_any_encoding(tmp_path):
    path = tmp_path / "a.tmx"
    text = tmx(tu(("en", "one"), ("de", "schön")), "\n", tu(("de", "zwei"), ("en", " two\n   lines ")))
    pairs = [("one", "schön", 3), ("two lines", "zwei", 5)]
    assert read(path, text) == pairs
    assert read(path, text.replace("UTF-8", "UTF-16").encode("utf-16")) == pairs
    assert read(path, text.replace("UTF-8", "ISO-8859-1").encode("latin-1")) == pairs
    assert read(tmp_path / "a.tmx.gz", gzip.compress(text.encode()), "tmx") == pairs


def test_a_document_type_that_names_a_dtd_is_passed_over(tmp_path):
    text = tmx(tu(("en", "one"), ("de", "eins"))).replace("<tmx", '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx', 1)
    assert read(tmp_path / "a.tmx", text) == [("one", "eins", 4)]


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ("a <bpt i='1'>&lt;b&gt;</bpt>bold<ept i='1'>&lt;/b&gt;</ept> word", "a bold word"),
        ("a <hi type='x'>marked <hi>inner</hi></hi> word", "a marked inner word"),
        (
            "see <ph>&lt;img alt='<sub>a picture</sub>'/&gt;</ph> here <it pos='begin'>x</it>now<ut>y</ut>",
            "see here now",
        ),
        ("one<ph>&lt;br/&gt;</ph>two<ph type='lb'/>three<ph>\\n</ph>four", "one two three four"),
        (
            "one <ph type='x-LineBreak'/> two<ph type='tab'/>three<ph>&#9;</ph>four<ph>\\t</ph>five",
            "one two three four five",
        ),
        ("price:<ph>&amp;nbsp;</ph>5<it pos='end'>&lt;/p&gt;</it><it pos='begin'>&lt;p&gt;</it>next", "price: 5 next"),
        (
            "press <ph>{0}</ph>, <ph>%1$s</ph> or <ph>https://a.b/c</ph> &amp; <ph>&amp;amp;</ph>",
            "press {0}, %1$s or https://a.b/c & &amp;",
        ),
        ("one<ph x='1'/>two<ut/>3<ph>\\cf1 </ph>", "one two 3"),
        ("5<ph>&lt;img/&gt;</ph>6 H<bpt i='1'/>2<ept i='1'/>O. <ph/> One.<ph/>Two", "5 6 H2O. One. Two"),
        ("a<it pos='begin'>\\tab </it>(b)<ph>\\line </ph>-c<ut>{\\b </ut>.", "a (b) -c."),
        (
            "big<ph>1<sub>a {0} note</sub></ph> <bpt i='1'>{1}</bpt>ger<ept i='1'>{1}</ept>man<bpt i='2' type='45'/>y",
            "big germany",
        ),
        ("A &amp; B &lt; C &#x4E2D;<![CDATA[<raw>]]>", "A & B < C 中<raw>"),
        ("", ""),
    ],
)
def test_the_text_of_inline_markup_is_kept_and_codes_are_dropped(tmp_path, segment, text):
    assert read(tmp_path / "a.tmx", tmx(tu(("en", segment), ("de", "x")))) == [(text, "x", 3)]


def test_formatting_within_a_word_leaves_it_whole(tmp_path):
    segment = "Auto<bpt i='1' type='45'/>bahn<ept i='1'/> und <bpt i='2'/>Weg<ept i='2'/>"
    assert read(tmp_path / "a.tmx", tmx(tu(("en", segment), ("de", "x")))) == [("Autobahn und Weg", "x", 3)]


def test_codes_without_a_known_text_are_left_out_and_counted(tmp_path, messages):
    image = "<ph type='image'>&lt;img src='a.png' alt='<sub>Start</sub>'></ph>"
    note = "<ph x='1'>1<sub>The note.</sub></ph>"
    segment = f"Click {image} to start{note}, <ph x='2'>{{0}}</ph>.<ph type='lb'/>Now<ut>&lt;br></ut>or<x/> never"
    read_text = [("Click to start, {0}. Now or never", "x", 3)]
    assert read(tmp_path / "a.tmx", tmx(tu(("en", segment), ("de", "x")))) == read_text
    assert messages == [
        f"{tmp_path / 'a.tmx'}: 2 inline codes left out, for which nmt knows no text: images, fields, notes"
    ]


def test_languages_fit_by_the_nearest_tag(tmp_path):
    path = tmp_path / "a.tmx"
    unit = tu(("en-US", "color"), ("EN_gb", "colour"), ("de-AT", "Farbe"), ("pt", "cor"))
    assert read(path, tmx(unit)) == [("color", "Farbe", 3), ("colour", "Farbe", 3)]
    assert read(path, src_lang="en-GB", tgt_lang="pt-BR") == [("colour", "cor", 3)]
    assert read(path, tmx(tu(("en", "general"), ("en-US", "special"), ("de", "x")))) == [("general", "x", 3)]


def test_each_source_variant_is_paired_with_each_target_variant(tmp_path):
    unit = tu(("en", "a"), ("de", "x"), ("de", "y"), ("en", "b"))
    assert [pair[:2] for pair in read(tmp_path / "a.tmx", tmx(unit))] == [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
        ("b", "y"),
    ]
    assert read(tmp_path / "b.tmx", tmx(tu(("en", "a"), ("en", "b"))), tgt_lang="en") == [("a", "b", 3), ("b", "a", 3)]


def test_the_older_attribute_for_the_language_is_read(tmp_path):
    english = '<tuv lang="EN"><note>none</note><seg>one</seg></tuv>'
    unit = f'<tu><prop>no text</prop>{english}<tuv lang="DE"><seg>eins</seg></tuv></tu>'
    assert read(tmp_path / "a.tmx", tmx(unit)) == [("one", "eins", 3)]


def test_units_without_one_of_the_languages_are_counted(tmp_path, messages):
    units = [tu(("en", "one"), ("de", "eins")), tu(("en", "two")), tu(("en", "three"), ("fr", "trois"))]
    assert read(tmp_path / "a.tmx", tmx(*units)) == [("one", "eins", 3)]
    assert messages == [f"{tmp_path / 'a.tmx'}: 2 of 3 units lack en or de and are skipped"]


def test_languages_that_a_file_lacks_are_named_beside_those_it_has(tmp_path):
    assert fault(tmp_path / "a.tmx", tmx(tu(("en-US", "one"), ("fr", "un")), tu(("fr", "deux"), ("", "x")))) == (
        "a.tmx: no unit has both en and de\n"
        "  languages in the file: fr (2), en-US (1), none given (1); set src_lang and tgt_lang of this corpus "
        "(--src-lang and --tgt-lang, or --from and --to)"
    )


LAUGHS = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n<tmx>&b;</tmx>'
EXTERNAL = '<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<tmx>&a;</tmx>'
DTD = "  write plain text instead; nmt reads neither DTDs nor entities"
REPAIR = "  export the file again, or repair it: xmllint --noout FILE shows the error"
HOSTILE = {
    LAUGHS: f"a.tmx:1: the file contains a DTD\n{DTD}",
    EXTERNAL: f"a.tmx:1: the file contains a DTD\n{DTD}",
    '<!DOCTYPE tmx SYSTEM "x.dtd">\n<tmx>&a;</tmx>': f"a.tmx:2: the file refers to an entity (a)\n{DTD}",
    "<tmx>&a;</tmx>": f"a.tmx:1: not well-formed XML: undefined entity\n{REPAIR}",
    "<tmx>\n<body><tu></body></tmx>": f"a.tmx:2: not well-formed XML: mismatched tag\n{REPAIR}",
    "<tmx>\n<body>": f"a.tmx:2: not well-formed XML: no element found\n{REPAIR}",
    "one\teins\n": f"a.tmx:1: not well-formed XML: syntax error\n{REPAIR}",
    "<tmx>\0</tmx>": f"a.tmx:1: not well-formed XML: not well-formed (invalid token)\n{REPAIR}",
    "\n<html></html>": "a.tmx:2: this is neither TMX nor TBX: the file starts with <html>",
    "<tmx>" + "<a>" * 300: "a.tmx:1: elements nested more than 200 deep",
    "<tmx><!--" + "x" * 5_000_000: f"a.tmx:1: a tag or comment longer than 4,000,000 bytes\n{REPAIR}",
    "<tmx a='" + "x" * 5_000_000: f"a.tmx:1: a tag or comment longer than 4,000,000 bytes\n{REPAIR}",
    tmx("\n", tu(("en", "x" * 1_000_001))): "a.tmx:4: a text longer than 1,000,000 characters\n  split it",
    tmx(tu(*[("en", "x" * 100_000)] * 11)): "a.tmx:3: a text longer than 1,000,000 characters\n  split it",
    tmx(tu(*[("en", "x"), ("de", "y")] * 101)): "a.tmx:3: a unit with more than 10,000 pairs of variants",
    tmx(): "a.tmx: no translation unit (<tu>, in a TBX <termEntry> or <conceptEntry>)",
    "": "a.tmx: the file is empty",
    '<?xml version="1.0" encoding="klingon"?><tmx/>': "a.tmx:1: not readable as XML: unknown encoding: klingon",
    '<?xml version="1.0" encoding="gb18030"?><tmx/>': "a.tmx:1: not readable as XML: multi-byte encodings are not",
}


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_broken_and_hostile_files_end_in_one_message(tmp_path, content):
    assert fault(tmp_path / "a.tmx", content).startswith(HOSTILE[content])


def test_a_tmx_needs_languages(tmp_path):
    assert "the languages to read are not set" in fault(tmp_path / "a.tmx", tmx(), src_lang=None)


def peak_of_reading(path: Path, num_units: int) -> int:
    with open(path, "w") as file:
        file.write(HEAD)
        file.writelines(tu(("en", f"sentence {n} " * 20), ("de", f"Satz {n} " * 20)) for n in range(num_units))
        file.write(END)
    files = ParallelFiles(tmx=str(path), src_lang="en", tgt_lang="de")
    tracemalloc.start()
    assert sum(1 for _ in read_parallel(files)) == num_units
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_file(tmp_path):
    small, large = (peak_of_reading(tmp_path / "a.tmx", num_units) for num_units in (300, 3000))
    assert large < 1.2 * small + 100_000


@pytest.mark.slow
def test_a_file_of_a_gigabyte_is_read_in_the_memory_of_a_small_one(tmp_path):
    assert peak_of_reading(tmp_path / "a.tmx", 2_500_000) < 2_000_000


def test_the_directions_of_a_memory_are_those_of_its_units(tmp_path):
    path = tmp_path / "a.tmx"
    path.write_text(tmx(tu(("en-US", "one"), ("de", "eins")), tu(("EN", "two"), ("fr", "deux")), tu(("it", "tre"))))
    pairs = [Direction(*pair) for pair in (("de", "en"), ("en", "fr"), ("de", "fr"), ("it", "en"), ("en", "es"))]
    assert directions_in(path, pairs) == pairs[:2]
    with pytest.raises(DataError, match="no unit has both de and fr") as error:
        directions_in(path, pairs[2:])
    assert "en-US (1), de (1), EN (1), fr (1), it (1)" in error.value.hint
