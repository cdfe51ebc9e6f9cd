"""Slides, OpenDocument and e-books: the texts people read are translated, every other file stays to the byte."""

from __future__ import annotations

import zipfile
from io import BytesIO

import pytest

from nmt.apps.documents.formats import read_document
from nmt.base.errors import DataError
from tests.apps.documents.written import unchanged, upper

A = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDE = f"""\
<?xml version="1.0"?><p:sld xmlns:a="{A}" xmlns:p="urn:p"><p:cNvPr id="1" name="n" descr="a picture"/>
<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="de" dirty="0"/><a:t>12 </a:t></a:r>
<a:r><a:rPr lang="en-US" err="1"/><a:t>3</a:t></a:r>
<a:r><a:rPr b="1"/><a:t>4</a:t></a:r><a:br><a:rPr/></a:br><a:r><a:t>a&amp;b\tc</a:t></a:r>
<a:fld type="slidenum"><a:t>7</a:t></a:fld><a:endParaRPr/></a:p></p:sld>"""
ODF = """<?xml version="1.0"?><office:text xmlns:office="urn:o" xmlns:text="urn:t" xmlns:draw="urn:d" xmlns:svg="urn:s">
<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:h>1</text:h>
<text:p>2 <text:span text:style-name="T">3
</text:span><text:s/>4<text:note><text:note-citation>1</text:note-citation><text:note-body>
<text:p>5</text:p></text:note-body></text:note> 6<text:line-break/>7 <text:page-number>8</text:page-number></text:p>
<draw:frame><svg:desc>9</svg:desc></draw:frame>
</office:text>"""
META = """<m:meta xmlns:m="urn:m" xmlns:d="urn:d"><d:title>i</d:title><d:creator>me</d:creator>
<m:keyword>j</m:keyword></m:meta>"""
OPF = """<package xmlns:dc="urn:dc"><dc:title>1</dc:title><dc:creator>me</dc:creator><dc:language>de</dc:language>
</package>"""
PAGE = '<!DOCTYPE html><html xml:lang="de"><body><p>1&nbsp;2 <i>3</i><br/>4<img alt="5" src="6"/></p></body></html>'
FILES = {
    "a.pptx": {"ppt/slides/slide1.xml": SLIDE, "ppt/theme/theme1.xml": "<a>1</a>"},
    "a.odt": {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": ODF,
        "styles.xml": "<p>h</p>",
        "meta.xml": META,
    },
    "a.odp": {"content.xml": ODF},
    "a.ods": {"content.xml": ODF},
    "a.epub": {"mimetype": "application/epub+zip", "OEBPS/a.xhtml": PAGE, "OEBPS/content.opf": OPF},
}


def packed(files: dict[str, str | bytes]) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text, zipfile.ZIP_STORED if name == "mimetype" else None)
    return content.getvalue()


def unpacked(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.parametrize("name", FILES)
def test_an_archive_that_is_translated_by_the_identity_is_the_same_file_by_file(name):
    content = packed(FILES[name])
    assert unpacked(unchanged(content, name)) == FILES[name]
    written = BytesIO(unchanged(content, name))
    before, after = (zipfile.ZipFile(file).infolist() for file in (BytesIO(content), written))
    assert [(each.filename, each.compress_type, each.date_time) for each in before] == [
        (each.filename, each.compress_type, each.date_time) for each in after
    ]


def test_slides_keep_formatting_breaks_tabs_and_fields_and_join_runs_that_look_the_same():
    document = read_document(packed(FILES["a.pptx"]), "a.pptx")
    assert [block.with_marks() for block in document.blocks] == ["a picture", "12 3{h0}4{h1}", "a&b", "c{h0}"]
    written = unpacked(upper(packed(FILES["a.pptx"]), "a.pptx"))["ppt/slides/slide1.xml"]
    assert 'descr="[a picture]"' in written
    assert '<a:r><a:rPr lang="de" dirty="0"/><a:t>[12 3] </a:t></a:r>' not in written
    assert '<a:t>[12 3]</a:t></a:r><a:r><a:rPr b="1"/><a:t>[4]</a:t></a:r><a:br><a:rPr/></a:br>' in written
    assert "<a:t>[a&amp;b]</a:t></a:r><a:r><a:t>\t</a:t></a:r><a:r><a:t>[c]</a:t></a:r>" in written


def test_open_documents_keep_tracked_changes_and_fields_and_translate_notes_and_descriptions():
    document = read_document(packed(FILES["a.odt"]), "a.odt")
    texts = [block.with_marks() for block in document.blocks]
    assert texts == ["1", "5", "2 {h0}3 {h1} 4{h2} 6", "7 {h0}", "9", "h", "i", "j"]
    written = unpacked(upper(packed(FILES["a.odt"]), "a.odt"))["content.xml"]
    assert "<text:p>gone</text:p>" in written
    assert "<text:note-body>\n<text:p>[5]</text:p></text:note-body>" in written
    assert "[6]<text:line-break/>[7] <text:page-number>8</text:page-number></text:p>" in written
    assert "<svg:desc>[9]</svg:desc>" in written


def test_a_book_gets_its_title_alternative_texts_and_languages():
    content = packed(FILES["a.epub"])
    document = read_document(content, "a.epub")
    document.name_language("en")
    texts = [[f"[{text}]" for text in block.texts()] for block in document.blocks]
    written = unpacked(
        document.content_with([block.from_texts(each) for block, each in zip(document.blocks, texts, strict=True)])
    )
    assert (
        "<dc:title>[1]</dc:title><dc:creator>me</dc:creator><dc:language>en</dc:language>"
        in written["OEBPS/content.opf"]
    )
    assert (
        '<html xml:lang="en"><body><p>[1\u00a02] <i>[3]</i><br/>[4]<img alt="[5]" src="6"/></p>'
        in written["OEBPS/a.xhtml"]
    )


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x><p>&b;</p></x>'
EXTERNAL = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x><p>&a;</p></x>'


PARTS = {
    "cells that show a value of their own": (
        "a.ods",
        "content.xml",
        '<t:table xmlns:t="urn:t" xmlns:office="urn:o" xmlns:text="urn:x"><t:table-cell office:value-type="string" '
        'office:string-value="a"><text:p>b</text:p></t:table-cell><text:user-field-decl office:value-type="string" '
        'office:string-value="x"/></t:table>',
        ["a", "b"],
    ),
    "footers of slides": (
        "a.odp",
        "content.xml",
        '<p:presentation xmlns:p="urn:p"><p:footer-decl p:name="f">a b</p:footer-decl></p:presentation>',
        ["a b"],
    ),
    "the title that an index gets when it is made anew": (
        "a.odt",
        "content.xml",
        '<t:index-body xmlns:t="urn:t"><t:index-title-template>a b</t:index-title-template></t:index-body>',
        ["a b"],
    ),
    "chapters with another ending": ("a.epub", "OPS/a.xml", "<html><body>a <i>b</i></body></html>", ["a {h0}b{h1}"]),
    "titles of newer charts": (
        "a.pptx",
        "ppt/charts/chartEx1.xml",
        '<c:chart xmlns:c="urn:c" xmlns:a="urn:a"><a:p><a:r><a:t>a b</a:t></a:r></a:p></c:chart>',
        ["a b"],
    ),
    "embedded pages": ("a.docx", "word/chunk.html", "<p>a <b>b</b></p>", ["a {h0}b{h1}"]),
}


@pytest.mark.parametrize("kind", PARTS)
def test_texts_in_parts_that_few_programs_write_are_translated(kind):
    name, path, text, marked = PARTS[kind]
    document = read_document(packed({path: text, "META-INF/a.xml": "<a>x</a>"}), name)
    assert [block.with_marks() for block in document.blocks] == marked


def encrypted(content: bytes) -> bytes:
    """Set the flag of encryption in the local and the central header of the first file."""
    changed = bytearray(content)
    changed[6] |= 1
    changed[changed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.odt", "a.odp", "a.epub"])
def test_hostile_archives_are_refused(name):
    text = {"docx": "word/document.xml", "pptx": "ppt/slides/slide1.xml", "epub": "toc.ncx"}.get(
        name[2:], "content.xml"
    )
    good = packed({text: "<x><p>1</p></x>"})
    manifest = '<manifest:file-entry><manifest:encryption-data checksum="a"/></manifest:file-entry>'
    deep = "<p><q>" * 150 + "</q></p>" * 150
    twice = BytesIO(good)
    with zipfile.ZipFile(twice, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(text, "<x/>")
    for content, message in [
        (b"", f"not a {name[1:]} file"),
        (good[:-40], f"not a {name[1:]} file"),
        (b"\xd0\xcf\x11\xe0" + bytes(2000), "encrypted, or in an old format"),
        (encrypted(good), "encrypted"),
        (packed({text: "<x/>", "META-INF/manifest.xml": manifest}), "encrypted"),
        (packed({"a": "<x/>"}), "it lacks the files that hold the text"),
        (packed({text: "<x/>", "../../x": ""}), "a path leads out of it"),
        (packed({text: "<x/>", "/etc/x": ""}), "a path leads out of it"),
        (twice.getvalue(), "two of its files have one name"),
        (packed({text: "<x/>", "b": bytes(4_100_000)}), "larger than 4,000,000 bytes when unpacked"),
        (packed({text: "<x a=''/>" * 300_000}), "elements and attributes|larger than"),
        (packed({text: ENTITIES}), f"{text}: it declares entities"),
        (packed({text: EXTERNAL}), f"{text}: it declares entities"),
        (packed({text: "<x><p>1</x>"}), f"{text}: not well-formed XML"),
        *([(packed({text: f"<x>{deep}</x>"}), f"{text}: elements nested too deeply")] if name != "a.epub" else []),
    ]:
        with pytest.raises(DataError, match=message):
            read_document(content, name, 400_000)
