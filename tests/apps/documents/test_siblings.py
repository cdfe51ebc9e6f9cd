"""What people put into documents beside plain paragraphs: signs, titles, categories, languages, declarations."""

from __future__ import annotations

import re
import zipfile
from io import BytesIO

import pytest

from nmt.apps.documents.blocks import CONTROL
from nmt.apps.documents.formats import read_document
from nmt.base.errors import DataError
from tests.apps.documents.written import capitals, unchanged

CUE = "1\n00:00:01,000 --> 00:00:02,000\n{}\n\n2\n00:00:03,000 --> 00:00:04,000\nz\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a b<br/>c d", "A B<br/>C D"),
        (r"a b\Nc d", r"A B\NC D"),
        ("{Y:i}a b", "{Y:i}A B"),
        (r"{\an8}{\i1}a{\i0} b", r"{\an8}{\i1}A{\i0} B"),
        ("a b\n\nc d", "A B\n\nC D"),
        ("2 &lt; 3 &amp; a", "2 &lt; 3 &amp; A"),
        ("2 < 3 & a", "2 < 3 & A"),
        ("中文中文\n文中文中", "中文中文\n文中文中"),
        ("- a b\nc d\n- e", "- A B\nC D\n- E"),
        ("a b c?\n-d.", "A B C?\n-D."),
        ("<i>a!</i>\n- b c d", "<i>A!</i>\n- B C D"),
        ("♪ a ♪\n♪ b c d ♪", "♪ A ♪\n♪ B C D ♪"),
        ("[a b]\nc d e f g", "[A B]\nC D E F G"),
        ("<i>ANNA: a</i>\n<i>BERT 2: b c d e</i>", "<i>ANNA: A</i>\n<i>BERT 2: B C D E</i>"),
    ],
)
def test_signs_and_blank_lines_of_a_subtitle_stay(text, written):
    subtitles = CUE.format(text)
    assert unchanged(subtitles.encode(), "a.srt").decode() == subtitles
    assert capitals(subtitles.encode(), "a.srt").decode() == CUE.format(written).replace("\nz\n", "\nZ\n")


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("a.json", r'{"a": "\u001b[1;31mb c\u001b[0m d"}', r'{"a": "\u001b[1;31mB C\u001b[0m D"}'),
        ("a.json", r'{"a": "\f b\u0007 c\u001b"}', r'{"a": "\f B\u0007 C\u001b"}'),
        ("a.txt", "a\f\n\fb \x1b[1mc\x1b[0m d\f\n", "A\f\n\fB \x1b[1mC\x1b[0m D\f\n"),
        ("a.md", "a \x1b[1mb\x1b[0m c\n", "A \x1b[1mB\x1b[0m C\n"),
        ("a.srt", CUE.format("a\vb"), CUE.format("A\vB").replace("\nz\n", "\nZ\n")),
        ("a.html", "<p>a \x07 <b>b\x0e</b> c", "<p>A \x07 <b>B\x0e</b> C"),
    ],
)
def test_what_controls_a_terminal_or_a_printer_stays_in_its_text(name, text, written):
    assert unchanged(text.encode(), name).decode() == text
    assert capitals(text.encode(), name).decode() == written
    (block, *_) = read_document(text.encode(), name).blocks
    assert not CONTROL.search(block.with_marks())


@pytest.mark.parametrize("space", [" ", "\n", "\xa0", " \xa0 ", "\u3000"])
def test_the_space_around_a_text_is_written_once(space):
    document = read_document(f"<p>{space}a<b> b</b>{space}<br>{space}c".encode(), "a.html")
    written = document.content_with(
        [block.from_texts([f" {text}x " for text in block.texts()]) for block in document.blocks]
    )
    expected = f"<p>{space} ax <b>  bx </b>{space}<br>{space} cx "
    assert re.sub(" +", " ", written.decode()) == re.sub(" +", " ", expected)


@pytest.mark.parametrize("tag", ["code", "kbd", "samp", "var"])
def test_the_title_of_code_stays(tag):
    for name in ("a.html", "a.md"):
        text = f'a <{tag} title="post /b/c">d</{tag}> <i title="e">f</i>\n'
        written = f'A <{tag} title="post /b/c">d</{tag}> <i title="E">F</i>\n'
        assert capitals(text.encode(), name).decode() == written


def test_lines_of_chinese_are_joined_without_a_space():
    for name, text in (("a.srt", CUE.format("中文\n汉字")), ("a.html", "<p>中文\n汉字"), ("a.md", "中文\n汉字\n")):
        assert read_document(text.encode(), name).blocks[0].plain() == "中文汉字"


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ('<p>a <i class="x"></i> b <a name="c"></a>d</p>', '<p>A <i class="x"></i> B <a name="c"></a>D</p>'),
        ('<input type="submit" value="a"><input value="b">', '<input type="submit" value="A"><input value="b">'),
        ('<optgroup label="a">', '<optgroup label="A">'),
        ("<img alt=a src=b><input type=submit value=c>", '<img alt="A" src=b><input type=submit value="C">'),
        ("<p>a <ruby>b<rt>c</rt></ruby> d</p>", "<p>A <ruby>B<rt>c</rt></ruby> D</p>"),
        ("{% if a > b %}c {{ d.e }}, f{% endif %}<%= g %> h", "{% if a > b %}C {{ d.e }}, F{% endif %}<%= g %> H"),
        ("<option {% if a > b %}c{% endif %} title='d'>e", "<option {% if a > b %}c{% endif %} title='D'>E"),
        ("<a :title=\"'b'\" title='c'>d</a>", "<a :title=\"'b'\" title='C'>D</a>"),
        ('<meta property="og:image:alt" content="a">', '<meta property="og:image:alt" content="A">'),
    ],
)
def test_a_page_keeps_what_shows_no_text_and_translates_what_does(page, written):
    assert capitals(page.encode(), "a.html").decode() == written
    (block, *_) = read_document(b"<p>a <i></i> b</p>", "a.html").blocks
    assert block.with_marks() == "a {h0} b"


@pytest.mark.parametrize("name", ["iso-8859-1", "windows-1251", "shift_jis", "gb2312", "utf-16", "utf-8"])
def test_a_page_is_read_and_written_as_its_declaration_says(name):
    word = {"iso-8859-1": "é€", "windows-1251": "мир", "shift_jis": "日本", "gb2312": "中文", "utf-16": "é"}.get(
        name, "é"
    )
    encoding = {"iso-8859-1": "windows-1252", "utf-16": "utf-8"}.get(name, name)
    for tag in (f'<meta charset="{name}">', f'<meta http-equiv="Content-Type" content="text/html; charset={name}">'):
        page = f"{tag}<p>{word} a</p>"
        assert capitals(page.encode(encoding), "a.html").decode(encoding) == f"{tag}<p>{word.upper()} A</p>"
    document = read_document(f'<meta charset="{name}"><p>a</p>'.encode(), "a.html")
    written = document.content_with(["中文"])
    assert "中文" in written.decode(encoding) or b"&#20013;&#25991;" in written


def test_a_page_gets_the_direction_of_its_language():
    for code, way in (("ar", "rtl"), ("he", "rtl"), ("de", "ltr")):
        document = read_document(b'<html lang="en" dir="ltr"><p>a', "a.html")
        document.name_language(code)
        assert document.content_with(["a"]).startswith(f'<html lang="{code}" dir="{way}">'.encode())


@pytest.mark.parametrize(
    ("values", "is_text"),
    [
        (["E-Mail-Adresse", "Ja/Nein", "Log-in", "Öl-Wechsel"], True),
        (["btn-ok", "en-US", "app/index", "Name.of.it", "UTF-8", "https://A/B", "^[a-z ]+$"], False),
    ],
)
def test_words_with_hyphens_and_slashes_are_text_and_names_of_code_are_not(values, is_text):
    for value in values:
        assert bool(read_document(f'{{"a": "{value}"}}'.encode(), "a.json").blocks) == is_text, value


ANDROID = '<?xml version="1.0"?>\n{}<resources><string name="a">{}</string></resources>'


def test_quotes_keep_the_spaces_at_the_edges_of_a_text_of_an_app():
    texts = ['"b: "', '"  d"', '"f" ', r"\"g\" "]
    strings = "".join(f'<string name="a">{each}</string>' for each in texts)
    text = f"<resources>{strings}</resources>"
    assert unchanged(text.encode(), "strings.xml").decode() == text
    written = capitals(text.encode(), "strings.xml").decode()
    assert re.findall(">([^<]+)<", written) == [r"B:\u0020", r"\u0020\u0020D", "F ", r"\"G\" "]


def test_the_texts_of_an_app_may_be_sections_and_name_entities():
    text = ANDROID.format(
        '<!DOCTYPE resources [<!ENTITY app "My App">]>\n', r"<![CDATA[a <b>b</b>\nc it\'s]]> d &app; e"
    )
    assert unchanged(text.encode(), "a.xml").decode() == text
    written = capitals(text.encode(), "a.xml").decode()
    assert r"<![CDATA[A <b>B</b>\nC IT\'S]]> D &app; E</string>" in written
    for entity in ('<!ENTITY a "&b;">', '<!ENTITY a SYSTEM "file:///etc/passwd">', '<!ENTITY % a "b">'):
        with pytest.raises(DataError, match="declares entities"):
            read_document(ANDROID.format(f"<!DOCTYPE resources [{entity}]>", "a").encode(), "a.xml")
        with pytest.raises(DataError, match="declares entities"):
            read_document(f"<!DOCTYPE svg [{entity}]><svg><text>a</text></svg>".encode(), "a.svg")


def test_a_picture_may_name_addresses():
    text = (
        '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "svg11.dtd" [\n<!ENTITY ns "http://ns.example/">\n'
        '<!ENTITY a "b">]>\n<svg xmlns:i="&ns;"><text>a &a; b</text></svg>'
    )
    assert unchanged(text.encode(), "a.svg").decode() == text
    assert capitals(text.encode(), "a.svg").decode() == text.replace("a &a; b", "A &a; B")


def archive(**files: str) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        for name, content in files.items():
            made.writestr(name.replace("__", "/") + ".xml", content)
    return packed.getvalue()


def read(content: bytes, name: str) -> str:
    with zipfile.ZipFile(BytesIO(content)) as opened:
        return opened.read(name).decode()


RUN = '<w:p><w:r><w:rPr><w:lang w:val="de-DE" w:eastAsia="ja-JP"/></w:rPr><w:t>a</w:t></w:r></w:p>'


@pytest.mark.parametrize(("code", "attribute"), [("fr", "val"), ("zh", "eastAsia"), ("ar", "bidi")])
def test_a_word_document_names_its_language_for_the_speller_and_has_a_translated_title(code, attribute):
    core = "<cp:coreProperties><dc:title>a b</dc:title><dc:creator>c</dc:creator></cp:coreProperties>"
    styles = '<w:styles><w:lang w:val="de-DE" w:eastAsia="ja-JP" w:bidi="ar-SA"/></w:styles>'
    content = archive(word__document=f"<w:document>{RUN}</w:document>", word__styles=styles, docProps__core=core)
    for name, before in (("word/styles.xml", styles), ("docProps/core.xml", core)):
        assert read(unchanged(content, "a.docx"), name) == before
    document = read_document(content, "a.docx")
    document.name_language(code)
    written = document.content_with(
        [block.from_texts([text.upper() for text in block.texts()]) for block in document.blocks]
    )
    assert f'w:{attribute}="{code}"' in read(written, "word/styles.xml")
    assert (f'w:{attribute}="{code}"' in read(written, "word/document.xml")) == (attribute != "bidi")
    assert "<dc:title>A B</dc:title><dc:creator>c</dc:creator>" in read(written, "docProps/core.xml")


def test_slides_and_open_documents_name_their_language():
    slide = '<p:sld><a:p><a:r><a:rPr lang="de-DE" dirty="0"/><a:t>a</a:t></a:r></a:p></p:sld>'
    document = read_document(archive(ppt__slides__slide1=slide), "a.pptx")
    document.name_language("fr")
    written = document.content_with([block.from_texts(["A"]) for block in document.blocks])
    assert 'lang="fr"' in read(written, "ppt/slides/slide1.xml")
    style = '<s fo:language="de" fo:country="DE"/><s fo:language="de"/>'
    document = read_document(archive(content=f"<o><text:p>a</text:p>{style}</o>", styles=f"<o>{style}</o>"), "a.odt")
    document.name_language("fr")
    written = read(document.content_with(["A"]), "styles.xml")
    assert re.findall('language="([^"]*)"', written) == ["fr", "fr"]
    assert "DE" not in written


SHEET = """<table:table-row><table:table-cell office:value-type="string"><text:p>a b</text:p><text:p>c</text:p>
<office:annotation><text:p>d</text:p></office:annotation></table:table-cell><table:table-cell office:value-type="date"
 office:date-value="x"><text:p>May</text:p></table:table-cell><table:table-cell office:value-type="string"
 table:formula="of:=A1"><text:p>a b</text:p></table:table-cell></table:table-row>"""


def test_a_sheet_of_open_document_keeps_dates_and_results_of_formulas():
    content = archive(content=f"<office:spreadsheet>{SHEET}</office:spreadsheet>")
    assert [block.plain() for block in read_document(content, "a.ods").blocks] == ["a b", "c", "d"]
    assert read(unchanged(content, "a.ods"), "content.xml") == read(content, "content.xml")


def test_the_words_of_references_are_translated_and_other_fields_stay():
    field = '<w:fldSimple w:instr=" {} \\h ">{}</w:fldSimple>'
    words, number = (f"<w:r><w:t>{text}</w:t></w:r>" for text in ("b c", "7"))
    paragraph = f"<w:p>{field.format('REF x', words)}<w:r><w:t> d </w:t></w:r>{field.format('PAGE', number)}</w:p>"
    content = archive(word__document=f"<w:document>{paragraph}</w:document>")
    assert read_document(content, "a.docx").blocks[0].with_marks() == "{h0}b c{h1} d {h2}"
    assert read(unchanged(content, "a.docx"), "word/document.xml") == read(content, "word/document.xml")
    for name in ("bookmark-ref", "chapter", "subject"):
        text = f"<text:p>a <text:{name}>b</text:{name}> <text:page-number>7</text:page-number></text:p>"
        assert read_document(archive(content=text), "a.odt").blocks[0].with_marks() == "a {h0}b{h1} {h2}"


def test_categories_of_a_chart_are_translated_and_its_numbers_are_not():
    points = '<c:{0}Cache><c:pt idx="0"><c:v>{1}</c:v></c:pt></c:{0}Cache>'
    chart = f"<c:chart>{points.format('str', 'a &amp; b')}{points.format('num', 'x1')}</c:chart>"
    content = archive(ppt__charts__chart1=chart, ppt__presentation="<p:presentation/>")
    assert read(unchanged(content, "a.pptx"), "ppt/charts/chart1.xml") == chart
    assert read(capitals(content, "a.pptx"), "ppt/charts/chart1.xml") == chart.replace("a &amp; b", "A &amp; B")


def test_a_presentation_without_slides_is_one_and_other_archives_are_none():
    assert read_document(archive(ppt__presentation="<p:presentation/>"), "a.pptx").blocks == []
    with pytest.raises(DataError, match=r"not a \.pptx file"):
        read_document(archive(xl__workbook="<x/>", docProps__core="<c/>"), "a.pptx")
