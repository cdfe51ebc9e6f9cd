"""HTML is read as browsers do, and written as it was, but for its text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.apps.documents.formats import read_document
from nmt.apps.documents.markup import HtmlText
from tests.quick import quick_and_slow

PARTS = [
    "<b>", "</b>", "<p>", "</p>", "<i", ">", "a", " ", "&amp;", "&", "<!--", "-->", "<code>", "</code>", "{h0}", "<br>",
    "<![", "]>", "<?", "<!", "</", "=", "'", "<a b=",
]  # fmt: skip


def unchanged(source: str) -> str:
    page = HtmlText(source)
    return page.join([block.from_texts(block.texts()) for block in page.blocks])


def marked(source: str) -> list[str]:
    page = HtmlText(source)
    return [block.with_marks() for block in page.blocks]


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("<p>Hello <b>big</b> world</p>", ["Hello {h0}big{h1} world"]),
        ("<p> <b>Hi</b> </p>", ["Hi"]),
        ("<ul><li>x <a href='?a=1&b=2'>y</a></li></ul>tail &lt;3<br>next", ["x {h0}y{h1}", "tail <3", "next"]),
        ("use <code>f(&lt;)</code> now", ["use {h0} now"]),
        ("<span translate=no>Foo</span> bar <i class='a notranslate'>x</i>", ["{h0} bar {h1}"]),
        ("<script>a<b && c</script><style>p{}</style><!-- c --><p>a\n b</p>", ["a b"]),
        ("a <img src=x> b<br/>c", ["a {h0} b", "c"]),
        ('[a b="c d"]<img src=e>f[/a] g [h]', ["{h0}{h1}f{h2} g [h]"]),
        ('<{% if a %}b c="d"{% else %}e{% endif %} f="g">h i</{{ j }}> k', ["{h0}h i{h1} k"]),
        ("<table summary='a b'><th abbr=c>d</table>", ["a b", "c", "d"]),
        ("a <blink>b</blink> <nobr>c</nobr> <xmp><b>d</b></xmp> e", ["a {h0}b{h1} {h2}c{h3} {h4} e"]),
    ],
)
def test_blocks_of_text_hold_their_inline_tags_as_marks(source, texts):
    assert marked(source) == texts


@pytest.mark.parametrize(
    "source",
    [
        "<!DOCTYPE html><html><head><title>T &amp; x</title></head><body><p>Hello <b>big</b> world</p></body></html>",
        "<b>x <i>y</b> z</i>", "<code>x<y></code> use", "<span translate=no>Foo</span>", " hello ", "a <!-- b --> c",
        "", "a\u3000<i>b</i>", "<i>a</i>\xa0b \u3000<i>c</i>",
        "<svg><path d='M0'/><text>t</text></svg> a", "<p>1 &lt; 2 &amp; 3</p>", "<pre>a\n  b</pre>", "<code>open",
    ],
)  # fmt: skip
def test_a_page_whose_texts_stay_the_same_stays_the_same(source):
    assert unchanged(source) == source


def test_tags_go_where_the_marks_are_and_text_is_escaped():
    (block,) = HtmlText("<p>the <b>red</b> house</p>").blocks
    assert block.from_marks("casa {h0}roja & <1{h1}") == "casa <b>roja &amp; &lt;1</b>"


@pytest.mark.parametrize(
    "lost",
    ["casa roja", "{h0} casa {h0}roja{h1}", "casa {h0}roja", "{h1}casa{h0}", "{h0}{h0}casa{h1}", "{h0}x{h1}{h2}"],
)
def test_lost_repeated_or_crossed_marks_are_noticed(lost):
    (block,) = HtmlText("the <b>red</b> house").blocks
    assert block.from_marks(lost) is None


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("a <svg aria-label='b'><title>c</title><path d='M0'/></svg> d", ["b", "c", "a {h0} d"]),
        ("<svg><g><text>a <tspan class='b'>c</tspan></text></g><desc>d</desc></svg>", ["a {h0}c{h1}", "d"]),
        ("<svg><text><tspan x='0' dy='1'>a</tspan><tspan x='0'>b</tspan></text></svg>", ["a", "b"]),
        ("<svg><foreignObject><p>a</p><p>b</p></foreignObject>c<style>d > e</style></svg>", ["a", "b"]),
        ("<svg><svg><text>a</text></svg><text>b</text></svg><p>c</p>", ["a", "b", "c"]),
        ("<svg translate=no><text>a</text></svg><code><svg><text>b</text></svg></code>", []),
        ("<title>a</title><text>b</text>", ["a", "b"]),
        ("<svg><text>a", ["a"]),
    ],
)
def test_the_texts_of_pictures_are_found_and_divide_no_sentence(source, texts):
    assert marked(source) == texts
    assert unchanged(source) == source


def test_a_picture_alone_has_texts_and_no_others():
    picture = (
        b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" xmlns:d="urn:d"><title>a</title><!-- b -->\n'
        b"<metadata><d:title>c</d:title></metadata><style>d</style><g id='e'><text>f &amp; <tspan>g</tspan></text>"
        b"<text><tspan x='1'>h</tspan><tspan x='1'>i</tspan><textPath href='#e'>j</textPath></text>"
        b"<flowRoot><flowRegion><rect/></flowRegion><flowPara>k <flowSpan>l</flowSpan></flowPara></flowRoot></g></svg>"
    )
    document = read_document(picture, "a.svg")
    assert [block.with_marks() for block in document.blocks] == [
        "a",
        "f & {h0}g{h1}",
        "h",
        "i{h0}{h1}j{h2}",
        "k {h0}l{h1}",
    ]
    assert document.content_with([block.from_texts(block.texts()) for block in document.blocks]) == picture


def test_the_title_of_a_link_in_a_picture_is_translated():
    picture = b"<svg><style title='a'/><a xlink:title='b' href='c'><text>d</text></a></svg>"
    assert [block.plain() for block in read_document(picture, "a.svg").blocks] == ["b", "d"]


def test_the_title_of_a_style_names_it():
    source = "<style title='a'>b</style><p title='c'>d</p>"
    assert marked(source) == ["c", "d"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=12))
def test_any_markup_is_read_and_written_the_same_when_read_again(parts):
    written = unchanged("".join(parts))
    assert unchanged(written) == written


def test_deeply_nested_markup_takes_no_long_time():
    started = time.process_time()
    unchanged("<b>" * 3000 + "x" + "</b>" * 3000)
    for part in ("<", "<!--", "<![", "<?", "</", "&", "<svg><", "<p>x", "<b>x</b>"):
        unchanged(part * (10_000 // len(part)))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "part",
    quick_and_slow(
        [
            "<a ",
            "<a/",
            "<a =",
            "<!--x",
            "<!--x>",
            "--<!-- ",
            "<![CDATA[x>",
            "]<![cdata[]",
            "<![if x>",
            "<?x",
            "</",
            "</a ",
            "< ",
            "<%",
            "{%",
            "{{a",
            '<{{ a="',
            '[a b="',
        ],
        lambda number, _: number in (0, 4, 12),
    ),
)
def test_markup_that_does_not_end_takes_no_long_time(part):
    started = time.process_time()
    assert HtmlText(part * (1_000_000 // len(part))).join([part.strip()]).startswith(part.strip())
    assert time.process_time() - started < 8


@pytest.mark.parametrize("source", ["<script>a<b> c", "<script>x</script", "<p>1 <script> 2 > 3 <"])
def test_a_script_that_is_not_closed_stays(source):
    assert unchanged(source) == source


def test_a_number_of_a_character_may_be_of_any_length():
    assert marked("1 &#" + "9" * 5000 + "; 2") == ["1 \ufffd 2"]
