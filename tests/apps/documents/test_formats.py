"""Documents keep their structure: what is not text is as it was."""

from __future__ import annotations

import re
import sys
import time
import zipfile
from copy import deepcopy
from io import BytesIO
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from nmt import Translator
from nmt.apps.cli import app
from nmt.apps.documents import archives
from nmt.apps.documents.formats import read_document
from nmt.apps.documents.translation import translate_blocks
from nmt.artifacts.rundir import RunDir
from nmt.base import progress
from nmt.base.errors import DataError
from nmt.translation import Glossary
from nmt.translation.chain import Chain
from nmt.translation.request import Request
from tests.apps.documents.written import unchanged, upper

HTML = b"\xef\xbb\xbf<!doctype html><p class=a>12 <b>34</b></p><ul><li>5<li>6</ul>"
SRT = b"1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>12\r\n345</i>\r\n\r\n2\n00:00:03,000 --> 00:00:04,000\n67\n\n"
PO = rb"""msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=n != 1;\n"

#. a comment
#: app.c:7
msgid "12\n34"
msgstr ""

msgid "kept"
msgstr "as it was"

msgid "5"
msgid_plural "67"
msgstr[0] ""
msgstr[1] ""
"""
XLIFF = b"""<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:x="urn:x"><file original="a"><body>
<trans-unit id="1"><source>12 <g id="1" x:y="&amp;">34</g><x id="2"/> 5 &lt; 6</source></trans-unit>
<trans-unit id="2"><source>7</source><target>kept</target></trans-unit>
<trans-unit id="3"><source>8</source><target state="new"/></trans-unit>
</body></file></xliff>"""


STATE = ' state="needs-review-translation" state-qualifier="mt-suggestion"'
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def docx_bytes() -> bytes:
    document = pytest.importorskip("docx", reason="needs python-docx").Document()
    paragraph = document.add_paragraph("12 ")
    paragraph.add_run("34").bold = True
    paragraph.add_run(" 56")
    document.add_paragraph("")
    tabbed = document.add_paragraph()
    tabbed.add_run("1\t2")
    tabbed.add_run("3").italic = True
    tabbed.add_run(".")
    boxed = document.add_paragraph("a1 ")
    run = boxed.add_run()
    picture, content = (run._r.makeelement(f"{{{WORD}}}{name}", {}) for name in ("pict", "txbxContent"))
    run._r.append(picture)
    picture.append(content)
    content.append(deepcopy(boxed._p))
    boxed.add_run(" 2")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "7", "89"
    document.sections[0].header.paragraphs[0].text = "1"
    content = BytesIO()
    document.save(content)
    return content.getvalue()


def with_notes(notes: bytes | None = None) -> bytes:
    """A document with a footnote, an endnote and a comment, as Word writes them."""
    document = pytest.importorskip("docx", reason="needs python-docx").Document()
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part

    paragraph = document.add_paragraph("12")
    for kind in ("footnote", "endnote"):
        reference = paragraph.add_run()._r
        reference.append(reference.makeelement(f"{{{WORD}}}{kind}Reference", {f"{{{WORD}}}id": "1"}))
        root = (
            f'<?xml version="1.0"?><w:{kind}s xmlns:w="{WORD}"><w:{kind} w:type="separator" w:id="0"><w:p><w:r>'
            f'<w:separator/></w:r></w:p></w:{kind}><w:{kind} w:id="1"><w:p><w:r><w:{kind}Ref/></w:r><w:r><w:t>34 </w:t>'
            f"</w:r><w:r><w:rPr><w:b/></w:rPr><w:t>56</w:t></w:r></w:p></w:{kind}></w:{kind}s>"
        ).encode()
        name, content_type = PackURI(f"/word/{kind}s.xml"), f"{TYPES}.{kind}s+xml"
        part = Part(name, content_type, root if notes is None else notes, document.part.package)
        document.part.relate_to(part, f"{RELATIONS}/{kind}s")
    document.add_comment(paragraph.runs, "78", author="A", initials="A")
    content = BytesIO()
    document.save(content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.html", HTML + b"\r\n<P Class=a >a\n b &amp; &eacute; <BR/>\n<img alt='1 &amp; 2'></P>"),
        ("a.srt", SRT),
        (
            "a.vtt",
            b"WEBVTT - 1\n\nNOTE 2\n3\n\nSTYLE\n::cue{}\n\nid\n00:01.000 --> 00:02.000 line:0\n<v A>1 &amp;\n2</v>\n",
        ),
        ("a.md", b"# 1\n\n2 *3*\n4\n\n- 5 [6](7)\n"),
        ("a.txt", b"\xef\xbb\xbf1\r\n\r\n  2\n\t3"),
        ("a.json", b'{"a": "b\\u00e9\\/c", "d": ["e\\nf", 1.50]}'),
        ("a.arb", b'{"@@locale": "de", "a": "{n, plural, one {# b} other {# c}} d"}'),
        ("a.xml", b"<resources>\n<string name='a'>it\\'s <b>1</b>\\n2 \\u0020</string></resources>"),
    ],
)
def test_a_document_that_is_translated_by_the_identity_is_the_same_to_the_byte(name, content):
    assert read_document(content, name).blocks
    assert unchanged(content, name) == content


def test_word_documents_and_their_notes_translated_by_the_identity_are_the_same_file_by_file():
    for content in (docx_bytes(), with_notes()):
        archives = [zipfile.ZipFile(BytesIO(each)) for each in (content, unchanged(content, "a.docx"))]
        before, after = ({name: archive.read(name) for name in archive.namelist()} for archive in archives)
        assert before == after


def test_what_gets_translations_beside_its_texts_keeps_all_else_to_the_byte():
    written = unchanged(XLIFF, "a.xlf")
    state = b' state="needs-review-translation" state-qualifier="mt-suggestion"'
    written = written.replace(b"<target" + state + b">8</target>", b'<target state="new"/>')
    assert re.sub(rb"(?<=</source>)<target" + state + b">.*?</target>", b"", written) == XLIFF
    written = unchanged(PO, "a.po").replace(b"#, fuzzy\n", b"").replace(b'"12\\n"\n"34"\n', b"")
    assert written.replace(b'[0] "5"', b'[0] ""').replace(b'[1] "67"', b'[1] ""') == PO


def test_of_a_pdf_file_the_text_is_translated():
    pytest.importorskip("pypdf", reason="needs pypdf")
    page = b"BT /F1 12 Tf 72 720 Td (12 34) Tj 0 -20 Td (56) Tj ET"
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(page), page),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    content = b"%PDF-1.4\n" + b"".join(b"%d 0 obj%s endobj\n" % part for part in enumerate(parts, 1))
    content += b"trailer<</Root 1 0 R/Size 6>>\nstartxref\n0\n%%EOF"
    assert upper(content, "a.pdf") == b"[12 34]\n[56]"
    with pytest.raises(DataError, match=r"a\.pdf: not a PDF file that can be read"):
        read_document(b"%PDF-1.4 x", "a.pdf")


def test_html_keeps_its_markup():
    assert upper(HTML, "a.html") == b"\xef\xbb\xbf<!doctype html><p class=a>[12] <b>[34]</b></p><ul><li>[5]<li>[6]</ul>"


def test_subtitles_keep_times_italics_and_the_number_of_lines():
    written = upper(SRT.replace(b"\r\n", b"\n"), "a.srt").decode()
    assert "00:00:01,000 --> 00:00:02,500\n<i>[12\n345]</i>\n" in written
    assert "2\n00:00:03,000 --> 00:00:04,000\n[67]\n" in written


@pytest.mark.parametrize(
    ("translation", "lines"),
    [
        ("你和王芳是最好的朋友。", "你和王芳是\n最好的朋友。"),
        ("我最喜欢《红楼梦》", "我最喜欢\n《红楼梦》"),
        ("她说“好”。", "她说\n“好”。"),
        ("word", "word"),
        ("one two three", "one two\nthree"),
    ],
)
def test_a_subtitle_of_two_lines_stays_one_in_languages_without_spaces(translation, lines):
    document = read_document(b"1\n00:00:01,000 --> 00:00:02,500\n12\n345\n", "a.srt")
    (block,) = document.blocks
    assert document.content_with([block.from_texts([translation])]).decode().splitlines()[2:] == lines.split("\n")


@pytest.mark.parametrize("dash", ["- ", "-", "– ", "{\\an8}- "])
def test_what_several_speakers_say_in_one_subtitle_is_translated_line_by_line(dash):
    written = upper(f"1\n00:00:01,000 --> 00:00:02,500\n{dash}12\n- <i>34</i>\n\n".encode(), "a.srt").decode()
    assert written.splitlines()[2:-1] == [f"{dash}[12]", "- <i>[34]</i>"]


def test_a_subtitle_of_which_one_line_opens_with_a_dash_is_one_text():
    document = read_document(b"1\n00:00:01,000 --> 00:00:02,500\n12\n- 345\n", "a.srt")
    assert [block.plain() for block in document.blocks] == ["12 - 345"]


def test_the_position_of_a_subtitle_is_not_translated():
    cue = b"1\n00:00:01,000 --> 00:00:02,500\n{\\an8}12 {34}\n\n"
    assert upper(cue, "a.srt") == cue.replace(b"12 {34}", b"[12 {34}]")


def test_white_space_around_the_texts_of_a_page_stays():
    page = b"<html>\n  <body>\n\t<p>\n 12\n</p>\n\n<b> </b>\n<hr>\n <i> 34 </i>  </body>\n</html>\n"
    assert upper(page, "a.html") == page.replace(b"12", b"[12]").replace(b"34", b"[34]")


@pytest.mark.parametrize(("name", "content"), [("a.html", HTML + b"\n<p>8\n"), ("a.srt", SRT), ("a.po", PO)])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_the_byte_order_mark_stay(name, content, line_end, mark):
    plain = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    written = upper(mark + plain.replace(b"\n", line_end), name)
    assert written == mark + upper(plain, name).replace(b"\n", line_end)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_stays_utf_16(encoding):
    plain, mark = SRT.decode(), "" if encoding == "utf-16" else "\ufeff"
    assert upper((mark + plain).encode(encoding), "a.srt") == (mark + upper(SRT, "a.srt").decode()).encode(encoding)


def test_catalogs_get_what_they_lack_marked_fuzzy():
    written = upper(PO, "a.po").decode()
    assert '#: app.c:7\n#, fuzzy\nmsgid "12\\n34"\nmsgstr ""\n"[12]\\n"\n"[34]"' in written
    assert 'msgid "kept"\nmsgstr "as it was"' in written
    assert 'msgstr[0] "[5]"\nmsgstr[1] "[67]"' in written
    assert written.count("fuzzy") == 2
    assert "#. a comment" in written


@pytest.mark.skipif(sys.platform == "win32", reason="needs a file name with quotation marks and a line break")
def test_a_catalog_is_never_taken_for_the_name_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'msgid "1"\n').write_text('msgid "secret"\nmsgstr ""\n')
    document = read_document(b'msgid "1"', "a.po")
    assert [block.plain() for block in document.blocks] == ["1"]


def test_xliff_gets_targets_with_their_inline_codes():
    written = upper(XLIFF, "a.xlf").decode()
    target = f'<target{STATE}>[12] <g id="1" x:y="&amp;">[34]</g><x id="2"/> [5 &lt; 6]</target>'
    assert target in written.replace(' xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:x="urn:x"/>', "/>")
    assert "<source>7</source><target>kept</target>" in written
    assert f"<target{STATE}>[8]</target>" in written
    assert read_document(written.encode(), "a.xlf").blocks == []


def test_notes_and_comments_of_word_documents_are_translated():
    written = upper(with_notes(), "a.docx")
    with zipfile.ZipFile(BytesIO(written)) as archive:
        for kind in ("footnote", "endnote"):
            root = ElementTree.fromstring(archive.read(f"word/{kind}s.xml"))
            separator, note = root
            assert separator.find(f".//{{{WORD}}}separator") is not None
            runs = note.findall(f".//{{{WORD}}}r")
            assert runs[0].find(f"{{{WORD}}}{kind}Ref") is not None
            assert "".join(note.itertext()).split() == ["[34]", "[56]"]
            assert [
                run.find(f"{{{WORD}}}rPr/{{{WORD}}}b") is not None for run in runs if "56" in "".join(run.itertext())
            ]
    document = pytest.importorskip("docx").Document(BytesIO(written))
    assert [comment.text for comment in document.comments] == ["[78]"]
    references = [child.tag for run in document.paragraphs[0].runs for child in run._r if "Reference" in child.tag]
    assert references[:2] == [f"{{{WORD}}}footnoteReference", f"{{{WORD}}}endnoteReference"]


@pytest.mark.parametrize(
    "notes",
    [b"no XML", b"", b'<!DOCTYPE x [<!ENTITY a "b">]><w:x xmlns:w="' + WORD.encode() + b'"><w:p><w:r><w:t>&a;'],
)
def test_notes_that_are_no_xml_are_told(notes):
    with pytest.raises(DataError, match=r"word/footnotes.xml: (not well-formed XML|it declares entities)"):
        read_document(with_notes(notes), "a.docx")


def field(code: str, result: str) -> str:
    """A field of a Word document, as runs."""
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    middle = f"<w:r><w:instrText>{code}</w:instrText></w:r>" + mark.format("separate") + f"<w:r>{result}</w:r>"
    return mark.format("begin") + middle + mark.format("end")


@pytest.mark.parametrize(
    ("content", "written"),
    [
        (field("PAGE", "<w:t>1</w:t>"), ["[of]", "1", "[to]"]),
        ('<w:fldSimple w:instr="PAGE"><w:r><w:t>1</w:t></w:r></w:fldSimple>', ["[of]", "1", "[to]"]),
        (field("HYPERLINK x", "<w:t>one</w:t>"), ["[of]", "[one]", "[to]"]),
        (field("REF x", "<w:t>one</w:t>"), ["[of]", "[one]", "[to]"]),
        (field("FORMTEXT", "<w:t>one</w:t>"), ["[of]", "[one]", "[to]"]),
        (field("REF x", "<w:t>1.2</w:t>"), ["[of]", "1.2", "[to]"]),
        (field("AUTHOR", "<w:t>one</w:t>"), ["[of]", "one", "[to]"]),
        (field("IF", f"<w:t>1</w:t></w:r>{field('PAGE', '<w:t>2</w:t>')}<w:r>"), ["[of]", "1", "2", "[to]"]),
        ('<w:r><w:fldChar w:fldCharType="end"/></w:r><w:r><w:t>one</w:t></w:r>', ["[of]", "[one to]"]),
    ],
)
def test_fields_of_word_documents_stay_and_links_are_translated(content, written):
    docx = pytest.importorskip("docx", reason="needs python-docx")
    from docx.oxml.parser import parse_xml

    text = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    document = docx.Document()
    paragraph = f'<w:p xmlns:w="{WORD}">{text.format("of ")}{content}{text.format(" to")}</w:p>'
    document.element.body.insert(0, parse_xml(paragraph))
    file = BytesIO()
    document.save(file)
    body = docx.Document(BytesIO(upper(file.getvalue(), "a.docx"))).element.body
    assert [part.text.strip() for part in body.iter(f"{{{WORD}}}t") if part.text.strip()] == written
    fields = [[each.tag for each in root.iter() if "fld" in each.tag] for root in (body, document.element.body)]
    assert fields[0] == fields[1]


def test_units_that_are_not_to_be_translated_stay_and_a_target_follows_the_segments():
    unit = '<trans-unit id="{}"{}><source>{}</source>{}</trans-unit>'
    segments = '<seg-source><mrk mtype="seg" mid="1">4</mrk></seg-source>'
    excluded = unit.format(1, ' translate="no"', 1, "")
    wanted = unit.format(3, ' translate="yes"', 3, "{}")
    group = f'<group translate="no">{unit.format(2, "", 2, "")}{wanted}</group>'
    units = excluded + group.format("") + unit.format(4, "", 4, segments)
    written = upper(f'<xliff version="1.2"><file><body>{units}</body></file></xliff>'.encode(), "a.xlf").decode()
    assert excluded + group.format(f"<target{STATE}>[3]</target>") in written
    segment = f'<target{STATE}><mrk mtype="seg" mid="1">[4]</mrk></target>'
    assert unit.format(4, "", 4, f"{segments}{segment}") in written


def test_word_documents_keep_formatting_tables_and_headers():
    content = upper(docx_bytes(), "a.docx")
    written = pytest.importorskip("docx").Document(BytesIO(content))
    paragraph = written.paragraphs[0]
    assert paragraph.text == "[12] [34] [56]"
    assert [run.text for run in paragraph.runs if run.bold] == ["[34]"]
    assert written.paragraphs[2].text == "[1]\t[2][3.]"
    inner = written.paragraphs[3]._p.findall(f".//{{{WORD}}}txbxContent//{{{WORD}}}t")
    assert [text.text.strip() for text in inner] == ["[a1]"]
    assert written.paragraphs[3].text.split() == ["[a1]", "[2]"]
    assert [cell.text for cell in written.tables[0].rows[0].cells] == ["[7]", "[89]"]
    assert written.sections[0].header.paragraphs[0].text == "[1]"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.docx", b"PK nothing", "not a .docx file"),
        ("a.xlf", b"<xliff", "not well-formed XML"),
        ("a.xlf", b"<tmx/>", "not a known format: it starts with <tmx>, not <resources>, <svg> or <xliff>"),
        ("a.po", b"/etc/passwd", "not a gettext catalog"),
        ("a.srt", b"\xff\xff\xff", "neither UTF-8 nor UTF-16"),
        ("a.srt", b"hello", "not subtitles: no subtitle starts here"),
    ],
)
def test_what_is_no_such_document_is_refused(name, content, message):
    with pytest.raises(DataError, match=f"{name}.*: {message}"):
        read_document(content, name)


def test_entities_and_bombs_are_not_read(monkeypatch):
    declared = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><xliff version="1.2"><file><body>'
    unit = b'<trans-unit id="1"><source>1 &a; 2</source></trans-unit></body></file></xliff>'
    with pytest.raises(DataError, match=r"a\.xlf:1: it declares entities, which are not expanded"):
        read_document(declared + unit, "a.xlf")
    monkeypatch.setattr(archives, "MAX_BYTES", 10_000)
    with pytest.raises(DataError, match=r"larger than 10,000 bytes when unpacked"):
        read_document(docx_bytes(), "a.docx")


def word_file(body: str) -> bytes:
    """A Word document with this body."""
    content = BytesIO()
    pytest.importorskip("docx", reason="needs python-docx").Document().save(content)
    packed = BytesIO()
    with zipfile.ZipFile(content) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for part in source.infolist():
            target.writestr(part, source.read(part).replace(b"<w:body>", f"<w:body>{body}".encode()))
    return packed.getvalue()


TEXT = "<w:r><w:t>a</w:t></w:r>"
MANY_ATTRIBUTES = " ".join(f"a{number}=''" for number in range(39))
BOLD = "<w:rPr>" + "<w:b/>" * 1000 + "</w:rPr>"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("<w:p/>" * 200_000, "more than 200,000 elements and attributes", marks=pytest.mark.slow),
        (f"<w:p {MANY_ATTRIBUTES}/>" * 5001, "more than 200,000 elements and attributes"),
        (f"<w:p><w:r><w:t>{'a' * 1_000_000}</w:t></w:r></w:p>" * 4, "larger than 4,000,000 bytes when unpacked"),
        (f"<w:p><w:r>{BOLD}{'<w:tab/>' * 1000}</w:r></w:p>", "too much formatting"),
        (f"<w:p><w:r>{BOLD}<w:t>a</w:t></w:r>{TEXT * 1000}</w:p>", "too much formatting"),
    ],
)
def test_what_a_word_document_of_a_stranger_takes_in_memory_is_limited(body, message):
    content = word_file(body)
    with pytest.raises(DataError, match=message):
        read_document(content, "a.docx", 100_000)
    assert read_document(content, "a.docx") is not None
    assert len(read_document(docx_bytes(), "a.docx", 100_000).blocks) == len(
        read_document(docx_bytes(), "a.docx").blocks
    )


MARK = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
UNIT = "<trans-unit>{}</trans-unit>"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", lambda: word_file(f"<w:p><w:r>{'<w:tab/>' * 9000}<w:t>a</w:t></w:r></w:p>")),
        pytest.param(
            "a.docx",
            lambda: word_file(f"<w:p>{TEXT}{MARK.format('begin') * 9000}{MARK.format('end') * 9000}</w:p>"),
            marks=pytest.mark.slow,
        ),
        ("a.srt", lambda: (CUE + "a a\n" * 30_000).encode()),
        ("a.srt", lambda: (CUE + "<a " * 60_000 + "\na").encode()),
        ("a.json", lambda: b'["' + b"a-" * 50_000 + b' b", "' + b"-" * 50_000 + b' b", "' + b"a." * 50_000 + b' b"]'),
        ("a.txt", lambda: b" \t" * 50_000 + b"a"),
        ("a.txt", lambda: b"\t " * 50_000 + b"a"),
        ("a.xlf", lambda: f"<xliff><file>{UNIT.format('<source>a</source>' * 30_000)}</file></xliff>".encode()),
    ],
)
def test_the_time_for_a_document_grows_with_its_size(name, content):
    written = content()
    started = time.process_time()
    upper(written, name)
    assert time.process_time() - started < 8


LONG = "a " * 500_001
HUGE = "paragraph 1 has 1,000,00[12] characters; the limit is 1,000,000"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.html", f"<p>{LONG}</p>", HUGE),
        ("a.srt", CUE + LONG, HUGE),
        ("a.po", f'msgid "{LONG}"\n', HUGE),
        ("a.po", 'msgid ""\n' + f'"{LONG[:9000]}"\n' * 112, "paragraph 1 has 1,007,999 characters"),
        ("a.xlf", f"<xliff><file>{UNIT.format(f'<source>{LONG}</source>')}</file></xliff>", HUGE),
    ],
)
def test_a_paragraph_that_would_take_gigabytes_is_refused(name, content, message):
    with pytest.raises(DataError, match=message):
        read_document(content.encode(), name)


def test_a_document_is_translated_part_by_part_and_its_progress_is_told(letters_run, tmp_path, monkeypatch):
    (tmp_path / "in.html").write_text("".join(f"<p>{number}</p>" for number in range(50)))
    sizes, translate = [], Chain.translate_block
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    monkeypatch.setattr(Chain, "translate_block", lambda *a, **k: sizes.append(len(a[1])) or translate(*a, **k))
    command = ["translate", "-m", str(letters_run), "--device", "cpu", str(tmp_path / "in.html")]
    done = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "out.html")])
    assert done.exit_code == 0, done.output
    assert sizes == [16, 32, 2]
    assert "17 of 50 paragraphs translated, " in done.stderr
    assert (tmp_path / "out.html").read_text().count("<p>") == 50


def test_tabs_keep_the_formatting_of_their_run():
    pytest.importorskip("docx", reason="needs python-docx")
    run = '<w:r w:rsidR="1"><w:rPr><w:u/></w:rPr><w:tab/><w:t>a</w:t><w:tab/></w:r>'
    written = upper(word_file(f"<w:p>{run}</w:p>"), "a.docx")
    with zipfile.ZipFile(BytesIO(written)) as archive:
        runs = ElementTree.fromstring(archive.read("word/document.xml")).findall(f".//{{{WORD}}}r")
    names = [[child.tag.partition("}")[2] for child in run] for run in runs]
    assert names == [["rPr", "tab"], ["rPr", "t"], ["rPr", "tab"]]
    assert all(run.get(f"{{{WORD}}}rsidR") == "1" for run in runs)


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("00:00:00,000" + "\n" * 200_000, 1, "no subtitle starts here"),
        ("\n" * 200_000 + "a", 200_001, "no subtitle starts here"),
        ("1\n2\nb\n" + CUE, 3, "no subtitle starts here"),
    ],
)
def test_a_subtitle_that_cannot_be_read_is_told_by_its_line(content, line, message):
    with pytest.raises(DataError, match=f"not subtitles: {message}") as refused:
        read_document(content.encode(), "a.srt")
    assert refused.value.line == line


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n\n", "\ufeff\n", "\ufeff\ufeff"])
def test_a_file_without_subtitles_is_written_without_subtitles(content):
    assert upper(content.encode(), "a.srt").decode() == content


def test_a_second_byte_order_mark_is_not_text():
    assert upper(f"\ufeff\ufeff{CUE}a\n".encode(), "a.srt").decode() == f"\ufeff\ufeff{CUE}[a]\n"


def test_the_command_writes_a_translated_document(letters_run, tmp_path):
    (tmp_path / "in.html").write_bytes(b"<p>12 <b>34</b> 56</p><p>7</p>")
    command = ["translate", "-m", str(letters_run), "--device", "cpu", str(tmp_path / "in.html")]
    done = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "out.html")])
    assert done.exit_code == 0, done.output
    written = (tmp_path / "out.html").read_text()
    seven = Translator.load(letters_run, device="cpu").translate(["7"])[0].text
    assert written.endswith(f"</p><p>{seven}</p>")
    assert written.count("<b>") == 1
    assert CliRunner().invoke(app, command).exit_code == 2
    assert CliRunner().invoke(app, [*command, "-o", str(tmp_path / "out.docx")]).exit_code == 2
    (tmp_path / "in.html").write_bytes(b"\xff")
    assert CliRunner().invoke(app, [*command, "-o", str(tmp_path / "new.html")]).exit_code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.html", "out.html"]


TOO_LONG = "x" * 60  # for an output of the model


@pytest.mark.parametrize(("protect", "missed"), [(True, ["12"]), (False, ["34", "12"])])
def test_a_term_within_a_protected_span_of_a_document_is_not_missed(letters_run, protect, missed):
    document, glossary = (
        read_document(b"<p>http://a.org/34 <b>12</b></p>", "a.html"),
        Glossary({"34": TOO_LONG, "12": TOO_LONG}),
    )
    with Translator.load(letters_run, device="cpu") as translator:
        options = translator.options.changed(protect=protect)
        found = list(translate_blocks(Chain([translator]), document.blocks, Request(options, glossary=glossary)))
    assert [term.source for block in found for term in block.terms_missed] == missed


LANGUAGES = {
    ".po": 'msgid ""\nmsgstr "Language: {}\\n"\n\nmsgid "a b"\nmsgstr ""\n',
    ".xlf": '<xliff version="1.2"><file target-language="{}"><body><trans-unit id="1"><source>a b</source></trans-unit>'
    "</body></file></xliff>",
    ".xliff": '<xliff version="2.0" srcLang="de" trgLang="{}"><file id="1"><unit id="1"><segment><source>a b</source>'
    "</segment></unit></file></xliff>",
}
PAGES = {
    '<!doctype html><html class="a" lang="de-AT"><p lang="de">a b': '<html class="a" lang="en"><p lang="de">',
    "<HTML xml:lang='de' lang=de><p>a b": '<HTML xml:lang="en" lang="en"><p>',
    """<html data-lang="x" title='a lang="y"'><p>a b""": """<html data-lang="x" title='a lang="y"'><p>""",
    '<p lang="de">a b': '<p lang="de">',
    "<html><body lang=DE dir='rtl'><p lang=de>a b": '<html><body lang="en" dir="ltr"><p lang=de>',
}


@pytest.mark.parametrize("suffix", LANGUAGES)
@pytest.mark.parametrize(("named", "written"), [("qq", "qq"), ("{}-XX", "{}-XX"), ("", "{}")])
def test_a_file_that_names_no_language_gets_one_and_another_is_warned_of(letters_run, tmp_path, suffix, named, written):
    tgt = RunDir(letters_run).config().data.tgt_lang
    source, output = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    source.write_text(LANGUAGES[suffix].format(named.format(tgt)))
    done = CliRunner().invoke(app, ["translate", str(source), "-o", str(output), "-m", str(letters_run)])
    assert done.exit_code == 0, done.output
    said = f"asks for translations into qq; this model translates into {tgt}"
    assert (said in " ".join(done.stderr.split())) == (named == "qq")
    beginning = LANGUAGES[suffix].partition("{}")[0].rpartition(" ")[2]
    assert beginning + written.format(tgt) in output.read_text()


def test_a_catalog_without_a_header_gets_none(letters_run, tmp_path):
    (tmp_path / "a.po").write_text('msgid "a b"\nmsgstr ""\n')
    command = ["translate", str(tmp_path / "a.po"), "-o", str(tmp_path / "b.po"), "-m", str(letters_run)]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert "Language" not in (tmp_path / "b.po").read_text()


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".arb", '{{"@@locale": "{}", "a": "b", "@a": {{"description": "c"}}}}'),
        (".md", '---\ntitle: "a"\nlang: {}\n---\nlang: de\n'),
        (".qmd", "---\r\nlang: '{}'\r\nx: y\r\n---\r\na\r\n"),
        (".vtt", "WEBVTT\nKind: captions\nLanguage: {}\n\n00:01.000 --> 00:02.000\nLanguage: de\n"),
        (".svg", '<svg xml:lang="{}"><text xml:lang="de">a</text></svg>'),
    ],
)
def test_a_file_that_names_its_language_names_that_of_its_translation(suffix, text):
    document = read_document(text.format("de-AT").encode(), f"a{suffix}")
    document.name_language("en")
    assert document.content_with([block.raw for block in document.blocks]).decode() == text.format("en")


@pytest.mark.parametrize("text", ["---\nlang: [de]\n---\na\n", "lang: de\n", "---\na: b\n---\nlang: de\n"])
def test_a_page_that_names_no_language_stays_as_it_is(text):
    document = read_document(text.encode(), "a.md")
    document.name_language("en")
    assert document.content_with([block.raw for block in document.blocks]).decode() == text


@pytest.mark.parametrize("name", ["a.xml", "a.sdlxliff", "a.mqxliff", "a.mxliff", "a.XLF"])
def test_xliff_is_known_by_its_content(name):
    document = read_document(LANGUAGES[".xlf"].encode(), name)
    assert document.name_language("en") == "{}"
    assert b"<target state=" in document.content_with(["A B"])
    with pytest.raises(DataError, match=r"it starts with <TS>, not <resources>, <svg> or <xliff>"):
        read_document(b"<x:TS xmlns:x='y'/>", name)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_gets_the_language_of_its_translation(page):
    document = read_document(page.encode(), "a.html")
    document.name_language("en")
    assert PAGES[page] in document.content_with([block.raw for block in document.blocks]).decode()
