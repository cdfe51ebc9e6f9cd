"""Runs of Word documents: what editing leaves needs no tags, and tracked changes, fields and links stay."""

from __future__ import annotations

import zipfile
from io import BytesIO

import pytest

from nmt.apps.documents.formats import read_document
from tests.apps.documents.written import unchanged, upper

FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'


def word_file(paragraph: str) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("word/document.xml", f'<w:document xmlns:w="urn:w"><w:p>{paragraph}</w:p></w:document>')
    return content.getvalue()


def run(text: str, properties: str = "", attributes: str = "") -> str:
    return f"<w:r{attributes}>{properties}<w:t>{text}</w:t></w:r>"


SPLIT = (
    '<w:bookmarkStart w:id="1"/>'
    + run("Hel", attributes=' w:rsidR="00A1"')
    + '<w:proofErr w:type="spellStart"/>'
    + run("lo", '<w:rPr><w:lang w:val="de"/><w:noProof/></w:rPr>')
    + "<w:r><w:lastRenderedPageBreak/><w:softHyphen/></w:r>"
    + run(" you")
    + '<w:bookmarkEnd w:id="1"/>'
)
BOLD = "<w:rPr><w:b/></w:rPr>"
TRACKED = run("a ") + f"<w:ins>{run('b')}</w:ins><w:del><w:r><w:delText>c</w:delText></w:r></w:del>" + run(" d")
CONTENTS = (
    FIELD.format("begin")
    + "<w:r><w:instrText>TOC \\o</w:instrText></w:r>"
    + FIELD.format("separate")
    + f"<w:hyperlink>{run('Title')}<w:r><w:tab/></w:r>{FIELD.format('begin')}<w:r><w:instrText>PAGEREF x</w:instrText>"
    + f"</w:r>{FIELD.format('separate')}{run('5')}{FIELD.format('end')}</w:hyperlink>"
)


@pytest.mark.parametrize(
    ("paragraph", "texts"),
    [
        (SPLIT, ["Hello you"]),
        (TRACKED, ["a {h0}b{h1}{h2} d"]),
        (run("some words ") + run("b ", BOLD) + run("c", BOLD) + run(" d"), ["some words {h0}b c{h1} d"]),
        (CONTENTS, ["Title"]),
        *(
            (f'{run("a ")}<w:fldSimple w:instr=" {kind} x">{run("b")}</w:fldSimple>', [text])
            for kind, text in [
                ("DOCPROPERTY", "a {h0}b{h1}"),
                ("TITLE", "a {h0}b{h1}"),
                ("BIBLIOGRAPHY", "a {h0}b{h1}"),
                ("AUTHOR", "a {h0}"),
                ("ADDIN", "a {h0}"),
            ]
        ),
        (run("a") + f"<w:r><w:ruby><w:rt>{run('b')}</w:rt><w:rubyBase>{run('c')}</w:rubyBase></w:ruby></w:r>", ["ac"]),
        (run("a") + "<w:r><w:t>b</w:t><w:br/><w:t>c</w:t><w:tab/><w:t>d</w:t></w:r>", ["ab", "c", "d"]),
        (f"{run('a ')}<w:hyperlink>{run('b', '<w:rPr><w:u/></w:rPr>')}</w:hyperlink>", ["a {h0}b{h1}"]),
        (f"<w:sdt><w:sdtPr/><w:sdtContent>{run('a')}</w:sdtContent></w:sdt>", ["a"]),
        (f"{run('x ')}<m:oMath><m:r><m:t>y</m:t></m:r></m:oMath>{run(' z')}", ["x {h0} z"]),
    ],
)
def test_the_text_of_a_paragraph_is_one_whatever_editing_left_in_it(paragraph, texts):
    paragraph = paragraph.replace("<m:oMath>", '<m:oMath xmlns:m="urn:m">')
    content = word_file(paragraph)
    assert [block.with_marks() for block in read_document(content, "a.docx").blocks] == texts
    assert unchanged(content, "a.docx") == content


@pytest.mark.parametrize("paragraph", [TRACKED, CONTENTS])
def test_tracked_deletions_and_fields_stay_and_insertions_stay_insertions(paragraph):
    with zipfile.ZipFile(BytesIO(upper(word_file(paragraph), "a.docx"))) as archive:
        written = archive.read("word/document.xml").decode()
    kept = ["<w:delText>c</w:delText>", '<w:ins><w:r><w:t xml:space="preserve">[b]</w:t></w:r></w:ins>']
    field = ["PAGEREF x", "TOC \\o", ">5</w:t>", "[Title]</w:t></w:r><w:r><w:tab/></w:r>", "</w:hyperlink></w:p>"]
    assert all(each in written for each in (kept if paragraph is TRACKED else field))
